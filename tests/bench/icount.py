# SPDX-License-Identifier: MIT
"""How many instructions a message takes: `python3 -m tests.bench.icount`.

QEMU counts them with `-icount`: the guest's clock goes on by a nanosecond with each instruction, whatever
else the host does, so that the same programs give the same counts. A machine of its own, with nothing but an
initramfs, is up in some seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.vm import kernels
from tests.vm.virtme import COUNTING

from .cpio import archive
from .goals import cases_of_goals

HERE = Path(__file__).parent
PROGRAMS = HERE / "c" / "bin"
MODULE = HERE.parents[1] / "kernel" / "kbus.ko"
BUDGET = HERE / "budget.json"
LIMIT = 240
"""Seconds for the machine, the boot included."""

QEMU = [
    *("qemu-system-x86_64", "-accel", "tcg", *COUNTING),
    # Where there is erms the kernel copies byte by byte, and QEMU counts each of them.
    *("-cpu", "max,-erms", "-m", "512"),
    *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"),
]
KERNEL_OPTIONS = [
    "console=ttyS0",
    "quiet",
    "panic=-1",
    "panic_on_warn=1",
    "nokaslr",
    "norandmaps",
    "tsc=reliable",
]

CASES = {
    "write and SEND, NEXTMSG and read": "solo kbus",
    "TRANSFER": "solo transfer",
    "TRANSFER, 32 a call": "solo transfer32 --rounds 50",
    "TRANSFER, 8 listeners": "solo transfer --listeners 8 --rounds 100",
    "TRANSFER, 64 KiB": "solo transfer --size 65536 --rounds 50",
    "TRANSFER, a send among 10 bindings": "bindings transfer --others 10 --seconds 0.02",
    "TRANSFER, a send among 10,000 bindings": "bindings transfer --others 10000 --seconds 0.02",
    "Request and reply, write and SEND, NEXTMSG and read": "round-trip kbus --seconds 0.1",
    "Request and reply, TRANSFER": "round-trip transfer --seconds 0.1",
    "SEQPACKET": "solo seqpacket",
    "SEQPACKET, 32 a call": "solo mmsg --rounds 50",
    "SEQPACKET, 8 receivers": "solo seqpacket --listeners 8 --rounds 100",
    "SEQPACKET, 64 KiB": "solo seqpacket --size 65536 --rounds 50",
    "SEQPACKET, there and back": "round-trip seqpacket --seconds 0.1",
}
"""What is counted, and the arguments of c/main.c for it. Messages have 64 bytes if nothing else is said.

A round trip takes a sixth less in the first hundredths of a second, whatever it goes through.
"""

ROUNDS = 200
"""How often, if nothing else is said. An interrupt of the clock comes every 4,000,000 instructions."""


GOAL_SECONDS, GOAL_LIMIT = 0.1, 300
"""How long each case of a goal is measured, by the clock that counts, and all may take, by ours."""

Figures = dict[str, float]


class BrokenMachineError(Exception):
    """The machine did not do what it should; with what it said last."""


def image(kernel: kernels.Kernel) -> Path:
    """The file to boot, of a kernel for this machine's processor. FileNotFoundError if there is none."""
    for path in (Path("/boot", f"vmlinuz-{kernel.image}"), Path(kernel.image, "arch/x86/boot/bzImage")):
        if path.is_file():
            return path
    raise FileNotFoundError(f"no image of {kernel.release}")


def count(kernel: Path, module: Path = MODULE) -> dict[str, int]:
    """Instructions for each message, by case. Raises BrokenMachineError."""
    arguments = [line if "--" in line else f"{line} --rounds {ROUNDS}" for line in CASES.values()]
    figures = figures_of(run(kernel, arguments, module), len(arguments))
    return {title: round(each["p50"]) for title, each in zip(CASES, figures)}


def figures_of(lines: list[str], count: int) -> list[Figures]:
    """What c/main.c printed, so many times. Raises BrokenMachineError if it did not."""
    figures: list[Figures] = [json.loads(line) for line in lines if line.startswith("{")]
    if "done" not in lines or len(figures) != count:
        raise BrokenMachineError("\n".join(lines[-20:]))
    return figures


