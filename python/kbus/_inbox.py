# SPDX-License-Identifier: MIT
"""What a Ksock reads: the messages kept here, then the kernel's queue."""

from __future__ import annotations

import io
import math
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Optional, Union

from . import _abi as abi
from . import _ioctls as ioctls
from ._device import DeviceFile
from ._ids import MessageId
from ._transfer import Aside, Batch, Exchange, Taken, Transfer, deadline_after
from .messages import Message

# ns. poll() takes milliseconds as a C int, so longer waits are made of several.
_LONGEST_POLL = 1_000_000_000_000
_AT_END = io.BytesIO()


class Inbox:
    """The messages that can be read from one open KBUS device, in their order.

    A search for one message keeps the others in ``_aside``; they are read before anything else. All else
    that is taken from the kernel is returned at once, so that ``poll`` is right about the kernel's queue.
    Only one thread at a time may look for messages.

    A caller that takes messages passes ``taken``. If an exception comes, the caller appends that to
    ``undone``, and calls ``settle``. A signal handler may raise one anywhere between the system call and the
    caller, and the next one, from Python 3.11 on, where the next function of the package begins: so the
    caller appends it without calling a function for that.
    """

    def __init__(self, file: DeviceFile, transfer: Transfer) -> None:
        self._file = file
        self._transfer = transfer
        self._aside: deque[Message] = deque()
        # The message being read in pieces, unless it is the kernel's: one that was kept here, or none any
        # more because another one has been read since.
        self._current: Optional[io.BytesIO] = None
        #: What was taken and not returned, and is to be read next. Of a call, the exchange: its Request is
        #: abandoned, and its answer dropped.
        self.undone: list[tuple[Taken, Optional[Exchange]]] = []

    def clear(self) -> None:
        """Drop all that is kept."""
        self.undone.clear()
        self._aside.clear()
        self._current = None

    # What was taken, and not returned.

    def settle(self) -> None:
        """Put back what is not yet. An exception may end this anywhere; then the next call goes on."""
        while self.undone:
            undone = self.undone[-1]
            taken, exchange = undone
            for index in reversed(range(len(taken))):
                each = taken[index]
                if isinstance(each, Aside):
                    self._insert(each)
                    continue
                if not isinstance(each, list):
                    # Make them once: `_missing` knows them by their identity.
                    each = taken[index] = each.messages()
                self._append(each)
            if exchange:
                self._append(exchange.messages())
                self._abandon(exchange)
            # A signal handler may have come to this first.
            if self.undone and self.undone[-1] is undone:
                self.undone.pop()

    def _insert(self, aside: Aside) -> None:
        missing = self._missing(aside.messages)
        if aside.at == 0:
            self._aside.extendleft(reversed(missing))
        else:
            # Only one is taken from between others.
            for message in missing:
                self._aside.insert(aside.at, message)

    def _append(self, messages: list[Message]) -> None:
        self._aside += self._missing(messages)

    def _put_aside(self, messages: list[Message], note: Union[list[Message], Taken]) -> None:
        """Keep messages that were just taken, and remove them from the note of what was taken.

        A signal handler may take them while the call waits; then they must not be put back.
        """
        self._aside += messages
        note.clear()

    def _missing(self, messages: list[Message]) -> list[Message]:
        """Return those that are not kept here; this compares identity."""
        there = set(map(id, list(self._aside)))
        return [each for each in messages if id(each) not in there]

    def _abandon(self, exchange: Exchange) -> None:
        request_id = exchange.sent_id() if exchange.is_call else None
        if request_id is None or self._file.closed:
            return

        def is_answer(message: Message) -> bool:
            return message.in_reply_to == request_id

        try:
            self.abandon(request_id)
        except FileNotFoundError:
            # Then the answer is queued, unless it is kept here already.
            taken: Taken = []
            try:
                if not self.has(is_answer):
                    self.find_queued(is_answer, taken)
            except BaseException:
                self.undone.append((taken, None))
                raise
        except OSError:
            return
        while self._look(is_answer, []):
            pass

    def abandon(self, request_id: MessageId) -> None:
        """Give up a Request that was sent here.

        If it came here too, and is kept, it is not to be answered any more. The kernel does the same with
        what is queued. Raises OSError as ABANDON does.
        """
        sender = ioctls.u32(self._file, abi.IOC_KSOCKID)
        for message in list(self._aside):
            if message.id == request_id and message.from_ == sender:
                message.flags &= ~abi.BIT_WANT_YOU_TO_REPLY
        ioctls.message_id(self._file, abi.IOC_ABANDON, request_id)

    def count(self) -> int:
        """Return how many messages are to be read."""
        self.settle()
        return len(self._aside) + ioctls.u32(self._file, abi.IOC_NUMMSGS)

    # In pieces.

    def next_length(self) -> int:
        """Make the next message the one being read, and return its length in bytes, or 0."""
        self.settle()
        while first := self._first(1):
            self._current = io.BytesIO(first[0].to_bytes())
            if self._remove(0, first[0]):
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
        return self._file.read_piece(count)

    # Whole.

    def take(self, taken: Taken) -> Optional[Message]:
        """Return the next message, or None if there is none."""
        self.settle()
        if self._aside and (first := self._take_aside(1, taken)):
            return first[0]
        return self._receive(abi.TRANSFER_NOW, taken)

    def take_next(self, taken: Taken) -> Message:
        """Return the next message. Raises StopIteration if there is none."""
        message = self.take(taken)
        if message is None:
            raise StopIteration
        return message

    def _take_aside(self, at_most: int, taken: Taken) -> list[Message]:
        """Take the first kept messages, ``at_most`` if that is not 0.

        Returns an empty list if there is none.
        """
        while messages := self._first(at_most):
            self._current = _AT_END
            taken.append(Aside(0, messages))
            messages[:] = [each for each in messages if self._remove(0, each)]
            if messages:
                return messages
        return []

    def _first(self, at_most: int) -> list[Message]:
        """Return the first kept messages, ``at_most`` if that is not 0."""
        if at_most != 1:
            return list(self._aside)[: at_most or None]
        try:
            return [self._aside[0]]
        except IndexError:
            return []

    def _look(self, wanted: Callable[[Message], bool], taken: Taken) -> Optional[Message]:
        """Take the first kept message for which ``wanted`` is true."""
        for index, message in enumerate(list(self._aside)):
            if wanted(message):
                self._current = _AT_END
                taken.append(Aside(index, [message]))
                if self._remove(index, message):
                    return message
                # A signal handler has changed what is there.
                taken.pop()
                return self._look(wanted, taken)
        return None

    def _remove(self, index: int, message: Message) -> bool:
        """Remove a kept message; return whether it was there, as a signal handler may have taken it."""
        # Without a call in between, after which the handler could run.
        try:
            if self._aside[index] is message:
                del self._aside[index]
                return True
        except IndexError:
            pass
        return False

    def take_many(self, timeout: Optional[float], at_most: int, taken: Taken) -> list[Message]:
        """Return the next messages, ``at_most`` if that is not 0, waiting until there is one.

        Returns an empty list if there is none within ``timeout`` seconds; None waits for ever.
        """
        self.settle()
        self._current = _AT_END
        if messages := self._take_aside(at_most, taken):
            return messages
        deadline = deadline_after(timeout)
        while True:
            messages = self._transfer.receive(deadline, at_most, taken)
            if messages or not self._wait(deadline):
                return messages

    def find(
        self, wanted: Callable[[Message], bool], timeout: Optional[float], taken: Taken
    ) -> Optional[Message]:
        """Return the first message for which ``wanted`` is true, and keep those before it.

        Returns None if there is none within ``timeout`` seconds; None waits for ever.
        """
        self.settle()
        found = self._look(wanted, taken)
        return found if found is not None else self._find(wanted, deadline_after(timeout), taken)

    def has(self, wanted: Callable[[Message], bool]) -> bool:
        """Return whether a message is kept for which ``wanted`` is true."""
        return any(map(wanted, list(self._aside)))

    def find_queued(self, wanted: Callable[[Message], bool], taken: Taken) -> Optional[Message]:
        """Return the first message in the kernel's queue for which ``wanted`` is true.

        Keeps those before it. Returns None if there is none; does not wait.
        """
        while (message := self._receive(abi.TRANSFER_NOW, taken)) is not None:
            if wanted(message):
                return message
            self._put_aside([message], taken)
        return None

    def find_aside(self, wanted: Callable[[Message], bool], taken: Taken) -> Optional[Message]:
        """Return the first kept message for which ``wanted`` is true, or None."""
        self.settle()
        return self._look(wanted, taken)

    def put_next_aside(self, taken: Taken) -> Optional[Message]:
        """Keep the first message of the kernel's queue and return it, or None if there is none."""
        message = self._receive(abi.TRANSFER_NOW, taken)
        if message is not None:
            self._put_aside([message], taken)
        return message

    def find_unless_woken(
        self, wanted: Callable[[Message], bool], woken: int, taken: Taken
    ) -> Optional[Message]:
        """Return the first message for which ``wanted`` is true, and keep those before it.

        Returns None as soon as the descriptor ``woken`` can be read.
        """
        found = self.find_aside(wanted, taken)
        if found is not None:
            return found
        poller = select.poll()
        poller.register(self._file, select.POLLIN)
        poller.register(woken, select.POLLIN)
        while ready := poller.poll():
            if any(descriptor == woken for descriptor, _ in ready):
                return None
            found = self._receive(abi.TRANSFER_NOW, taken)
            if found is not None:
                if wanted(found):
                    return found
                self._put_aside([found], taken)
        return None

    def wait(self, timeout: Optional[float], taken: Taken) -> Optional[Message]:
        """Return the next message, or None if there is none within ``timeout`` seconds; None is for ever."""
        self.settle()
        if self._aside and (first := self._take_aside(1, taken)):
            return first[0]
        return self._find(lambda message: True, deadline_after(timeout), taken)

    def answer(self, exchange: Exchange, deadline: int, taken: Taken) -> Optional[Message]:
        """Return the answer to the Request that was sent; keep what comes before it.

        Returns None if there is none until the deadline. Raises OSError if it could not be sent.
        """
        self.settle()
        request_id = exchange.sent_id()
        self._current = _AT_END
        first = exchange.messages()
        if first and request_id and first[0].in_reply_to == request_id:
            return first[0]
        has_come = bool(first)
        self._put_aside(first, first)
        if request_id is None:
            raise exchange.error()
        if has_come and _is_over(deadline):
            return None
        return self._find(lambda message: message.in_reply_to == request_id, deadline, taken)

    def keep(self, exchange: Exchange) -> None:
        """Keep what was received."""
        self.settle()
        self._aside += exchange.messages()

    def take_bytes(self, room: int, taken: Taken) -> Batch:
        """Return the messages that are queued, as bytes."""
        self.settle()
        self._current = _AT_END
        if aside := self._take_aside(0, taken):
            lost = ioctls.lost_messages(self._file)
            return Batch([each.to_bytes() for each in aside], [0] * len(aside), lost, self.count())
        return self._transfer.receive_bytes(room, taken)

    def _find(self, wanted: Callable[[Message], bool], deadline: int, taken: Taken) -> Optional[Message]:
        while True:
            message = self._receive(deadline, taken)
            if message is not None:
                if wanted(message):
                    return message
                self._put_aside([message], taken)
                # Even if there are more: a stream of them must not keep this from ending.
                if _is_over(deadline):
                    return None
            elif not self._wait(deadline):
                return None

    def _receive(self, deadline: int, taken: Taken) -> Optional[Message]:
        """Receive a message. What was taken before is kept here or dropped by now."""
        self._current = _AT_END
        taken.clear()
        messages = self._transfer.receive(deadline, 1, taken)
        return messages[0] if messages else None

    def _wait(self, deadline: int) -> bool:
        """Wait until the kernel's queue is not empty; TRANSFER does not wait with O_NONBLOCK.

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
