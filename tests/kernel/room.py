# SPDX-License-Identifier: MIT
"""Messages that wait for room, and the events that make it: rule 22."""

from __future__ import annotations

from kbus import Ksock
from tests.kernel import raw
from tests.kernel.helpers import take


def waiting(data: bytes = b"", flags: int = 0, to: int = 0) -> bytes:
    """A message $.A that waits for room."""
    return raw.message(b"$.A", data, flags=flags | raw.ALL_OR_WAIT, to=to)


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
