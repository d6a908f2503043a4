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
from .transfer import Batch, Exchange, Transfer, deadline_after

# ns. poll() takes milliseconds as a C int, so longer waits are made of several.
_LONGEST_POLL = 1_000_000_000_000
_AT_END = io.BytesIO()


class Inbox:
    """The messages that can be read from one open KBUS device, in their order.

    Whoever looks for one particular message puts the others aside, from where they are read
    before anything else. Nothing else is taken from the kernel that is not returned at once, so that
    what ``poll`` tells of the kernel's queue is true. Looking for messages is not for several threads
    at a time.
    """

    def __init__(self, file: io.FileIO, transfer: Transfer) -> None:
        self._file = file
        self._transfer = transfer
        self._aside: deque[Message] = deque()
        # The message being read in pieces, unless it is the kernel's: one that was put aside, or nothing
        # any more, as another one has been read since.
        self._current: Optional[io.BytesIO] = None

    def clear(self) -> None:
        """Forget all that was put aside."""
        self._aside.clear()
        self._current = None

    def count(self) -> int:
        """Return how many messages are to be read."""
        return len(self._aside) + ioctls.u32(self._file, abi.IOC_NUMMSGS)

    # In pieces.

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

    # Whole.

    def take(self) -> Optional[Message]:
        """Return the next message, or None if there is none."""
        if self._aside:
            self._current = _AT_END
            return self._aside.popleft()
        return self._receive(abi.TRANSFER_NOW)

    def take_many(self, timeout: Optional[float], at_most: int) -> list[Message]:
        """Return the next messages, ``at_most`` if that is not 0, waiting until there is one.

        Returns an empty list if there is none within ``timeout`` seconds; None waits for ever.
        """
        if self._aside:
            self._current = _AT_END
            count = min(at_most or len(self._aside), len(self._aside))
            return [self._aside.popleft() for _ in range(count)]
        deadline = deadline_after(timeout)
        while True:
            self._current = _AT_END
            messages = self._transfer.receive(deadline, at_most, self._aside)
            if messages or not self._wait(deadline):
                return messages

    def find(self, wanted: Callable[[Message], bool], timeout: Optional[float]) -> Optional[Message]:
        """Return the first message for which ``wanted`` is true, and put those before it aside.

        Returns None if there is none within ``timeout`` seconds; None waits for ever.
        """
        for index, message in enumerate(self._aside):
            if wanted(message):
                del self._aside[index]
                return message
        return self._find(wanted, deadline_after(timeout))

    def has(self, wanted: Callable[[Message], bool]) -> bool:
        """Return whether a message was put aside for which ``wanted`` is true."""
        return any(map(wanted, self._aside))

    def find_queued(self, wanted: Callable[[Message], bool]) -> Optional[Message]:
        """Return the first message in the kernel's queue for which ``wanted`` is true.

        Puts those before it aside. Returns None if there is none; does not wait.
        """
        while (message := self._receive(abi.TRANSFER_NOW)) is not None:
            if wanted(message):
                return message
            self._aside.append(message)
        return None

    def wait(self, timeout: Optional[float]) -> Optional[Message]:
        """Return the next message, or None if there is none within ``timeout`` seconds; None is for ever."""
        if self._aside:
            return self.take()
        return self._find(lambda message: True, deadline_after(timeout))

    def answer(self, exchange: Exchange, deadline: int) -> Optional[Message]:
        """Return the answer to the Request that was sent; put what comes before it aside.

        Returns None if there is none until the deadline. Raises OSError if it could not be sent.
        """
        request_id = exchange.sent_id()
        self._current = _AT_END
        first = exchange.take_received()
        if first and request_id and first[0].in_reply_to == request_id:
            return first[0]
        self._aside += first
        if request_id is None:
            raise exchange.error()
        if first and _is_over(deadline):
            return None
        return self._find(lambda message: message.in_reply_to == request_id, deadline)

    def keep(self, exchange: Exchange) -> None:
        """Put aside what was received, unless ``answer`` has seen to it."""
        self._aside += exchange.take_received()

    def take_bytes(self, room: int) -> Batch:
        """Return the messages that are queued, as bytes."""
        self._current = _AT_END
        if self._aside:
            aside = [message.to_bytes() for message in self._aside]
            self._aside.clear()
            return Batch(aside, [0] * len(aside), ioctls.lost_messages(self._file), self.count())
        return self._transfer.receive_bytes(room)

    def _find(self, wanted: Callable[[Message], bool], deadline: int) -> Optional[Message]:
        while True:
            message = self._receive(deadline)
            if message is not None:
                if wanted(message):
                    return message
                self._aside.append(message)
                # Even if there are more: a stream of them must not go on for ever.
                if _is_over(deadline):
                    return None
            elif not self._wait(deadline):
                return None

    def _receive(self, deadline: int) -> Optional[Message]:
        self._current = _AT_END
        messages = self._transfer.receive(deadline, 1, self._aside)
        return messages[0] if messages else None

    def _wait(self, deadline: int) -> bool:
        """Wait as TRANSFER does not with O_NONBLOCK: until the kernel's queue is not empty.

        Returns False if the time is up before that.
        """
        poller = select.poll()
        poller.register(self._file, select.POLLIN)
        while not _is_over(deadline):
            if poller.poll(_milliseconds_until(deadline)):
                return True
        return False


def _is_over(deadline: int) -> bool:
    return deadline != abi.TRANSFER_NEVER and time.monotonic_ns() >= deadline


def _milliseconds_until(deadline: int) -> Optional[int]:
    if deadline == abi.TRANSFER_NEVER:
        return None
    return math.ceil(min(max(deadline - time.monotonic_ns(), 0), _LONGEST_POLL) / 1_000_000)
