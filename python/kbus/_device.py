# SPDX-License-Identifier: MIT
"""Where the package meets the kernel: an open device, and the files of ``/proc/kbus``.

All that a Ksock asks of the kernel goes through a DeviceFile, so that ``kbus.testing`` can put a bus of its
own here.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from io import FileIO
from typing import TYPE_CHECKING, Any, Optional, Protocol

if TYPE_CHECKING:
    # A caller that passes a Path has imported it already. It takes longer to import than all else here.
    from pathlib import Path

#: names the socket of a ``kbus-testbus``
TEST_BUS = "KBUS_TEST_BUS"


class DeviceFile(FileIO):
    """An open device, whose calls go to the kernel."""

    is_real = True
    #: ``fcntl.ioctl``: it is given this file first
    ioctl: Callable[..., Any] = staticmethod(fcntl.ioctl)

    def read_piece(self, count: int) -> bytes:
        """Return up to ``count`` bytes of the message being read, as read(2) does."""
        return os.read(self.fileno(), count)

    def write_piece(self, data: memoryview) -> int:
        """Add to the message being written, as write(2) does."""
        return os.write(self.fileno(), data)


class StandIn(Protocol):
    """What takes the place of the module."""

    def open(self, number: int, mode: str, nonblocking: bool) -> DeviceFile:
        """Open the device with this number; ``mode`` is ``r`` or ``rw``."""

    def proc_text(self, name: str) -> str:
        """Return the text of the file of that name in ``/proc/kbus``."""


#: The last one is in place.
stand_ins: list[StandIn] = []


def stand_in() -> Optional[StandIn]:
    """Return what takes the place of the module, or None."""
    if stand_ins:
        return stand_ins[-1]
    path = os.environ.get(TEST_BUS)
    if not path:
        return None
    from ._test_bus import RemoteBus

    return RemoteBus(path)


def open_device(path: str, number: int, mode: str, nonblocking: bool) -> DeviceFile:
    """Open a device, or what stands in for it. Raises OSError."""
    instead = stand_in()
    if instead:
        return instead.open(number, mode, nonblocking)
    extra = os.O_NONBLOCK if nonblocking else 0
    return DeviceFile(
        path, "r" if mode == "r" else "r+", opener=lambda path, flags: os.open(path, flags | extra)
    )


def proc_text(path: Path) -> str:
    """Return the text of a file of ``/proc/kbus``, or of one of the same form. Raises OSError."""
    instead = stand_in() if str(path.parent) == "/proc/kbus" else None
    if instead:
        return instead.proc_text(path.name)
    return path.read_text(encoding="ascii", errors="backslashreplace")


def refused(what: str, error: OSError, *about: object) -> OSError:
    """Return the error with its reason, as this function of ``kbus._refusals`` finds it."""
    try:
        # Imported late: it takes a third of the time that the package takes, and is for failures only.
        from . import _refusals as refusals

        why: OSError = getattr(refusals, what)(error, *about)
    except (ImportError, OSError):
        # There is no descriptor left to look with, or another root directory.
        return error
    return why
