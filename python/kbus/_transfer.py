# SPDX-License-Identifier: MIT
"""The ioctl TRANSFER: messages out and in with one system call, from and to memory that is kept.

Source: ``linux/kbus.h`` and the ABI, 'TRANSFER'.
"""

from __future__ import annotations

import errno
import os
import struct
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Optional, TypeVar, Union

from . import _abi as abi
from ._device import DeviceFile
from ._ids import MessageId, trusted_id
from ._wire import split
from .errors import SendManyError
from .messages import Message, received

# A default queue of small messages fits, and a program may open many KSocks.
_SMALL = 16 * 1024
# A program with one large message mostly has more, so memory that has grown is kept. But one message of
# 16 MiB must not hold 16 MiB for as long as the Ksock is open: more than this is freed after the call.
_MOST_KEPT = 256 * 1024
# How many ids there is room for: about as many as small messages fit into the memory.
_IDS = 128
# Bytes of the shortest message, a guard at each end.
_SHORTEST = abi.MESSAGE_HEADER.size + abi.padded(abi.MIN_NAME_LEN) + abi.U32.size
# Seconds. As ns it fits 64 bits, and it is not KBUS_TRANSFER_NEVER.
_LONGEST_WAIT = 1e9

#: The argument from ``send`` to ``kept``
INPUT = struct.Struct("=5Q5I")
#: ``sent``, ``error``, ``kept``
_PROGRESS = struct.Struct("=3I")
_PROGRESS_AT = 48
#: ``received``, ``received_len``, ``queued``, ``next_len``
_RECEIVED = struct.Struct("=4I")
_RECEIVED_AT = 60
_U64 = struct.Struct("=Q")
_RECEIVE_AT, _DEADLINE_AT, _LOST_AT, _RECEIVE_LEN_AT, _RECEIVE_MAX_AT, _TIMES_AT = 16, 24, 32, 44, 76, 80


def deadline_after(timeout: Optional[float]) -> int:
    """Return the deadline so many seconds from now; None is never. Raises ValueError for NaN."""
    if timeout is None:
        return abi.TRANSFER_NEVER
    return time.monotonic_ns() + int(1e9 * seconds_to_wait(timeout))


def seconds_to_wait(timeout: float) -> float:
    """Return ``timeout``, limited to 0 and the longest that a deadline can be. Raises ValueError for NaN."""
    if timeout != timeout:
        raise ValueError("timeout is NaN")
    try:
        return max(0.0, min(timeout, _LONGEST_WAIT))
    except TypeError:
        raise TypeError(f"timeout is a number of seconds, not {type(timeout).__name__}") from None


def memory(size: int) -> tuple[memoryview, int]:
    """Return ``size`` bytes and their address, which is good as long as the view is."""
    found = array("B", b"\0") * size
    return memoryview(found), found.buffer_info()[0]


def _grown(size: int) -> int:
    return size if size > _MOST_KEPT else 1 << (size - 1).bit_length()


class Batch(NamedTuple):
    """Messages as bytes, and the state of the queue that they come from.

    ``times`` are those at which each message was sent, and so queued, in ns of CLOCK_MONOTONIC
    (``time.monotonic_ns``), or 0 where KBUS was not asked to record it. ``lost`` is how many messages the
    KSock has missed so far, ``queued`` how many are left.
    """

    messages: list[bytes]
    times: list[int]
    lost: int
    queued: int


class _Outgoing:
    """An argument to send with, the ids, and memory for messages."""

    __slots__ = ("address", "argument", "ids", "ids_at", "view")

    def __init__(self) -> None:
        # At most 1024 bytes: with more, fcntl.ioctl does not let other threads run meanwhile.
        self.argument = bytearray(abi.TRANSFER.size)
        self.ids, self.ids_at = memory(_IDS * abi.MSG_ID.size)
        self.view, self.address = memory(_SMALL)
        abi.U32.pack_into(self.argument, _RECEIVE_MAX_AT, 1)

    def fill(
        self, messages: bytes, deadline: int = abi.TRANSFER_NEVER, receive: int = 0, receive_len: int = 0
    ) -> None:
        """Copy the messages to the memory, and fill in the argument."""
        length = len(messages)
        if length > len(self.view):
            self.view, self.address = memory(_grown(length))
        self.view[:length] = messages
        INPUT.pack_into(
            self.argument, 0,
            self.address, self.ids_at, receive, deadline, 0, length, receive_len, 0, 0, 0,
        )  # fmt: skip


