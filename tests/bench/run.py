# SPDX-License-Identifier: MIT
"""Measures, in the virtual machine: `python3 -m tests.bench.run`.

All transports of a case take turns, as often as there are repetitions, so that a time in which the host has
more to do concerns all of them. What was measured is left in $RESULTS as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Optional

from . import daemons
from .cases import BROKERS, MACHINES, Case
from .goals import cases_of_goals
from .scale import scale

PROGRAMS = Path(__file__).parent / "c" / "bin"
LIMIT = 60
"""Seconds for one measurement, of which most take less than one."""
LEAST = 3
"""How many repetitions there are, however long they take."""

Figures = dict[str, float]
Results = dict[str, dict[str, list[Figures]]]
"""By case and transport: what the program printed at each repetition."""


def main() -> int:
    """0 if all could be measured."""
    options = _parser().parse_args()
    asked = [
        (case, name)
        for case, name in (cases_of_goals(python=True) if options.counted else _all())
        if re.search(options.only, case.title) and not (options.no_brokers and name in BROKERS)
    ]
    if not asked:
        print(f"bench: no case has {options.only!r} in its title", file=sys.stderr)
        return 2
    content: dict[str, object] = {"kernel": os.uname().release, "cpus": os.cpu_count()}
    if os.cpu_count() == 1 and not options.only and not options.counted:
        content["scale"] = scale()
    if any(name in BROKERS for _, name in asked):
        with tempfile.TemporaryDirectory() as directory, daemons.running(Path(directory)) as addresses:
            failed = _measure_all(asked, addresses, options, content)
    else:
        failed = _measure_all(asked, {}, options, content)
    return 1 if failed else 0


def _all() -> Iterator[tuple[Case, str]]:
    """What there is for so many processors."""
    for case in MACHINES[os.cpu_count() or 1]:
        yield from ((case, name) for name in case.transports)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.bench.run", description="Measure, and write JSON.")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=420, help=f"after that no repetition begins but the first {LEAST}"
    )
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose titles have this")
    parser.add_argument("--no-brokers", action="store_true", help="only what the kernel has")
    parser.add_argument(
        "--counted",
        action="store_true",
        help="once, what goals are about that Python has a part in, for a machine that counts instructions",
    )
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("RESULTS", ".")) / "bench.json")
    return parser


def _measure_all(
    asked: list[tuple[Case, str]],
    addresses: Mapping[str, str],
    options: argparse.Namespace,
    content: Mapping[str, object],
) -> int:
    """How often something could not be measured. What was is written as it comes, beside `content`."""
    began = time.monotonic()
    results: Results = {}
    for case, name in asked:
        results.setdefault(case.title, {})[name] = []
    title = "by_instructions" if options.counted else "results"
    repetitions = 1 if options.counted else options.repetitions
    failed = 0
    for repetition in range(repetitions):
        if repetition >= LEAST and time.monotonic() > began + options.seconds:
            break
        for case in dict.fromkeys(case for case, _ in asked):
            for transport, figures in results[case.title].items():
                # What one case has left behind is not for the next one to wait for.
                with daemons.bridge() if transport == "sbus" else nullcontext(addresses) as found:
                    measured = _measure(case, transport, found)
                failed += measured is None
                figures += [measured] if measured else []
            options.output.write_text(json.dumps({**content, title: results}, indent=1))
            _tell(case, results[case.title], f"{repetition + 1}/{repetitions}")
    return failed


def _command(case: Case, transport: str, addresses: Mapping[str, str]) -> list[str]:
    if case.program == "recording":
        command = [sys.executable, "-m", "tests.bench.recording", *case.options.split()]
        return [*command, "--seconds", str(case.seconds)]
    if case.program == "python":
        command = [sys.executable, "-m", "tests.bench.stream", transport]
    else:
        program = "bench-brokers" if transport in BROKERS else "bench"
        command = [str(PROGRAMS / program), case.program, transport]
    if transport in addresses:
        command += ["--address", addresses[transport]]
    return [*command, "--seconds", str(case.seconds), *case.options.split()]


def _measure(case: Case, transport: str, addresses: Mapping[str, str]) -> Optional[Figures]:
    """What the program prints; None if it fails, which is said on stderr."""
    command = _command(case, transport, addresses)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"bench: {case.title}: {error}", file=sys.stderr, flush=True)
        return None
    figures: Figures = json.loads(done.stdout)
    return figures


def _tell(case: Case, results: Mapping[str, list[Figures]], turn: str) -> None:
    last = [f"{name} {each[-1][case.figure]:,.0f}" for name, each in results.items() if each]
    print(f"{turn} {case.title} [{case.unit}]: {', '.join(last)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
