# SPDX-License-Identifier: MIT
"""How the figures of the windows are compared, kept and shown.

`python3 -m tests.neighbours.figures FILE` prints the rst table of a file that test_latency_vm.py has left.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.neighbours.bystanders import Window

FILE = "neighbours.json"
QUANTILES = ("p99", "p95", "p90")


def quiet(windows: Sequence[Window], quantile: str) -> float:
    """The lower quartile over the windows of a quantile in microseconds.

    An emulated processor that the host stops makes single windows slow. A bus that keeps others waiting makes
    all of them slow, those of the quietest quarter too.
    """
    values = sorted(float(getattr(window, quantile)) for window in windows)
    return values[len(values) // 4]


class Figure(NamedTuple):
    """What a scenario has come to; times in microseconds."""

    title: str
    limit: str
    windows: int
    idle: dict[str, float]
    hostile: dict[str, float]

    def ratio(self, quantile: str) -> float:
        """Hostile to idle."""
        return self.hostile[quantile] / self.idle[quantile]


def figure(title: str, limit: str, idle: Sequence[Window], hostile: Sequence[Window]) -> Figure:
    """Compare windows with a neighbour to windows without."""
    quantiles = ("p50", *QUANTILES)
    return Figure(
        title,
        limit,
        len(hostile),
        {name: quiet(idle, name) for name in quantiles},
        {name: quiet(hostile, name) for name in quantiles},
    )


def keep(figures: Sequence[Figure], judged_by: str) -> None:
    """Write the figures to $RESULTS, if that is set."""
    if results := os.environ.get("RESULTS"):
        content = {"judged_by": judged_by, "figures": [each._asdict() for each in figures]}
        Path(results, FILE).write_text(json.dumps(content, indent=1))


def table(content: str) -> str:
    """The rst table of a file that `keep` wrote."""
    figures = [Figure(**each) for each in json.loads(content)["figures"]]
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 46 9 9 9 9 9 9", ""]
    header = ("the neighbour", "limit", "idle p50", "p50", "idle p99", "p99", "ratio")
    rows = [header, *(_row(each) for each in figures)]
    for first, *others in rows:
        lines += [f"   * - {first}", *(f"     - {cell}".rstrip() for cell in others)]
    return "\n".join(lines)


def _row(each: Figure) -> tuple[str, ...]:
    times = (each.idle["p50"], each.hostile["p50"], each.idle["p99"], each.hostile["p99"])
    limit = f"``{each.limit}``" if each.limit else "\\"
    return (each.title, limit, *(f"{time:.0f}" for time in times), f"{each.ratio('p99'):.2f}")


if __name__ == "__main__":
    print(
        ".. SPDX-License-Identifier: MIT\n.. Made by tests/neighbours/figures.py from a run of the tests.\n"
    )
    print(table(Path(sys.argv[1]).read_text()))