class ReceiveBuffer:
    """An argument to receive with, memory for messages, and what the last call has brought."""

    __slots__ = ("_messages", "address", "argument", "at_most", "deadline", "view")

    def __init__(self) -> None:
        self._messages: Optional[list[Message]] = None
        self.argument = bytearray(abi.TRANSFER.size)
        self.deadline = abi.TRANSFER_NOW
        self.at_most = 0
        self.view = memoryview(b"")
        self.make_room(_SMALL)

    def make_room(self, size: int) -> None:
        """Make the memory at least ``size`` bytes long."""
        # If there is enough, one that fits came just after the kernel's last look at the queue.
        if len(self.view) < size:
            self._replace(_grown(size))

    def _replace(self, size: int) -> None:
        self.view, self.address = memory(size)
        _U64.pack_into(self.argument, _RECEIVE_AT, self.address)
        abi.U32.pack_into(self.argument, _RECEIVE_LEN_AT, len(self.view))

    def ask(self, deadline: int, at_most: int) -> None:
        """Fill in the argument; mostly it asks for the same as the last time."""
        abi.U32.pack_into(self.argument, _RECEIVED_AT, 0)
        self._messages = None
        if deadline != self.deadline:
            self.deadline = deadline
            _U64.pack_into(self.argument, _DEADLINE_AT, deadline)
        if at_most != self.at_most:
            self.at_most = at_most
            abi.U32.pack_into(self.argument, _RECEIVE_MAX_AT, at_most)

    def messages(self) -> list[Message]:
        """Return the messages that came with the last call; always the same objects."""
        messages = self._messages
        if messages is None:
            messages = self._messages = _received(self.argument, self.view)
        return messages


