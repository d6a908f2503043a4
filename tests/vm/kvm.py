# SPDX-License-Identifier: MIT
"""Whether KVM works here. That /dev/kvm opens proves little: the guest may hang, or QEMU give up."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from . import process, virtme
from .arch import AMD64
from .kernels import Kernel

LIMIT = 30
"""Seconds in which a guest must have started and ended; with a KVM that works it takes two or three."""


def works(kernel: Kernel, cache: Path) -> bool:
    """Whether a guest with this kernel runs under KVM: tried once on each host kernel and kept in `cache`."""
    if kernel.arch != AMD64 or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    answer = cache / f"kvm-{os.uname().release}-{kernel.release}"
    if not answer.exists():
        cache.mkdir(parents=True, exist_ok=True)
        answer.write_text("works\n" if _try(kernel) else "does not work\n")
    return answer.read_text() == "works\n"


def _try(kernel: Kernel) -> bool:
    with tempfile.TemporaryDirectory() as directory, open(os.devnull, "wb") as nowhere:
        shared = virtme.Shared(Path(directory), virtme.HERE)
        command = virtme.batch(virtme.Machine(kernel, kvm=True), shared, f"echo >{virtme.SHARE}/ran")
        process.run(command, LIMIT, nowhere, nowhere)
        return Path(directory, "ran").exists()
