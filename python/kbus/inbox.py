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
from itertools import islice
from typing import Optional

from . import abi, ioctls
from .messages import Message
from .transfer import Aside, Batch, Exchange, Taken, Transfer, deadline_after

# ns. poll() takes milliseconds as a C int, so longer waits are made of several.
_LONGEST_POLL = 1_000_000_000_000
_AT_END = io.BytesIO()


class Inbox:
    """The messages that can be read from one open KBUS device, in their order.

    Whoever looks for one particular message puts the others aside, from where they are read
    before anything else. Nothing else is taken from the kernel that is not returned at once, so that
    what ``poll`` tells of the kernel's queue is true. Looking for messages is not for several threads
    at a time.

    Whoever takes messages gives ``taken``, and calls ``put_back`` with that if an exception comes: a signal
    handler may raise one anywhere between the system call and the caller.
    """

    def __init__(self, file: io.FileIO, transfer: Transfer) -> None:
        self._file = file
        self._transfer = transfer
        self._aside: deque[Message] = deque()
        # The message being read in pieces, unless it is the kernel's: one that was put aside, or nothing
        # any more, as another one has been read since.
        self._current: Optional[io.BytesIO] = None
        self._undone: list[tuple[Taken, Optional[Exchange]]] = []

    def clear(self) -> None:
        """Forget all that was put aside."""
        self._undone.clear()
        self._aside.clear()
        self._current = None

    # What was taken, and not returned.

    def put_back(self, taken: Taken, exchange: Optional[Exchange] = None) -> None:
        """See to it that what was taken is read next, as the call does not return it.

        Of a call, ``exchange``, the Request is abandoned, and its answer dropped.
        """
        self._undone.append((taken, exchange))
        self._settle()

    def _settle(self) -> None:
        """Put back what is not yet. An exception may end this anywhere; then it is done again."""
        while self._undone:
            taken, exchange = self._undone[-1]
            for index in reversed(range(len(taken))):
                each = taken[index]
                if isinstance(each, Aside):
                    self._insert(each)
                    continue
                if not isinstance(each, list):
                    # From now on these objects, by which it shows what has been put back.
                    each = taken[index] = each.messages()
                self._append(each)
            if exchange:
                self._append(exchange.messages())
                self._abandon(exchange)
            self._undone.pop()

    def _insert(self, aside: Aside) -> None:
        for index, message in enumerate(aside.messages, aside.at):
            if not self._has(message):
                self._aside.insert(index, message)

    def _append(self, messages: list[Message]) -> None:
        for message in messages:
            if not self._has(message):
                self._aside.append(message)

    def _has(self, message: Message) -> bool:
        return any(message is each for each in self._aside)

    def _abandon(self, exchange: Exchange) -> None:
        request_id = exchange.sent_id() if exchange.is_call else None
        if request_id is None or self._file.closed:
            return
        try:
            ioctls.message_id(self._file, abi.IOC_ABANDON, request_id)
        except FileNotFoundError:
            # Then it is among what is queued, unless it has come already.
            taken: Taken = []
            while not any(message.in_reply_to == request_id for message in self._aside):
                message = self._receive(abi.TRANSFER_NOW, taken)
                if message is None:
                    break
                self._append([message])
        except OSError:
            return
        self._aside = deque(each for each in self._aside if each.in_reply_to != request_id)

    def count(self) -> int:
        """Return how many messages are to be read."""
        self._settle()
        return len(self._aside) + ioctls.u32(self._file, abi.IOC_NUMMSGS)

    # In pieces.

    def next_length(self) -> int:
        """Make the next message the one being read, and return its length in bytes, or 0."""
        self._settle()
        if self._aside:
            self._current = io.BytesIO(self._aside[0].to_bytes())
            del self._aside[0]
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

    def take(self, taken: Taken) -> Optional[Message]:
        """Return the next message, or None if there is none."""
        self._settle()
        if self._aside:
            return self._pop(taken)
        return self._receive(abi.TRANSFER_NOW, taken)

    def take_next(self, taken: Taken) -> Message:
        """Return the next message. Raises StopIteration if there is none."""
        message = self.take(taken)
        if message is None:
            raise StopIteration
        return message

    def _pop(self, taken: Taken, index: int = 0) -> Message:
        self._current = _AT_END
        message = self._aside[index]
        taken.append(Aside(index, [message]))
        del self._aside[index]
        return message

    def take_many(self, timeout: Optional[float], at_most: int, taken: Taken) -> list[Message]:
        """Return the next messages, ``at_most`` if that is not 0, waiting until there is one.

        Returns an empty list if there is none within ``timeout`` seconds; None waits for ever.
        """
        self._settle()
        self._current = _AT_END
        if self._aside:
            messages = list(islice(self._aside, at_most or None))
            taken.append(Aside(0, messages))
            for _ in messages:
                del self._aside[0]
            return messages
        deadline = deadline_after(timeout)
        while True:
            messages = self._transfer.receive(deadline, at_most, taken)
            if messages or not self._wait(deadline):
                return messages

    def find(
        self, wanted: Callable[[Message], bool], timeout: Optional[float], taken: Taken
    ) -> Optional[Message]:
        """Return the first message for which ``wanted`` is true, and put those before it aside.

        Returns None if there is none within ``timeout`` seconds; None waits for ever.
        """
        self._settle()
        for index, message in enumerate(self._aside):
            if wanted(message):
                return self._pop(taken, index)
        return self._find(wanted, deadline_after(timeout), taken)

    def has(self, wanted: Callable[[Message], bool]) -> bool:
        """Return whether a message was put aside for which ``wanted`` is true."""
        return any(map(wanted, self._aside))

    def find_queued(self, wanted: Callable[[Message], bool], taken: Taken) -> Optional[Message]:
        """Return the first message in the kernel's queue for which ``wanted`` is true.

        Puts those before it aside. Returns None if there is none; does not wait.
        """
        while (message := self._receive(abi.TRANSFER_NOW, taken)) is not None:
            if wanted(message):
                return message
            self._aside.append(message)
        return None

    def wait(self, timeout: Optional[float], taken: Taken) -> Optional[Message]:
        """Return the next message, or None if there is none within ``timeout`` seconds; None is for ever."""
        self._settle()
        if self._aside:
            return self._pop(taken)
        return self._find(lambda message: True, deadline_after(timeout), taken)

    def answer(self, exchange: Exchange, deadline: int, taken: Taken) -> Optional[Message]:
        """Return the answer to the Request that was sent; put what comes before it aside.

        Returns None if there is none until the deadline. Raises OSError if it could not be sent.
        """
        request_id = exchange.sent_id()
        self._current = _AT_END
        first = exchange.messages()
        if first and request_id and first[0].in_reply_to == request_id:
            return first[0]
        self._aside += first
        if request_id is None:
            raise exchange.error()
        if first and _is_over(deadline):
            return None
        return self._find(lambda message: message.in_reply_to == request_id, deadline, taken)

    def keep(self, exchange: Exchange) -> None:
        """Put aside what was received."""
        self._aside += exchange.messages()

    def take_bytes(self, room: int, taken: Taken) -> Batch:
        """Return the messages that are queued, as bytes."""
        self._settle()
        self._current = _AT_END
        if self._aside:
            aside = [message.to_bytes() for message in self._aside]
            lost = ioctls.lost_messages(self._file)
            taken.append(Aside(0, list(self._aside)))
            self._aside.clear()
            return Batch(aside, [0] * len(aside), lost, self.count())
        return self._transfer.receive_bytes(room, taken)

    def _find(self, wanted: Callable[[Message], bool], deadline: int, taken: Taken) -> Optional[Message]:
        while True:
            message = self._receive(deadline, taken)
            if message is not None:
                if wanted(message):
                    return message
                self._aside.append(message)
                # Even if there are more: a stream of them must not go on for ever.
                if _is_over(deadline):
                    return None
            elif not self._wait(deadline):
                return None

    def _receive(self, deadline: int, taken: Taken) -> Optional[Message]:
        """What was taken before is either put aside or forgotten by now."""
        self._current = _AT_END
        taken.clear()
        messages = self._transfer.receive(deadline, 1, taken)
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