class _TimedIncoming(ReceiveBuffer):
    """The same, with memory for the time at which each message was queued."""

    __slots__ = ("times",)

    def _replace(self, size: int) -> None:
        super()._replace(size)
        times, address = memory(_U64.size * (size // _SHORTEST))
        self.times = times.cast("Q")
        _U64.pack_into(self.argument, _TIMES_AT, address)


class Aside(NamedTuple):
    """Messages that the Inbox had kept, and where among those the first of them was."""

    at: int
    messages: list[Message]


class Raw(NamedTuple):
    """Messages that were received, as bytes one after the other, and how many."""

    content: bytes
    number: int

    def messages(self) -> list[Message]:
        """Return the messages, other objects each time."""
        return received(self.content, self.number)


#: What a call has taken so far, from the kernel or from the messages that the Inbox keeps. It is added here
#: before it is taken, so that it can be put back, wherever an exception comes. Before another call, such as a
#: signal handler's, may use the memory again, a copy replaces it.
Taken = list[Union[ReceiveBuffer, Aside, Raw, list[Message]]]

_M = TypeVar("_M", _Outgoing, ReceiveBuffer, _TimedIncoming)


def _received(argument: bytearray, view: memoryview) -> list[Message]:
    """Return the messages that came with the last call."""
    count, length, _, _ = _RECEIVED.unpack_from(argument, _RECEIVED_AT)
    return received(view[:length].tobytes(), count) if count else []


class Exchange:
    """One message to send and one to receive, and how far that has come, whatever interrupts it.

    A message that the memory is too small for stays queued. ``is_call`` is true if the message is a
    Request, whose answer is dropped if the call does not return it.
    """

    def __init__(self, file: DeviceFile, out: _Outgoing, incoming: ReceiveBuffer, is_call: bool) -> None:
        self._file = file
        self.out = out
        self.incoming = incoming
        self.is_call = is_call
        self._messages: Optional[list[Message]] = None
        self._sent_id: Optional[MessageId] = None
        abi.U32.pack_into(out.argument, _RECEIVED_AT, 0)

    def run(self) -> None:
        """Make the system call. Raises OSError with its errno, ValueError if the file is closed."""
        while True:
            try:
                self._file.ioctl(self._file, abi.IOC_TRANSFER, self.out.argument)
            except InterruptedError:
                # Nothing has been done.
                continue
            return

    def sent_id(self) -> Optional[MessageId]:
        """Return the id of the message if it was sent."""
        sent, _, _ = _PROGRESS.unpack_from(self.out.argument, _PROGRESS_AT)
        if sent and self._sent_id is None:
            self._sent_id = trusted_id(*abi.MSG_ID.unpack_from(self.out.ids))
        return self._sent_id

    def error(self) -> OSError:
        """Return why the message was not sent."""
        _, error, _ = _PROGRESS.unpack_from(self.out.argument, _PROGRESS_AT)
        return OSError(error, os.strerror(error))

    def messages(self) -> list[Message]:
        """Return the message that was received, if there is one; always the same object."""
        if self._messages is None:
            self._messages = _received(self.out.argument, self.incoming.view)
        return self._messages


class Transfer:
    """TRANSFER on one open KBUS device. Messages to send are bytes.

    Synchronization: each method can be called by several threads, and by signal handlers: a call
    has memory of its own, and puts it back when it is done.

    All methods raise OSError with the errno of the ioctl, or of the message that could not be sent,
    and ValueError if the file is closed. If a signal interrupts them, they go on.
    """

    def __init__(self, file: DeviceFile) -> None:
        self._file = file
        # Memory that is not in use. pop() gives each of several threads another one.
        self._outgoing: list[_Outgoing] = []
        self._incoming: list[ReceiveBuffer] = []
        self._timed: list[_TimedIncoming] = []

    def send(self, message: bytes) -> MessageId:
        """Send a message, and return its id."""
        out = _taken(self._outgoing, _Outgoing)
        argument = out.argument
        out.fill(message)
        self._file.ioctl(self._file, abi.IOC_TRANSFER, argument)
        _, error, _ = _PROGRESS.unpack_from(argument, _PROGRESS_AT)
        while error == errno.EINTR:
            # The kernel has kept the message, and the argument says so.
            self._file.ioctl(self._file, abi.IOC_TRANSFER, argument)
            _, error, _ = _PROGRESS.unpack_from(argument, _PROGRESS_AT)
        network_id, serial_num = abi.MSG_ID.unpack_from(out.ids)
        _put_back(self._outgoing, out)
        if error:
            raise OSError(error, os.strerror(error))
        return trusted_id(network_id, serial_num)

    def send_many(self, messages: Iterable[bytes]) -> list[MessageId]:
        """Send messages in their order, and return their ids.

        Raises SendManyError for the first that could not be sent. Those after it are not sent.
        """
        sent: list[MessageId] = []
        for batch in _batches(messages):
            self._send_batch(batch, sent)
        return sent

    def _send_batch(self, batch: bytes, sent: list[MessageId]) -> None:
        out = _taken(self._outgoing, _Outgoing)
        argument = out.argument
        out.fill(batch)
        error = errno.EINTR
        while error == errno.EINTR:
            # With what came back in the argument, the next call goes on where the last one ended.
            self._file.ioctl(self._file, abi.IOC_TRANSFER, argument)
            count, error, kept = _PROGRESS.unpack_from(argument, _PROGRESS_AT)
            ids = out.ids[: count * abi.MSG_ID.size]
            sent += [trusted_id(*pair) for pair in abi.MSG_ID.iter_unpack(ids)]
        _put_back(self._outgoing, out)
        if error:
            raise SendManyError(error, os.strerror(error), sent, bool(kept))

    def receive(self, deadline: int, at_most: int, taken: Taken) -> list[Message]:
        """Return the next messages.

        ``at_most`` 0 is as many as there is memory for; that is at least one. If none is queued,
        this waits until the deadline, unless O_NONBLOCK is set; then it may be none.

        They are in ``taken`` before this returns.
        """
        incoming = _taken(self._incoming, ReceiveBuffer)
        argument = incoming.argument
        incoming.ask(deadline, at_most)
        taken.append(incoming)
        while True:
            try:
                self._file.ioctl(self._file, abi.IOC_TRANSFER, argument)
            except InterruptedError:
                continue
            messages = incoming.messages()
            if messages:
                break
            _, _, _, next_len = _RECEIVED.unpack_from(argument, _RECEIVED_AT)
            if not next_len:
                break
            incoming.make_room(next_len)
            incoming.ask(deadline, at_most)
        taken[-1] = messages
        _put_back(self._incoming, incoming)
        return messages

    def receive_bytes(self, room: int, taken: Taken) -> Batch:
        """Return the messages that are queued. This does not wait.

        There is memory for ``room`` bytes of them, or for one message. They are in ``taken`` before this
        returns.
        """
        incoming = _taken(self._timed, _TimedIncoming)
        argument = incoming.argument
        incoming.ask(abi.TRANSFER_NOW, 0)
        taken.append(incoming)
        incoming.make_room(room)
        while True:
            self._file.ioctl(self._file, abi.IOC_TRANSFER, argument)
            count, length, queued, next_len = _RECEIVED.unpack_from(argument, _RECEIVED_AT)
            if count or not next_len:
                break
            incoming.make_room(next_len)
        content = incoming.view[:length].tobytes()
        taken[-1] = Raw(content, count)
        messages = split(content, count)
        times = incoming.times[:count].tolist()
        (lost,) = _U64.unpack_from(argument, _LOST_AT)
        _put_back(self._timed, incoming)
        return Batch(messages, times, lost, queued)

    def exchange(self, message: bytes, deadline: int, is_call: bool) -> Exchange:
        """Return what sends a message and receives one, waiting for that until the deadline."""
        out, incoming = _taken(self._outgoing, _Outgoing), _taken(self._incoming, ReceiveBuffer)
        out.fill(message, deadline, incoming.address, len(incoming.view))
        return Exchange(self._file, out, incoming, is_call)

    def finish(self, exchange: Exchange) -> None:
        """Free the memory for other calls; the exchange must not be used any more."""
        _put_back(self._outgoing, exchange.out)
        _put_back(self._incoming, exchange.incoming)


def _taken(pool: list[_M], make: Callable[[], _M]) -> _M:
    """Return memory of the pool, or new memory if all of it is in use."""
    try:
        return pool.pop()
    except IndexError:
        pass
    # Outside the ``try``: an IndexError of this must be raised.
    return make()


def _put_back(pool: list[_M], memory: _M) -> None:
    if len(memory.view) <= _MOST_KEPT:
        pool.append(memory)


def _batches(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Join messages, as many at a time as there is memory for, and room for the ids."""
    batch: list[bytes] = []
    length = count = 0
    for message in messages:
        padding = -len(message) % abi.TRANSFER_ALIGN
        step = len(message) + padding
        if count == _IDS or (count and length + step > _SMALL):
            yield b"".join(batch)
            batch.clear()
            length = count = 0
        batch.append(message)
        if padding:
            batch.append(bytes(padding))
        length += step
        count += 1
    if count:
        yield b"".join(batch)


#: ns. A clock that goes back by less was slewed, and not set.
_SLEWED = 1_000_000


class WallClock:
    """CLOCK_REALTIME less CLOCK_MONOTONIC.

    The two can't be read at the same moment, so the difference is known only to lie between two bounds. It
    stays what it was while it can, so that the time between two messages is the same by either clock.
    """

    def __init__(self) -> None:
        self._offset = 0
        self._until = 0

    def offset(self, first: int, last: int) -> int:
        """Return the difference, in ns, for the time from ``first`` to ``last``, in ns of CLOCK_MONOTONIC.

        That must be recent, and not before the last call's time. With the difference it is not before that by
        CLOCK_REALTIME either, unless the clock was set back.
        """
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        offset = min(max(self._offset, wall - after), wall - before)
        if 0 < self._offset - offset < _SLEWED:
            offset = max(offset, self._offset - (first - self._until))
        self._offset, self._until = offset, last
        return offset
