# SPDX-License-Identifier: MIT
"""What a recording is of: machine, boot, load of the module, devices, and the time of day."""

from __future__ import annotations

import re
import socket
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Optional, Union

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MODULE = Path("/sys/module/kbus")
#: Bytes. A name has 255: time and number take 25, suffixes such as .recovered.pcapng.recovering 28.
_LONGEST_PREFIX = 200
#: ns. A clock that goes back by less was made slower, and not set.
_SLEWED = 1_000_000


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
    with ``+`` between them. Of what is too long the beginning is left. Where the name is changed so, the
    CRC-32 of all of it follows, so that no other machine or devices have the same.
    """
    whole = f"{device}-{'+'.join(map(str, buses))}"
    prefix = re.sub("[^A-Za-z0-9._+-]", "_", whole)
    if prefix != whole or len(prefix) > _LONGEST_PREFIX:
        crc = zlib.crc32(whole.encode("utf-8", "surrogateescape"))
        prefix = f"{prefix[: _LONGEST_PREFIX - 9]}~{crc:08x}"
    return prefix + "-"


class WallClock:
    """CLOCK_REALTIME less CLOCK_MONOTONIC.

    The two can't be read at the same moment, so the difference is known only to lie between two bounds. It
    stays what it was while it can, that the time between two messages be the same by either clock.
    """

    def __init__(self) -> None:
        self._offset = 0
        self._until = 0

    def offset(self, first: int, last: int) -> int:
        """Return the difference, in ns, for the time from ``first`` to ``last``, in ns of CLOCK_MONOTONIC.

        That must be not long ago, and not before the last call's time. With the difference it is not before
        that by CLOCK_REALTIME either, unless the clock was set back.
        """
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        offset = min(max(self._offset, wall - after), wall - before)
        if 0 < self._offset - offset < _SLEWED:
            offset = max(offset, self._offset - (first - self._until))
        self._offset, self._until = offset, last
        return offset
