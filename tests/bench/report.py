# SPDX-License-Identifier: MIT
"""From what was measured to the documentation: `python3 -m tests.bench.report`.

It puts together what the runs have left into one file of JSON, and makes the tables and the plot from that.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from . import plot, tables

DOCS = Path(__file__).parents[2] / "docs" / "bench"
RESULTS = "results.json"


def main() -> int:
    """0 unless a file is missing."""
    parser = argparse.ArgumentParser(prog="tests.bench.report", description="Make the tables and the plot.")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where they go, and where results.json is")
    parser.add_argument("runs", type=Path, nargs="*", help="what runs have left, for results.json")
    options = parser.parse_args()
    path = options.docs / RESULTS
    try:
        if options.runs:
            path.write_text(json.dumps(merged(options.runs), indent=1) + "\n")
        content = json.loads(path.read_text())
    except FileNotFoundError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    write(content, options.docs)
    print(tables.goals(content["results"], content["by_instructions"]))
    return 0


def merged(runs: list[Path]) -> dict[str, Any]:
    """The content of all these files; of what several of them have measured, the last one's."""
    content: dict[str, Any] = {"SPDX-License-Identifier": "MIT", "results": {}, "by_instructions": {}}
    for path in runs:
        run = json.loads(path.read_text())
        for name in ("results", "by_instructions"):
            for case, by_transport in run.pop(name, {}).items():
                content[name].setdefault(case, {}).update(by_transport)
        content.update(run)
    content.pop("cpus", None)
    return content


def write(content: dict[str, Any], docs: Path) -> None:
    """Write all tables and the plot."""
    results = content["results"]
    made = {
        "goals.inc": tables.goals(results, content["by_instructions"]),
        "rates.inc": tables.rates(results),
        "fans.inc": tables.fans(results),
        "senders.inc": tables.senders(results),
        "round-trips.inc": tables.round_trips(results),
        "floods.inc": tables.floods(results),
        "bindings.inc": tables.bindings(results),
        "python.inc": tables.python(results),
        "recording.inc": tables.recording(results),
        "scale.inc": tables.scale(*content["scale"]),
        "instructions.inc": tables.instructions(content["instructions"]),
        "profiles.inc": tables.profiles(content["profiles"]),
        "functions.inc": tables.functions(content["functions"]),
        "bridge-goals.inc": tables.bridge_goals(results, content["by_instructions"]),
        "bridge.inc": tables.bridge(results),
        "bridge-round-trips.inc": tables.bridge_round_trips(results),
        "ratios.svg": plot.svg(results),
    }
    for name, text in made.items():
        (docs / name).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
