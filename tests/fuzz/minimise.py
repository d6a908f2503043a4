# SPDX-License-Identifier: MIT
"""`python3 -m tests.fuzz.minimise FILE...`: remove what a failure does without, in the VM.

The files are those that `kbus-fuzz --results` leaves, of the workers of one run. A run in the virtual
machine fails when its status is not 0: a complaint in the kernel log, a dead guest, an invariant that does
not hold. As booting takes longest, one machine is given many cases, until one of them fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Optional

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
        self._fuzz = f"tests/fuzz/bin/kbus-fuzz{options.bits} --repeat {options.repeat}"
        self._output: Path = options.output
        self._boots = 0

    def first_failing(self, cases: Sequence[Sequence[Operation]]) -> Optional[int]:
        """The index of the first case that fails, which is kept. SystemExit if they cannot be run."""
        failed, begun = self._run(cases)
        found = begun - 1 if failed else None
        if found == len(cases):
            # All went well, and the end did not: any of them may have left a leak.
            found = next((index for index, case in enumerate(cases) if self._run([case])[0]), None)
        if found is not None:
            self._output.write_text(render(cases[found]))
        return found

    def _run(self, cases: Sequence[Sequence[Operation]]) -> tuple[bool, int]:
        """Whether the cases, one by one, made a machine fail; and how many had begun, one more if all did."""
        self._boots += 1
        with tempfile.TemporaryDirectory() as results:
            for number, case in enumerate(cases, 1):
                Path(results, f"{number}.ops").write_text(render(case))
            script = f'for number in {{1..{len(cases)}}}; do echo $number >"$RESULTS/begun"; '
            script += f'{self._fuzz} --replay "$RESULTS/$number.ops" || exit; done; '
            script += f'echo {len(cases) + 1} >"$RESULTS/begun"'
            command = [*self._command, "--results", results, "-c", script]
            done = subprocess.run(command, capture_output=True, check=False)
            begun = Path(results, "begun")
            if done.returncode == USAGE_ERROR or not begun.exists():
                sys.exit(done.stderr.decode(errors="replace"))
            last = int(begun.read_text())
        sizes = f"{min(map(len, cases))} to {max(map(len, cases))} operations"
        print(f"boot {self._boots}: {len(cases)} cases of {sizes}: status {done.returncode}", flush=True)
        return done.returncode != 0, last


def minimise(operations: Sequence[Operation], machine: Machine) -> list[Operation]:
    """Whole programs go first, then single operations."""
    whole = ddmin(
        programs(operations),
        lambda cases: machine.first_failing([list(chain.from_iterable(case)) for case in cases]),
    )
    return ddmin(list(chain.from_iterable(whole)), machine.first_failing)


def main() -> int:
    """0, or 1 if the files do not make a run fail."""
    parser = argparse.ArgumentParser(prog="minimise", description="Make a case of kbus-fuzz smaller.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what kbus-fuzz wrote")
    parser.add_argument("--output", type=Path, required=True, help="where the smallest case so far is")
    parser.add_argument("--kernel", default="debug")
    parser.add_argument("--module-args", default="")
    parser.add_argument("--bits", type=int, choices=[32, 64], default=64, help="which kbus-fuzz")
    parser.add_argument("--repeat", type=int, default=10, help="how often a case is run")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a run, the boot included")
    options = parser.parse_args()
    operations = [operation for path in options.files for operation in read(path)]
    try:
        smaller = minimise(operations, Machine(options))
    except ValueError as error:
        print(f"minimise: {error}; a higher --repeat may help", file=sys.stderr)
        return 1
    print(f"{len(operations)} operations became {len(smaller)}, in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
