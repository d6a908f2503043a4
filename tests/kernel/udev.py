# SPDX-License-Identifier: MIT
"""The udev daemon of the virtual machine: it sets mode and owner of a node a moment after that came.

The machines for other processors have none.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _admin(*arguments: str) -> None:
    """Run udevadm, which takes virtme's root directory for a chroot and would do nothing there, content."""
    subprocess.run(["udevadm", *arguments], env=os.environ | {"SYSTEMD_IGNORE_CHROOT": "1"}, check=True)


def settle() -> None:
    """Wait until no event is left. One of a load of the module before would set the mode of a node anew."""
    if Path("/run/udev/control").exists():
        _admin("settle", "--timeout=120")


@contextmanager
def stopped() -> Iterator[None]:
    """No daemon. One that sleeps would have all the events to work off when it wakes up."""
    _admin("control", "--exit")
    yield
    subprocess.run(["/lib/systemd/systemd-udevd", "--daemon"], check=True)
