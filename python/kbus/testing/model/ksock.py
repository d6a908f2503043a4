# SPDX-License-Identifier: MIT
"""A KSock of the model: every system call that a program can make on it.

Methods are named for the ioctl or call and give what comes back from it, or raise OSError. The driver of the
real device (driver.py) has the same methods.
"""

from __future__ import annotations

import errno
import select
from dataclasses import replace
from typing import TYPE_CHECKING

from ... import _abi as abi
from ..._stand_in import TransferResult
from . import answers, delivery, events, names, transfer, wire
from .parts import Owner, Queue
from .wire import NO_ID, MsgId

if TYPE_CHECKING:
    from .bus import Device


class ModelKsock:
    """One open file. `mode` is r, w or rw; rule numbers stand where the rule is kept."""

    def __init__(self, device: Device, number: int, mode: str, owner: Owner) -> None:
        self.device = device
        self.owner = owner
        self.id = number
        self.mode = mode
        self.queue = Queue(device.limits.queue_length, device.limits.queue_bytes)
        self.only_once = 0
        self.reports_lost = 0
        self.lost = 0
        self.unreported = 0  # of those lost, how many MessagesLost has still to report
        self.written = b""
        self.waits = False  # SEND gave EAGAIN and kept the message
        self.last_sent = NO_ID
        self.sent = 0
        self.reading = b""
        self.position = 0
        self.received = 0
        self.wants_times = False  # a TRANSFER has asked for them

    @property
    def reserved(self) -> int:
        """Slots set aside for answers (rules 20 and 28)."""
        return sum(request.sender is self for request in self.device.requests)

    @property
    def unreplied(self) -> int:
        """Rule 29."""
        return sum(request.popped for request in answers.owed_by(self))

    def lose(self, copies: int) -> None:
        """Rule 23: copies that were not queued are counted."""
        self.lost += copies
        self.unreported += copies if self.reports_lost else 0

    def need(self, modes: str, what: str) -> None:
        """Refuse what the descriptor was not opened for."""
        if not set(modes) <= set(self.mode):
            raise OSError(errno.EBADF, f"decisions: {what} needs a descriptor open for {modes}")

    # Binding

    def bind(self, name: bytes | None, replier: int) -> None:
        """BIND; `name` None is address 0."""
        events.bind(self, self.binding_argument(name, replier), replier)

    def unbind(self, name: bytes | None, replier: int) -> None:
        """UNBIND."""
        events.unbind(self, self.binding_argument(name, replier), replier)

    def binding_argument(self, name: bytes | None, replier: int) -> bytes:
        """What BIND and UNBIND check first, in the order of the decisions ('Access')."""
        if replier not in (abi.BIND_LISTENER, abi.BIND_REPLIER, abi.BIND_OBSERVER):
            raise OSError(errno.EINVAL, "decisions: is_replier")
        self.need("rw" if replier == abi.BIND_REPLIER else "r", "binding")
        legal = names.check_for_binding(name)
        if replier == abi.BIND_REPLIER and legal == abi.NAME_REPLIER_BIND_EVENT.encode():
            raise OSError(errno.EBADMSG, "rule 5: no replier but KBUS")
        return legal

    def replier(self, name: bytes | None) -> int:
        """REPLIER, rule 12: the id of the replier bound to exactly this name, 0 for none."""
        binding = self.device.replier_of(names.check_for_binding(name))
        return binding.ksock.id if binding else 0

    def resolve(self, name: bytes | None) -> int:
        """RESOLVE, rule 12: the id of the KSock that would get a Request of this name now, 0 for none."""
        legal = names.check_for_binding(name)
        if names.is_wildcard(legal):
            raise OSError(errno.EBADMSG, "decisions: no Request has a wildcard name")
        binding = self.device.replier_for(legal)
        return binding.ksock.id if binding else 0

    def peer(self, number: int) -> Owner:
        """PEERINFO, rule 36: the process and the user that opened the KSock."""
        for ksock in self.device.ksocks:
            if ksock.id == number:
                return ksock.owner
        raise OSError(errno.ESRCH, "rule 36: no such KSock")

    # Sending

    def write(self, data: bytes) -> int:
        """Rules 13 and 22."""
        self.need("w", "write")
        if not data:
            return 0
        if self.waits:
            raise OSError(errno.EALREADY, "rule 22: a message waits")
        before, self.written = self.written, b""
        wire.check(before + data, len(before), self.device.max_message_size)
        self.written = before + data
        return len(data)

    def send(self) -> MsgId:
        """SEND, rules 14 and 15: after any failure but EAGAIN the message is gone."""
        self.need("w", "SEND")
        raw = self.written
        self.discard()
        if not raw:
            raise OSError(errno.ENOMSG, "rule 14: nothing has been written")
        if not wire.is_complete(raw):
            raise OSError(errno.EINVAL, "rule 14: unfinished")
        message = wire.parse(raw)
        delivery.check_form(message)
        try:
            return delivery.send(self, message)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                self.written, self.waits = raw, True
            raise

    def discard(self) -> None:
        """DISCARD, rule 14."""
        self.written, self.waits = b"", False

    def abandon(self, number: MsgId) -> None:
        """ABANDON, rule 28."""
        answers.abandon(self, number)

    # Receiving

    def next_msg(self) -> int:
        """NEXTMSG, rule 30: the length in bytes of the message that `read` reads now, 0 for none."""
        self.need("r", "NEXTMSG")
        self.reading, self.position = b"", 0
        if not self.queue.copies:
            return 0
        self.reading = self.pop()
        delivery.report_lost(self)
        return len(self.reading)

    def pop(self) -> bytes:
        """The next message, which leaves the queue."""
        copy = self.queue.take()
        message = copy.message
        if copy.request in self.device.requests:
            copy.request.popped = True
        elif copy.request is not None and copy.request.abandoned:  # it must not be answered
            message = replace(message, flags=message.flags & ~abi.BIT_WANT_YOU_TO_REPLY)
        self.received += 1
        return message.to_bytes()

    def transfer(self, to_send: bytes, room: int, receive_max: int, kept: int, timed: bool) -> TransferResult:
        """TRANSFER, with deadline 0."""
        return transfer.transfer(self, to_send, room, receive_max, kept, timed)

    def read(self, count: int) -> bytes:
        """Rule 30: up to `count` bytes of the message being read."""
        self.need("r", "read")
        data = self.reading[self.position : self.position + count]
        self.position += len(data)
        return data

    def poll(self) -> int:
        """Rule 30: POLLIN, POLLPRI and POLLOUT. A message that waits makes POLLOUT here when SEND would not
        give EAGAIN now; the device may say so earlier, as a hint."""
        copies = self.queue.copies
        mask = select.POLLIN if copies else 0
        mask |= select.POLLPRI if copies and copies[0].message.is_urgent else 0
        return mask | (select.POLLOUT if "w" in self.mode and self.could_send() else 0)

    def could_send(self) -> bool:
        """Whether no message waits, or trying again would end its waiting for the room of others.

        That its own queue has no slot for the answer at this moment (ENOLCK) wakes no sender that waits.
        """
        return not self.waits or self.errno_of_retry() not in (errno.EAGAIN, errno.ENOLCK)

    def errno_of_retry(self) -> int:
        """What SEND of the message that waits would fail with now; 0 if it would not fail."""
        try:
            delivery.plan(self, wire.parse(self.written))
        except OSError as error:
            return error.errno or 0
        return 0

    def recipients(self) -> set[ModelKsock]:
        """The KSocks that must not miss the message that waits."""
        planned = delivery.plan_copies(self, wire.parse(self.written))
        return {ksock for ksock, copies in planned.items() if delivery.not_to_miss(copies)}

    def who_is_full(self) -> set[ModelKsock]:
        """The KSocks for whose room the message waits."""
        return delivery.who_is_full(self, wire.parse(self.written))

    def counts(self) -> dict[str, object]:
        """What the ioctls that only ask return."""
        return {
            "KSOCKID": self.id,
            "NUMMSGS": len(self.queue.copies),
            "UNREPLIEDTO": self.unreplied,
            "LASTSENT": self.last_sent,
            "LOSTMSGS": self.lost,
            "LENLEFT": len(self.reading) - self.position,
        }

    # Switches and limits

    def max_msgs(self, count: int) -> int:
        """MAXMSGS, rule 20: 0 asks; the limit in force comes back."""
        if count:
            self.queue.limit = min(count, self.device.limits.max_queue_length)
            delivery.report_lost(self)
        return self.queue.limit

    def set_only_once(self, value: int) -> int:
        """MSGONLYONCE."""
        before = self.only_once
        self.only_once = switched(before, value)
        return before

    def set_report_lost(self, value: int) -> int:
        """REPORTLOST; what was missed before it was switched on is not reported."""
        before = self.reports_lost
        self.reports_lost = switched(before, value)
        if not self.reports_lost:
            self.unreported = 0
        return before

    def set_verbose(self, value: int) -> int:
        """VERBOSE, of the whole device."""
        before, after = self.device.verbose, switched(self.device.verbose, value)
        if value != abi.SWITCH_ASK:
            self.need("w", "VERBOSE")
        self.device.verbose = after
        return before

    def set_report_binds(self, value: int) -> int:
        """REPORTREPLIERBINDS, of the whole device (rule 32)."""
        before, after = self.device.report_binds, switched(self.device.report_binds, value)
        if value != abi.SWITCH_ASK:
            self.need("w", "REPORTREPLIERBINDS")
        self.device.report_binds = after
        return before

    def max_msg_size(self, value: int) -> int:
        """MAXMSGSIZE, rule 34, of the whole device: 0 asks, 1 asks for the highest."""
        highest = self.device.limits.max_message_size
        if value == 1:
            return highest
        if value:
            if not abi.MIN_MAX_MSG_SIZE <= value <= highest:
                raise OSError(errno.EINVAL, "rule 34: out of range")
            self.need("w", "MAXMSGSIZE")
            self.device.max_message_size = value
        return self.device.max_message_size

    def close(self) -> None:
        """Rule 27, and 'nothing survives its owner'."""
        answers.forget(self)
        events.unbind_all(self)
        answers.answer_for_closing(self)
        self.device.ksocks.remove(self)


def switched(before: int, value: int) -> int:
    """The state of a switch after a call with `value`."""
    if value == abi.SWITCH_ASK:
        return before
    if value not in (abi.SWITCH_OFF, abi.SWITCH_ON):
        raise OSError(errno.EINVAL, "not a value of a switch")
    return value
