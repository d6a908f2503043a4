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

from .cpio import archive

HERE = Path(__file__).parent
PROGRAMS = HERE / "c" / "bin"
MODULE = HERE.parents[1] / "kernel" / "kbus.ko"
BUDGET = HERE / "budget.json"
LIMIT = 60
"""Seconds for the machine, the boot included."""

QEMU = [
    *("qemu-system-x86_64", "-accel", "tcg", "-icount", "shift=0,sleep=off"),
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
    "Request and reply, write and SEND, NEXTMSG and read": "round-trip kbus --seconds 0.02",
    "Request and reply, TRANSFER": "round-trip transfer --seconds 0.02",
    "SEQPACKET": "solo seqpacket",
    "SEQPACKET, 32 a call": "solo mmsg --rounds 50",
    "SEQPACKET, 8 receivers": "solo seqpacket --listeners 8 --rounds 100",
    "SEQPACKET, 64 KiB": "solo seqpacket --size 65536 --rounds 50",
    "SEQPACKET, there and back": "round-trip seqpacket --seconds 0.02",
}
"""What is counted, and the arguments of c/main.c for it. Messages have 64 bytes if nothing else is said."""

ROUNDS = 200
"""How often, if nothing else is said. An interrupt of the clock comes every 4,000,000 instructions."""


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
    files = {
        "init": (PROGRAMS / "init").read_bytes(),
        "bench": (PROGRAMS / "bench").read_bytes(),
        "kbus.ko": module.read_bytes(),
        "cases": "\n".join(arguments).encode() + b"\n",
    }
    with tempfile.NamedTemporaryFile() as initramfs:
        initramfs.write(archive(files))
        initramfs.flush()
        return _results(_run(kernel, Path(initramfs.name)))


def _run(kernel: Path, initramfs: Path) -> str:
    """What the machine says on its console."""
    command = [*QEMU, "-kernel", str(kernel), "-initrd", str(initramfs), "-append", " ".join(KERNEL_OPTIONS)]
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        done = subprocess.run(
            command, stdin=nothing, stdout=pipe, stderr=subprocess.STDOUT, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BrokenMachineError(f"not done after {LIMIT} seconds: {error.stdout!r}") from None
    return done.stdout.decode(errors="replace").replace("\r", "")


def _results(console: str) -> dict[str, int]:
    lines = console.splitlines()
    figures = [json.loads(line) for line in lines if line.startswith("{")]
    if "done" not in lines or len(figures) != len(CASES):
        raise BrokenMachineError("\n".join(lines[-20:]))
    return {title: round(each["p50"]) for title, each in zip(CASES, figures)}


def exceeded(counts: Mapping[str, int], budget: Mapping[str, int], tolerance: float) -> list[str]:
    """What is wrong with the counts, a line for each case; `tolerance` is a part of the budget, as 0.05."""
    wrong = [f"{title}: no budget" for title in counts.keys() - budget.keys()]
    wrong += [f"{title}: not counted" for title in budget.keys() - counts.keys()]
    for title in sorted(counts.keys() & budget.keys()):
        ratio = counts[title] / budget[title]
        if abs(ratio - 1) > tolerance:
            wrong.append(f"{title}: {counts[title]}, {ratio - 1:+.1%} of its budget of {budget[title]}")
    return wrong


def main() -> int:
    """0 if all is within the budget, or the budget was written."""
    parser = argparse.ArgumentParser(prog="tests.bench.icount", description="Count instructions of messages.")
    parser.add_argument("--kernel", default="", help="what to boot; Debian's stock kernel if not given")
    parser.add_argument("--module", type=Path, default=MODULE)
    parser.add_argument("--update", action="store_true", help="make what is counted the new budget")
    parser.add_argument("--json", type=Path, help="where to leave what is counted")
    options = parser.parse_args()
    kernel = kernels.find(options.kernel)
    counts = count(image(kernel), options.module)
    budget = json.loads(BUDGET.read_text())
    for title, instructions in counts.items():
        was = budget["instructions"].get(title)
        print(f"{instructions:9,}  {title}" + (f" ({instructions / was - 1:+.1%})" if was else ""))
    if options.json:
        options.json.write_text(json.dumps({"instructions": counts}))
    if options.update:
        budget.update(kernel=kernel.release, instructions=counts)
        BUDGET.write_text(json.dumps(budget, indent=1) + "\n")
        return 0
    wrong = exceeded(counts, budget["instructions"], budget["tolerance"])
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
