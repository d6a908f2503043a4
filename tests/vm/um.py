# SPDX-License-Identifier: MIT
"""The command line of User Mode Linux: a kernel that is a program, with the host's files as its root."""

from __future__ import annotations

from .virtme import GUARDS, HERE, Machine, Shared


def interactive(machine: Machine, shared: Shared) -> list[str]:
    """User Mode Linux on this terminal; the kernel log goes to its stderr."""
    return [*_common(machine, shared), "con0=fd:0,fd:1", "con1=fd:0,fd:1", "ssl0=null,fd:2"]


def batch(machine: Machine, shared: Shared) -> list[str]:
    """A program that runs guest.sh in User Mode Linux; what that writes goes to its own stdout and stderr."""
    consoles = ["con0=null,fd:1", "con1=null,fd:2", "ssl0=null,fd:3"]
    return ["sh", "-c", 'exec "$@" 3>"$0"', str(shared.log), *_common(machine, shared), *consoles]


def _common(machine: Machine, shared: Shared) -> list[str]:
    """It has its memory in a file: TMPDIR is where that takes no disk."""
    program = ["env", "TMPDIR=/dev/shm", machine.kernel.image, f"mem={machine.memory}"]
    root = [
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"init={HERE}/um-init.sh",
        f"KBUS_SHARE={shared.directory}",
    ]
    consoles = ["con=null", "ssl=null", "console=ttyS0", "printk.time=1"]
    return [*program, *root, *consoles, *GUARDS, *machine.options]