def run(
    kernel: Path,
    arguments: list[str],
    module: Path = MODULE,
    limit: float = LIMIT,
    *,
    plugin: str = "",
    symbols: bool = False,
) -> list[str]:
    """What the machine says, in which c/main.c runs with each of these arguments.

    `plugin` is one of QEMU's, with its arguments. With `symbols` the kernel's come first. Raises
    BrokenMachineError if the machine does not end.
    """
    files = {
        "init": (PROGRAMS / "init").read_bytes(),
        "bench": (PROGRAMS / "bench").read_bytes(),
        "kbus.ko": module.read_bytes(),
        "cases": "\n".join(arguments).encode() + b"\n",
        **({"symbols": b""} if symbols else {}),
    }
    options = ["-plugin", plugin] if plugin else []
    with tempfile.NamedTemporaryFile() as initramfs:
        initramfs.write(archive(files))
        initramfs.flush()
        return _boot(kernel, [*options, "-initrd", initramfs.name], limit).splitlines()


def _boot(kernel: Path, options: list[str], limit: float) -> str:
    """What the machine says on its console."""
    command = [*QEMU, "-kernel", str(kernel), "-append", " ".join(KERNEL_OPTIONS), *options]
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        done = subprocess.run(
            command, stdin=nothing, stdout=pipe, stderr=subprocess.STDOUT, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BrokenMachineError(f"not done after {limit:g} seconds: {error.stdout!r}") from None
    return done.stdout.decode(errors="replace").replace("\r", "")


def exceeded(counts: Mapping[str, int], budget: Mapping[str, int], tolerance: float) -> list[str]:
    """What is wrong with the counts, a line for each case; `tolerance` is a part of the budget, as 0.05."""
    wrong = [f"{title}: no budget" for title in counts.keys() - budget.keys()]
    wrong += [f"{title}: not counted" for title in budget.keys() - counts.keys()]
    for title in sorted(counts.keys() & budget.keys()):
        ratio = counts[title] / budget[title]
        if abs(ratio - 1) > tolerance:
            wrong.append(f"{title}: {counts[title]}, {ratio - 1:+.1%} of its budget of {budget[title]}")
    return wrong


def goals(kernel: Path, module: Path) -> dict[str, dict[str, list[Figures]]]:
    """What the goals are about, a nanosecond being an instruction. Raises BrokenMachineError."""
    # There is no Python in that machine.
    asked = cases_of_goals(python=False)
    arguments = [f"{case.program} {name} {case.options} --seconds {GOAL_SECONDS}" for case, name in asked]
    results: dict[str, dict[str, list[Figures]]] = {}
    lines = run(kernel, arguments, module, GOAL_LIMIT)
    for (case, name), figures in zip(asked, figures_of(lines, len(arguments))):
        results.setdefault(case.title, {})[name] = [figures]
    return results


def main() -> int:
    """0 if all is within the budget, or the budget was written."""
    parser = argparse.ArgumentParser(prog="tests.bench.icount", description="Count instructions of messages.")
    parser.add_argument("--kernel", default="", help="what to boot; Debian's stock kernel if not given")
    parser.add_argument("--module", type=Path, default=MODULE)
    parser.add_argument("--update", action="store_true", help="make what is counted the new budget")
    parser.add_argument(
        "--json", type=Path, help="where to leave what is counted, and the goals by instructions"
    )
    options = parser.parse_args()
    kernel = kernels.find(options.kernel)
    counts = count(image(kernel), options.module)
    budget = json.loads(BUDGET.read_text())
    for title, instructions in counts.items():
        was = budget["instructions"].get(title)
        print(f"{instructions:9,}  {title}" + (f" ({instructions / was - 1:+.1%})" if was else ""))
    if options.json:
        by_goals = goals(image(kernel), options.module)
        options.json.write_text(json.dumps({"instructions": counts, "by_instructions": by_goals}, indent=1))
    if options.update:
        budget.update(kernel=kernel.release, instructions=counts)
        BUDGET.write_text(json.dumps(budget, indent=1) + "\n")
        return 0
    wrong = exceeded(counts, budget["instructions"], budget["tolerance"])
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
