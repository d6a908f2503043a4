# SPDX-License-Identifier: MIT
"""`python3 -m tests.fuzz.minimise FILE...`: remove what a failure does without, in the VM.

The files are those that `kbus-fuzz --results` leaves, of the workers of one run. A run in the virtual machine
fails when its status is not 0: a complaint in the kernel log, a dead guest, an invariant that does not hold.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from .cases import Operation, programs, read, render
from .ddmin import ddmin

USAGE_ERROR = 2
"""Status of kbus-fuzz and of argparse when there was nothing to run."""


class Machine:
    """Runs cases in the virtual machine."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._command = [sys.executable, "-m", "tests.vm", "--kernel", options.kernel]
        self._command += ["--module", "kernel/kbus.ko", "--module-args", options.module_args]
        self._command += ["--timeout", str(options.timeout)]
        self._fuzz = f'tests/fuzz/bin/kbus-fuzz{options.bits} --repeat {options.repeat} --results "$RESULTS"'
        self._runs = 0

    def fails(self, operations: Sequence[Operation]) -> bool:
        """Whether these operations, repeated, make a run fail. SystemExit if they cannot be run."""
        self._runs += 1
        with tempfile.TemporaryDirectory() as results:
            Path(results, "case.ops").write_text(render(operations))
            command = [*self._command, "--results", results]
            command += ["-c", f'exec {self._fuzz} --replay "$RESULTS/case.ops"']
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode == USAGE_ERROR:
            sys.exit(done.stderr.decode(errors="replace"))
        print(f"run {self._runs}: {len(operations)} operations: status {done.returncode}", flush=True)
        return done.returncode != 0


def minimise(operations: Sequence[Operation], machine: Machine) -> list[Operation]:
    """Whole programs go first, then single operations."""
    whole = ddmin(programs(operations), lambda some: machine.fails(list(chain.from_iterable(some))))
    return ddmin(list(chain.from_iterable(whole)), machine.fails)


def main() -> int:
    """0, or 1 if the files do not make a run fail."""
    parser = argparse.ArgumentParser(prog="minimise", description="Make a case of kbus-fuzz smaller.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what kbus-fuzz wrote")
    parser.add_argument("--output", type=Path, required=True, help="where the smaller case goes")
    parser.add_argument("--kernel", default="debug")
    parser.add_argument("--module-args", default="")
    parser.add_argument("--bits", type=int, choices=[32, 64], default=64, help="which kbus-fuzz")
    parser.add_argument("--repeat", type=int, default=10, help="how often a case is run before it is good")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a run, the boot included")
    options = parser.parse_args()
    operations = [operation for path in options.files for operation in read(path)]
    try:
        smaller = minimise(operations, Machine(options))
    except ValueError as error:
        print(f"minimise: {error}; a higher --repeat may help", file=sys.stderr)
        return 1
    options.output.write_text(render(smaller))
    print(f"{len(operations)} operations became {len(smaller)}, in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
