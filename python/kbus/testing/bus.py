# SPDX-License-Identifier: MIT
"""A bus inside one process, in the place of the module."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Optional, TypeVar

from .. import _device as device
from .._stand_in import StandInFile
from .core import Core
from .handle import Handle
from .model.bus import DeviceLimits
from .model.parts import Owner

_B = TypeVar("_B", bound="Bus")

_NOTICE = "kbus.testing: this is no module, but a bus in a test\n"


class Bus:
    """A bus of its own, which this process uses as if it were the module's, inside a ``with``.

    ``devices`` is how many there are at first, ``queue_length`` how many messages a queue takes by default.
    KSocks that are open when the block ends can only be closed; calls on them that wait then raise
    ValueError.

    The first Bus of a process says on stderr what it is, unless it is ``quiet``.
    """

    _is_told = False

    def __init__(self, devices: int = 1, *, queue_length: int = 100, quiet: bool = False) -> None:
        self._limits = DeviceLimits(queue_length=queue_length)
        self._devices = devices
        self._quiet = quiet
        self._core: Optional[Core] = None

    def __enter__(self: _B) -> _B:
        if self._core:
            raise ValueError("this bus is in place already")
        if not self._quiet and not Bus._is_told:
            Bus._is_told = True
            sys.stderr.write(_NOTICE)
        self._core = Core(self._limits, self._devices)
        device.stand_ins.append(self)
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        device.stand_ins.remove(self)
        if self._core:
            self._core.stop()
        self._core = None

    @property
    def core(self) -> Core:
        """The devices. Raises ValueError outside the ``with``."""
        if self._core is None:
            raise ValueError("this bus is not in place")
        return self._core

    def open(self, number: int, mode: str, nonblocking: bool) -> StandInFile:
        """Open a device, as a Ksock does. Raises OSError with ENOENT."""
        owner = Owner(os.getpid(), os.geteuid(), os.getegid())
        handle = Handle(self.core, number, mode, owner)
        return StandInFile(f"/dev/kbus{number}", handle, handle.ready.descriptor(), mode, nonblocking)

    def proc_text(self, name: str) -> str:
        """Return the text of the file of this name in ``/proc/kbus``."""
        return self.core.proc_text(name)
