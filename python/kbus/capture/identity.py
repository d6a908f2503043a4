# SPDX-License-Identifier: MIT
"""Which machine, boot and load of the module a recording is of."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Optional, Union

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MODULE = Path("/sys/module/kbus")


def device_name() -> str:
    """Return the machine's name."""
    return socket.gethostname()


def boot_id() -> Optional[str]:
    """Return what Linux calls this boot, a UUID; None if it does not say."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return None


def load_id() -> Optional[int]:
    """Return a number that no other load of the module in this boot has; None if it is not loaded.

    It is the inode of the module's directory in sysfs, where no inode is used twice.
    """
    try:
        return _MODULE.stat().st_ino
    except OSError:
        return None


def bus_of(buses: Sequence[int]) -> Union[int, list[int]]:
    """Return what a capture of these devices says of them: the number of one, or a list of several."""
    return buses[0] if len(buses) == 1 else list(buses)


def file_prefix(device: str, buses: list[int]) -> str:
    """Return how the names of the machine's captures of these devices begin: ``DEVICE-BUS-``.

    What is no letter, digit, dot, minus or underscore in DEVICE becomes an underscore. BUS is the numbers,
    with ``+`` between them.
    """
    return f"{re.sub('[^A-Za-z0-9._-]', '_', device)}-{'+'.join(map(str, buses))}-"
