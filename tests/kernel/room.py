# SPDX-License-Identifier: MIT
"""Messages that wait for room, what takes it, and the events that make it: rules 22 and 37."""

from __future__ import annotations

import errno
import os

from kbus import Ksock
from tests.kernel import raw
from tests.kernel.helpers import fails, take


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
