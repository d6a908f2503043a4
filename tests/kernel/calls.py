# SPDX-License-Identifier: MIT
"""Which system calls a Ksock makes."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kbus import Ksock
from kbus._device import DeviceFile

TRANSFER = ("ioctl", 32)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch, ksock: Ksock) -> Iterator[list[object]]:
    """The system calls on this Ksock in the block: ("ioctl", number), "read", "write" or "poll"."""
    calls: list[object] = []
    kind, fd = type(ksock.fd), ksock.fileno()
    assert issubclass(kind, DeviceFile)
    real = kind.ioctl

    def ioctl(file: object, number: int, argument: bytearray) -> object:
        if file is ksock.fd:
            calls.append(("ioctl", number & 0xFF))
        return real(file, number, argument)

    def watched(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def watching(*arguments: object) -> object:
            if arguments[:1] in ((fd,), ()):
                calls.append(name)
            return call(*arguments)

        return watching

    with monkeypatch.context() as patch:
        patch.setattr(kind, "ioctl", staticmethod(ioctl))
        for module, name in ((os, "read"), (os, "write"), (select, "poll")):
            patch.setattr(module, name, watched(name, getattr(module, name)))
        yield calls
