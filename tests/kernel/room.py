# SPDX-License-Identifier: MIT
"""Messages that wait for room, what takes it, and the events that make it: rules 22 and 37."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

import pytest

from kbus import Ksock
from tests.kernel import raw, stand_in
from tests.kernel.helpers import fails, take
from tests.kernel.module import PARAMETERS, parameter


def waiting(data: bytes = b"", flags: int = 0, to: int = 0) -> bytes:
    """A message $.A that waits for room."""
    return raw.message(b"$.A", data, flags=flags | raw.ALL_OR_WAIT, to=to)


def told_to_try_again(sender: Ksock, packet: bytes) -> None:
    """Write a message that has to wait, and SEND it in vain."""
    os.write(sender.fileno(), packet)
    with fails(errno.EAGAIN):
        sender.send()


def read(full: Ksock) -> None:
    take(full)


def unbind(full: Ksock) -> None:
    full.unbind("$.A")


def raise_limit(full: Ksock) -> None:
    full.set_max_messages(2)


def close(full: Ksock) -> None:
    full.close()


MAKES_ROOM = [read, unbind, raise_limit, close]
"""Each makes room in the queue of a KSock to which `helpers.fill(ksock, "$.A")` was done."""


def use_up_bytes(feeder: Ksock, writers: list[Ksock]) -> None:
    """Send $.B until there is no room, the longest first, and begin messages with the bytes that are left."""
    for length in (400_000, 40_000, 4_000, 400, 0):
        with pytest.raises(OSError):
            while True:
                raw.send(feeder, raw.message(b"$.B", bytes(length), flags=raw.ALL_OR_FAIL))
    for writer in writers:
        with suppress(OSError):
            os.write(writer.fileno(), raw.message(b"$.B"))


def used_by(ksock: Ksock) -> int:
    """How many bytes the KSock's user is charged for, and some that are always the same."""
    packet = raw.message(b"$.Probe")
    stand_in.cannot("parameter max_user_bytes")
    low, high = 0, int((PARAMETERS / "max_user_bytes").read_text())
    while high - low:
        middle = (low + high) // 2
        with parameter("max_user_bytes", middle):
            try:
                os.write(ksock.fileno(), packet)
            except OSError:
                low = middle + 1
            else:
                ksock.discard()
                high = middle
    return high
