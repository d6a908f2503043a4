# SPDX-License-Identifier: MIT
"""What a Ksock reads: messages put aside earlier, then the kernel's queue."""

from __future__ import annotations

import io
import math
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Optional

from . import abi, ioctls
from .messages import Message

# poll() takes milliseconds as a C int, so longer waits are made of several.
_LONGEST_POLL = 1_000_000.0


class Inbox:
    """The messages that can be read from one open KBUS device, in their order.

    Whoever looks for one particular message puts the others aside, from where they are read
    before anything else. Not for several threads at a time.
    """

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._aside: deque[Message] = deque()
        # The message being read, if it is one that was put aside; otherwise it is the kernel's.
        self._current: Optional[io.BytesIO] = None

    def clear(self) -> None:
        """Forget all that was put aside."""
        self._aside.clear()
        self._current = None

    def count(self) -> int:
        """Return how many messages are to be read."""
        return len(self._aside) + ioctls.u32(self._file, abi.IOC_NUMMSGS)

    def next_length(self) -> int:
        """Make the next message the one being read, and return its length in bytes, or 0."""
        if self._aside:
            self._current = io.BytesIO(self._aside.popleft().to_bytes())
            return len(self._current.getbuffer())
        self._current = None
        return ioctls.u32(self._file, abi.IOC_NEXTMSG)

    def length_left(self) -> int:
        """Return how many bytes of the message being read are left."""
        if self._current is not None:
            return len(self._current.getbuffer()) - self._current.tell()
        return ioctls.u32(self._file, abi.IOC_LENLEFT)

    def read(self, count: int) -> bytes:
        """Return up to ``count`` bytes of the message being read."""
        if self._current is not None:
            return self._current.read(count)
        return os.read(self._file.fileno(), count)

    def find(self, wanted: Callable[[Message], bool], timeout: Optional[float]) -> Optional[Message]:
        """Return the first message for which ``wanted`` is true, and put those before it aside.

        Returns None if there is none within ``timeout`` seconds; None waits for ever.
        """
        for index, message in enumerate(self._aside):
            if wanted(message):
                del self._aside[index]
                return message
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            received = self._receive()
            if received is not None:
                if wanted(received):
                    return received
                self._aside.append(received)
            if not self._wait(deadline):
                return None

    def find_queued(self, wanted: Callable[[Message], bool]) -> Optional[Message]:
        """Return the first message in the kernel's queue for which ``wanted`` is true.

        Puts those before it aside. Returns None if there is none; does not wait.
        """
        while (message := self._receive()) is not None:
            if wanted(message):
                return message
            self._aside.append(message)
        return None

    def _receive(self) -> Optional[Message]:
        length = ioctls.u32(self._file, abi.IOC_NEXTMSG)
        return Message.from_bytes(os.read(self._file.fileno(), length)) if length else None

    def _wait(self, deadline: Optional[float]) -> bool:
        """Wait until the kernel's queue is not empty; return False if the time is up before that.

        It is up at the deadline even if there are messages, so that a stream of them cannot go on.
        """
        poller = select.poll()
        poller.register(self._file, select.POLLIN)
        while deadline is None or time.monotonic() < deadline:
            if poller.poll(_milliseconds_until(deadline)):
                return True
        return False


def _milliseconds_until(deadline: Optional[float]) -> Optional[int]:
    if deadline is None:
        return None
    return math.ceil(1000 * min(max(deadline - time.monotonic(), 0.0), _LONGEST_POLL))
