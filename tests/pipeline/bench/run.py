# SPDX-License-Identifier: MIT
"""Measures the stages of the pipeline: `python3 -m tests.pipeline.bench.run RESULTS.json SIZE...`.

Each stage is a process of its own, as a person would start it, with one core; its CPU time is that of Spark,
of the workers and of starting all of them. What has been measured is kept size by size.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.bench import recordings, yardstick
from tests.pipeline.bench.measure import measured, shuffled

STAGES = ("ingest", "conversations", "aggregate", "report")
SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "8",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
DEMO = Path(__file__).parents[1] / "demo.pcapng"


def main() -> int:
    """0 when all sizes have been measured."""
    parser = argparse.ArgumentParser(prog="tests.pipeline.bench.run", description="Measure the pipeline.")
    parser.add_argument("results", type=Path)
    parser.add_argument("sizes", type=int, nargs="+", help="messages")
    options = parser.parse_args()
    results = json.loads(options.results.read_text()) if options.results.exists() else {}
    with tempfile.TemporaryDirectory(dir=options.results.parent) as where:
        # The first leaves Java's archive to the second.
        for number in range(2):
            results["demo"] = everything(Path(where, str(number)), DEMO)
    for size in options.sizes:
        with tempfile.TemporaryDirectory(dir=options.results.parent) as where:
            results[str(size)] = one_size(Path(where), size)
        options.results.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return 0


def everything(where: Path, captures: Path) -> dict[str, Any]:
    """Return what `run` costs, as a person would type it, with one core."""
    command = [sys.executable, "-m", "kbus.pipeline", "run", "--quiet", "--master", "local[1]"]
    command += ["--tables", str(where / "tables"), "--output", str(where / "report.html"), str(captures)]
    where.mkdir()
    return measured(command, ENVIRONMENT)._asdict()


def one_size(where: Path, size: int) -> dict[str, Any]:
    """Return what each stage costs with so many messages."""
    captures, tables = where / "captures", where / "tables"
    found: dict[str, Any] = {"capture_bytes": recordings.write(captures, size)}
    found["run"] = everything(where / "run", captures)
    for stage in STAGES:
        log = where / f"log-{stage}"
        log.mkdir()
        command = [sys.executable, "-m", "kbus.pipeline", stage, "--quiet", "--master", "local[1]"]
        for key, value in {**SETTINGS, "spark.eventLog.dir": str(log)}.items():
            command += ["--conf", f"{key}={value}"]
        command += ["--tables", str(tables)]
        command += {"ingest": [str(captures)], "report": ["--output", str(where / "report.html")]}.get(
            stage, []
        )
        cost = measured(command, ENVIRONMENT)
        found[stage] = {**cost._asdict(), "shuffle": shuffled(log)}
        print(f"{size:,} {stage}: {size / cost.cpu:,.0f} messages a CPU second", file=sys.stderr, flush=True)
        if stage == "ingest":
            shutil.rmtree(captures)
    parts = Warehouse.open(str(tables)).snapshot().of("messages")
    found["table_bytes"] = sum(part.bytes for part in parts)
    found["yardsticks"] = {
        work: {tool: yardstick_cost(tool, work, tables) for tool in ("duckdb", "polars")}
        for work in yardstick.WORKS
    }
    return found


def yardstick_cost(tool: str, work: str, tables: Path) -> float:
    """Return the CPU seconds of a tool that does the work of a stage."""
    return measured([sys.executable, "-m", yardstick.__name__, tool, work, str(tables)], ENVIRONMENT).cpu


if __name__ == "__main__":
    sys.exit(main())
