# SPDX-License-Identifier: MIT
"""Measures, in the virtual machine: `python3 -m tests.bench.run`.

All transports of a case take turns, as often as there are repetitions, so that a time in which the host has more to do
concerns all of them. What was measured is left in $RESULTS as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from .cases import MACHINES, Case

PROGRAM = Path(__file__).parent / "c" / "bin" / "bench"
LIMIT = 60
"""Seconds for one measurement, of which most take less than one."""

Figures = dict[str, float]
Results = dict[str, dict[str, list[Figures]]]
"""By case and transport: what the program printed at each repetition."""


def main() -> int:
    """0 if all could be measured."""
    options = _parser().parse_args()
    cases = [case for case in MACHINES[len(os.sched_getaffinity(0))] if re.search(options.only, case.title)]
    if not cases:
        print(f"bench: no case has {options.only!r} in its title", file=sys.stderr)
        return 2
    results: Results = {case.title: {name: [] for name in case.transports} for case in cases}
    failed = 0
    for repetition in range(options.repetitions):
        for case in cases:
            failed += _measure_all(case, results[case.title])
            _progress(case, results[case.title], f"{repetition + 1}/{options.repetitions}")
    write(options.output, results)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.bench.run", description="Measure, and write JSON.")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose titles have this")
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("RESULTS", ".")) / "bench.json")
    return parser


def _measure_all(case: Case, results: dict[str, list[Figures]]) -> int:
    failed = 0
    for transport in case.transports:
        figures = _measure(case, transport)
        if figures is None:
            failed += 1
        else:
            results[transport].append(figures)
    return failed


def _measure(case: Case, transport: str) -> Figures | None:
    """What the program prints; None if it fails, which is said on stderr."""
    command = [str(PROGRAM), case.program, transport, "--seconds", str(case.seconds), *case.options.split()]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"bench: {case.title}: {transport}: {error}", file=sys.stderr, flush=True)
        return None
    figures: Figures = json.loads(done.stdout)
    return figures


def _progress(case: Case, results: dict[str, list[Figures]], turn: str) -> None:
    last = [f"{name} {each[-1][case.figure]:,.0f}" for name, each in results.items() if each]
    print(f"{turn} {case.title} [{case.unit}]: {', '.join(last)}", file=sys.stderr, flush=True)


def write(output: Path, results: Results) -> None:
    """Write what was measured, and where."""
    release = os.uname()
    content = {
        "kernel": release.release,
        "machine": release.machine,
        "cpus": len(os.sched_getaffinity(0)),
        "time": int(time.time()),
        "results": results,
    }
    output.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    sys.exit(main())
