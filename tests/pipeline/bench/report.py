# SPDX-License-Identifier: MIT
"""From what was measured to the documentation: `python3 -m tests.pipeline.bench.report RESULTS.json`."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[3] / "docs" / "pipeline" / "bench.inc"
STAGES = ("ingest", "conversations", "aggregate", "report")
#: Messages a CPU second
GOALS = {"ingest": 500_000, "conversations": 600_000}
#: Messages of the demo, and what `run` may take at most, by messages
DEMO_SIZE = 25
RUN_GOALS = {DEMO_SIZE: {"wall": 12, "cpu": 20}, 2_000_000: {"cpu": 60}}
_UNITS = {"cpu": "CPU s", "wall": "s"}
GROWTH_GOAL = 1.2
#: What the page is asked for: devices, and messages a second of each
DEVICES, RATE = 100_000, 1_000
_CORES = 32
_HEAD = ".. SPDX-License-Identifier: MIT\n.. Made by `make bench-pipeline`.\n"


def main() -> int:
    """0 when the file is written."""
    parser = argparse.ArgumentParser(prog="tests.pipeline.bench.report", description="Make the tables.")
    parser.add_argument("results", type=Path)
    parser.add_argument("--output", type=Path, default=DOCS)
    options = parser.parse_args()
    read = json.loads(options.results.read_text())
    demo = read.pop("demo")
    results = {int(size): found for size, found in read.items()}
    text = "\n".join(
        [_HEAD, runs(demo, results), costs(results), growth(results), compared(results), on_paper(results)]
    )
    options.output.write_text(text)
    print(text)
    return 0


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (head, *rows):
        lines += [f"   {'* -' if number == 0 else '  -'} {cell}" for number, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def runs(demo: dict[str, float], results: dict[int, Any]) -> str:
    """Return what `run` costs, with the demo and with each size."""
    sizes = {DEMO_SIZE: demo, **{size: found["run"] for size, found in sorted(results.items())}}
    rows = []
    for size, cost in sizes.items():
        goal = RUN_GOALS.get(size, {})
        is_reached = all(cost[key] <= most for key, most in goal.items())
        said = f"{', '.join(f'{most} {_UNITS[key]}' for key, most in goal.items())}: "
        rows.append(
            (
                f"{size:,}",
                f"{cost['cpu']:.1f}",
                f"{cost['wall']:.1f}",
                f"{cost['memory'] / 2**20:,.0f}",
                said + ("reached" if is_reached else "missed") if goal else "",
            )
        )
    head = ("messages", "CPU s", "s", "peak MiB", "goal")
    return "All stages by ``run``, on one core, once Java's archive is there:\n\n" + table(head, rows)


def costs(results: dict[int, Any]) -> str:
    """Return what each stage costs with each size."""
    rows = [
        (f"{size:,}", stage, *_cost(size, found[stage]))
        for size, found in sorted(results.items())
        for stage in STAGES
    ]
    head = (
        "messages", "stage", "messages a CPU second", "CPU s", "s", "peak MiB", "of a worker", "shuffle MB",
    )  # fmt: skip
    return table(head, rows)


def _cost(size: int, cost: dict[str, float]) -> tuple[str, ...]:
    return (
        f"{size / cost['cpu']:,.0f}",
        f"{cost['cpu']:.1f}",
        f"{cost['wall']:.1f}",
        f"{cost['memory'] / 2**20:,.0f}",
        f"{cost['worker_memory'] / 2**20:,.0f}",
        f"{cost['shuffle'] / 1e6:,.1f}",
    )


def growth(results: dict[int, Any]) -> str:
    """Return what it costs to have more, and whether the goals are reached."""
    sizes = sorted(results)
    rows = []
    for small, large in zip(sizes, sizes[1:]):
        for stage in STAGES:
            exponent = _exponent(results, stage, small, large)
            more = results[large][stage]["cpu"] - results[small][stage]["cpu"]
            rows.append(
                (f"{small:,} to {large:,}", stage, f"{exponent:.2f}", _fits(exponent <= GROWTH_GOAL),
                 f"{(large - small) / more:,.0f}" if more > 0 else "")
            )  # fmt: skip
    head = ("messages", "stage", "growth", "goal 1.2", "further messages a CPU second")
    largest = sizes[-1]
    goals = []
    for stage, goal in GOALS.items():
        reached = largest / results[largest][stage]["cpu"]
        goals.append((stage, f"{goal:,}", f"{reached:,.0f}", _fits(reached >= goal)))
    told = f"With {largest:,} messages, all included:\n\n"
    told += table(("stage", "goal, messages a CPU second", "reached", ""), goals)
    if not rows:
        return told
    return (
        "Growth is the exponent e of CPU time as size\\ :sup:`e`. The last column leaves out what it takes to"
        f" start.\n\n{table(head, rows)}\n{told}"
    )


def _exponent(results: dict[int, Any], stage: str, small: int, large: int) -> float:
    return math.log(results[large][stage]["cpu"] / results[small][stage]["cpu"]) / math.log(large / small)


def _fits(holds: bool) -> str:
    return "reached" if holds else "not reached"


def compared(results: dict[int, Any]) -> str:
    """Return what the same work costs in DuckDB and in Polars, and from which size Spark takes less."""
    rows = []
    for size, found in sorted(results.items()):
        for work, stage in (("matching", "conversations"), ("aggregates", "aggregate")):
            works = (
                ["matching"]
                if work == "matching"
                else [each for each in found["yardsticks"] if each != "matching"]
            )
            costs = [sum(found["yardsticks"][each][tool] for each in works) for tool in ("duckdb", "polars")]
            rows.append((f"{size:,}", work, *(f"{cost:.1f}" for cost in costs), f"{found[stage]['cpu']:.1f}"))
    each_of = [
        (f"{size:,}", work, *(f"{cost[tool]:.1f}" for tool in ("duckdb", "polars")))
        for size, found in sorted(results.items())
        for work, cost in found["yardsticks"].items()
    ]
    return (
        "The same work by other tools, in CPU seconds, on one core, starting included. They read the same"
        " Parquet files, match by session, id and requester alone, and aggregate by the minute; the commands"
        " of the pipeline also find out what is stale, aggregate by the hour, and write:\n\n"
        + table(("messages", "work", "DuckDB", "Polars", "Spark"), rows)
        + f"\n{pays(results)}\n\nOf which:\n\n"
        + table(("messages", "work", "DuckDB", "Polars"), each_of)
    )


def pays(results: dict[int, Any]) -> str:
    """Return from which size on Spark takes less than the quicker of the others on one core."""

    def others(found: dict[str, Any]) -> float:
        costs = found["yardsticks"].values()
        return min(float(sum(each[tool] for each in costs)) for tool in ("duckdb", "polars"))

    sizes = [
        size
        for size, found in sorted(results.items())
        if found["conversations"]["cpu"] + found["aggregate"]["cpu"] <= others(found)
    ]
    if sizes:
        return f"On one core, Spark takes less from {sizes[0]:,} messages on."
    return (
        f"On one core, Spark never takes less, up to {max(results):,} messages: it pays where one machine is"
        " too small, or too slow, for what is there."
    )


def on_paper(results: dict[int, Any]) -> str:
    """Return what a very large fleet would need, from the largest size measured."""
    size = max(results)
    found = results[size]
    rate = DEVICES * RATE
    rows = []
    cores = 0.0
    for stage in ("ingest", "conversations", "aggregate"):
        needs = rate * found[stage]["cpu"] / size
        cores += needs
        rows.append((stage, f"{needs:,.0f}"))
    day = rate * 86_400
    captures = found["capture_bytes"] / size * day / 1e12
    stored = found["table_bytes"] / size * day / 1e12
    shuffle = found["conversations"]["shuffle"] / size * rate / 1e6
    return (
        f"On paper: {DEVICES:,} devices with {RATE:,} messages a second each are {rate / 1e6:,.0f} million"
        " messages a second. From the figures above, cores that are busy all the time:\n\n"
        + table(("stage", "cores"), rows)
        + f"\nTogether {cores:,.0f} cores, {math.ceil(cores / _CORES):,} machines with {_CORES};"
        f" {captures:,.0f} TB of captures a day to be uploaded ({captures * 1e12 / 86_400 / 1e9:,.1f} GB/s),"
        f" {stored:,.1f} TB of ``messages`` a day, and a shuffle of {shuffle:,.0f} MB/s for conversations."
        " Data here are alike, and pack better than real ones.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
