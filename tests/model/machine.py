# SPDX-License-Identifier: MIT
"""Random operations on a few KSocks, for the model alone or for the model and the device side by side.

What hypothesis prints when it has found a difference is the shortest list of these operations that shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kbus import _abi as abi
from kbus._stand_in import TransferResult
from kbus.testing.model import ksock as model
from kbus.testing.model.answers import owed_by
from kbus.testing.model.bus import Device, DeviceLimits
from kbus.testing.model.wire import MsgId, WireMessage, parse
from tests.kernel.transfer import pack

from .calls import SENT, WRONG_MESSAGES, Call, common_calls, messages, odd_calls, outcome

MAX_KSOCKS = 5

BOUND = (b"$.A", b"$.A.B", b"$.A.%", b"$.A.*", b"$.*")
OWN = (b"$.KBUS.*", b"$.KBUS.ReplierBindEvent", b"$.KBUS.Replier.%", b"$.KBUS.MessagesLost")

slots = st.integers(0, MAX_KSOCKS - 1)
kinds = st.sampled_from((0, 1))
roles = st.sampled_from((abi.BIND_LISTENER, abi.BIND_LISTENER, abi.BIND_REPLIER, abi.BIND_OBSERVER))
bound_names = st.sampled_from(BOUND + BOUND + OWN)


class Machine(RuleBasedStateMachine):
    """The operations. What must hold after each is for subclasses to say."""

    def __init__(self) -> None:
        super().__init__()
        self.device = Device()
        self.ksocks: list[model.ModelKsock] = []
        self.read_here: list[WireMessage] = []  # what must be answered, by whoever
        self.requests: list[tuple[int, MsgId]] = []  # that SEND accepted, by their senders

    @initialize(
        queue_length=st.sampled_from((2, 3, 1, 5, 100)),
        queue_bytes=st.sampled_from((4 << 20, 100, 300)),
        report_binds=kinds,
        report_lost=st.lists(kinds, min_size=3, max_size=3),
        replier=st.sampled_from(BOUND),
        bindings=st.lists(st.tuples(slots, bound_names, roles), min_size=2, max_size=8),
    )
    def begin(
        self,
        queue_length: int,
        queue_bytes: int,
        report_binds: int,
        report_lost: list[int],
        replier: bytes,
        bindings: list[tuple[int, bytes, int]],
    ) -> None:
        """A device with these parameters, three KSocks, and some bindings."""
        self.device = self.make_device(DeviceLimits(queue_length=queue_length, queue_bytes=queue_bytes))
        for _ in range(3):
            self.open("rw")
        self.do(0, "set_report_binds", report_binds)
        for slot, value in enumerate(report_lost):
            self.do(slot, "set_report_lost", value)
        for slot, name, kind in [(1, replier, 1), *bindings]:
            self.do(slot, "bind", name, kind)

    def make_device(self, limits: DeviceLimits) -> Device:
        """The model of a device with these parameters, on which nobody is."""
        return Device(limits)

    def make_ksock(self, mode: str) -> model.ModelKsock:
        """One more KSock."""
        return self.device.open(mode)

    def call(self, ksock: model.ModelKsock, method: str, *arguments: object) -> Any:
        """Call the method on a KSock, and give its outcome."""
        return outcome(getattr(ksock, method), *arguments)

    def do(self, slot: int, method: str, *arguments: object) -> Any:
        """Call the method on one of the KSocks, and give its outcome."""
        return self.call(self.ksocks[slot % len(self.ksocks)], method, *arguments)

    def pick(self, slot: int, suits: Callable[[model.ModelKsock], bool]) -> int:
        """One of those KSocks that suit; any, if none does."""
        everybody = range(len(self.ksocks))
        suitable = [index for index in everybody if suits(self.ksocks[index])] or everybody
        return suitable[slot % len(suitable)]

    def post(self, slot: int, message: WireMessage) -> None:
        """Write a whole message and send it; what has been written before is dropped, unless it waits."""
        ksock = self.ksocks[slot % len(self.ksocks)]
        if ksock.written and not ksock.waits:
            self.do(slot, "discard")
        self.do(slot, "write", message.to_bytes())
        self.do_send(slot)

    @precondition(lambda self: len(self.ksocks) < MAX_KSOCKS)
    @rule(mode=st.sampled_from(("rw", "rw", "rw", "r", "w")))
    def open(self, mode: str) -> None:
        """One more KSock."""
        self.ksocks.append(self.make_ksock(mode))

    @precondition(lambda self: len(self.ksocks) > 3)
    @rule(slot=slots, owing=st.booleans())
    def close(self, slot: int, owing: bool) -> None:
        """Close a KSock, preferably one that owes an answer."""
        slot = self.pick(slot, lambda ksock: not owing or bool(owed_by(ksock)))
        self.do(slot, "close")
        del self.ksocks[slot]

    @rule(slot=slots, name=bound_names, replier=roles)
    def bind(self, slot: int, name: bytes, replier: int) -> None:
        """Bind to a name that some message may have."""
        self.do(slot, "bind", name, replier)

    @precondition(lambda self: self.device.bindings)
    @rule(which=st.integers(0, 19))
    def unbind(self, which: int) -> None:
        """Take back one of the bindings of one of the KSocks."""
        binding = self.device.bindings[which % len(self.device.bindings)]
        self.do(self.ksocks.index(binding.ksock), "unbind", binding.name, binding.kind)

    @rule(slot=slots, call=common_calls)
    def common(self, slot: int, call: Call) -> None:
        """A call that often makes sense."""
        self.do(slot, call[0], *call[1:])

    @rule(slot=slots, call=odd_calls)
    def odd(self, slot: int, call: Call) -> None:
        """A call that seldom does."""
        self.do(slot, call[0], *call[1:])

    @rule(slot=slots, message=messages)
    def announce(self, slot: int, message: WireMessage) -> None:
        """Send an announcement."""
        self.post(self.pick(slot, is_sender), message)

    @rule(slot=slots, message=messages, to=st.sampled_from((None, None, None, None, 0, 1)))
    def request(self, slot: int, message: WireMessage, to: int | None) -> None:
        """A Request, mostly of a name that has a replier, and mostly not to a wrong one."""
        name = message.name
        if self.device.replier_for(name) is None:
            name = next((name for name in SENT if self.device.replier_for(name)), name)
        to_id = 0 if to is None else self.ksocks[to].id
        slot = self.pick(slot, is_sender)
        self.post(slot, replace(message, name=name, flags=message.flags | abi.BIT_WANT_A_REPLY, to=to_id))

    @rule(slot=slots, message=messages, kind=kinds, count=st.integers(1, 3))
    def lower(self, slot: int, message: WireMessage, kind: int, count: int) -> None:
        """Have one message wait for a KSock, and lower that one's limit (rule 42)."""
        sender, full = self.pick(slot, is_sender), (slot + 1) % len(self.ksocks)
        flags = abi.BIT_ALL_OR_WAIT | (abi.BIT_WANT_A_REPLY if kind else 0)
        self.do(full, "bind", message.name, 0)
        self.post(sender, replace(message, flags=flags))
        self.do(full, "max_msgs", count)
        if self.ksocks[sender].waits:
            self.do_send(sender)

    @precondition(lambda self: self.read_here)
    @rule(
        slot=slots,
        which=st.integers(0, 9),
        message=messages,
        twist=st.sampled_from((0, 0, 0, 0, 1, 2)),
        full=st.booleans(),
    )
    def reply(self, slot: int, which: int, message: WireMessage, twist: int, full: bool) -> None:
        """Answer a Request that somebody has read; mostly from the right KSock, and once.

        With `full`, it is one without an answer, the requester gets another message first, and the answer is
        long, so that it finds no room where queues have few bytes (rule 43).
        """
        popped = {request.id for request in self.device.requests if request.popped}
        choice = [m for m in self.read_here if not full or m.id in popped] or self.read_here
        request = choice[-1 - which % len(choice)]
        owing = [r.replier for r in self.device.requests if r.popped and r.id == request.id]
        if owing and twist != 1:
            slot = self.ksocks.index(owing[0])
        requester = [index for index, ksock in enumerate(self.ksocks) if ksock.id == request.sender]
        if full and requester:
            self.do(requester[0], "bind", SENT[0], 0)
            self.post(self.pick(slot, is_sender), WireMessage(SENT[0]))
            message = replace(message, data=60 * b"long")
        to = request.sender + (1 if twist == 2 else 0)
        self.post(slot, replace(message, in_reply_to=request.id, to=to))

    @precondition(lambda self: any(self.device.replier_for(name) for name in SENT))
    @rule(slot=slots, message=messages)
    def ask_for_much(self, slot: int, message: WireMessage) -> None:
        """A Request that is read and gets a long answer, for which there may be no room."""
        self.request(slot, replace(message, flags=0), None)
        if any(not request.popped for request in self.device.requests):
            self.read_request(-1)
        if self.read_here:
            self.reply(slot, 0, message, 0, True)

    @precondition(lambda self: any(not request.popped for request in self.device.requests))
    @rule(which=slots, message=messages)
    def reply_unread(self, which: int, message: WireMessage) -> None:
        """The replier answers what it has not read, which is refused."""
        unread = [request for request in self.device.requests if not request.popped]
        request = unread[which % len(unread)]
        reply = replace(message, in_reply_to=request.id, to=request.sender.id)
        self.post(self.ksocks.index(request.replier), reply)

    @precondition(lambda self: self.requests)
    @rule(slot=slots, which=st.integers(0, 9), wrong=st.sampled_from((False, False, False, True)))
    def abandon(self, slot: int, which: int, wrong: bool) -> None:
        """Abandon a Request that was sent, mostly by its sender, and mostly one that has no answer yet."""
        sender, number = self.requests[-1 - which % len(self.requests)]
        ids = [ksock.id for ksock in self.ksocks]
        if sender in ids and not wrong:
            slot = ids.index(sender)
        self.do(slot, "abandon", number)

    @precondition(lambda self: any(ksock.queue.copies for ksock in self.ksocks))
    @rule(slot=slots, count=st.integers(1, 3), full=st.booleans())
    def next(self, slot: int, count: int, full: bool) -> None:
        """Take messages and read all of them, where there are any, preferably where there is no room."""
        slot = self.pick(slot, lambda ksock: len(ksock.queue.copies) >= (ksock.queue.limit if full else 1))
        for _ in range(count):
            self.take(slot)

    @precondition(lambda self: any(not request.popped for request in self.device.requests))
    @rule(which=slots)
    def read_request(self, which: int) -> None:
        """The replier reads on until it has read a Request."""
        unread = [request for request in self.device.requests if not request.popped]
        request = unread[which % len(unread)]
        while not request.popped:
            self.take(self.ksocks.index(request.replier))

    def take(self, slot: int) -> None:
        """NEXTMSG, and read the whole of it."""
        length = self.do(slot, "next_msg")
        if isinstance(length, int) and length:
            message = parse(self.do(slot, "read", length))
            if message.flags & abi.BIT_WANT_YOU_TO_REPLY:
                self.read_here.append(message)

    @rule(
        slot=slots,
        batch=st.lists(st.tuples(messages, st.booleans()), max_size=4),
        wrong=st.sampled_from((b"", b"", b"", *WRONG_MESSAGES)),
        room=st.sampled_from((0, 60, 200, 1 << 16)),
        receive_max=st.sampled_from((0, 0, 1, 2)),
        odd=st.sampled_from((False, False, False, True)),
        timed=st.booleans(),
    )
    def transfer(
        self,
        slot: int,
        batch: list[tuple[WireMessage, bool]],
        wrong: bytes,
        room: int,
        receive_max: int,
        odd: bool,
        timed: bool,
    ) -> None:
        """Send several messages, some of them Requests, the last perhaps wrong, and receive several."""
        slot = slot if odd else self.pick(slot, lambda ksock: ksock.mode == "rw")
        ksock = self.ksocks[slot % len(self.ksocks)]
        requests = [replace(m, flags=m.flags | (abi.BIT_WANT_A_REPLY if ask else 0)) for m, ask in batch]
        packets = [message.to_bytes() for message in requests] + ([wrong] if wrong else [])
        sending = [*([parse(ksock.written)] if ksock.waits else []), *requests]
        done = self.do(slot, "transfer", pack(*packets), room, receive_max, int(ksock.waits != odd), timed)
        if isinstance(done, TransferResult):
            sent = zip(sending, done.ids)
            self.requests += [(ksock.id, number) for message, number in sent if message.is_request]
            received = [parse(packet) for packet in done.packets]
            self.read_here += [m for m in received if m.flags & abi.BIT_WANT_YOU_TO_REPLY]

    @rule(slot=slots, message=messages, cuts=st.lists(st.integers(0, 200), max_size=4), finish=st.booleans())
    def write_in_pieces(self, slot: int, message: WireMessage, cuts: list[int], finish: bool) -> None:
        """Write a message, or the first pieces of one."""
        whole = message.to_bytes()
        ends = sorted({min(cut, len(whole)) for cut in cuts})
        for begin, end in zip([0, *ends], [*ends, len(whole)] if finish else ends):
            self.do(slot, "write", whole[begin:end])

    @precondition(lambda self: any(ksock.written for ksock in self.ksocks))
    @rule(slot=slots)
    def send(self, slot: int) -> None:
        """SEND what has been written in pieces, or waits, preferably where that is worth repeating."""
        self.do_send(self.pick(slot, lambda ksock: bool(ksock.written) and ksock.could_send()))

    def do_send(self, slot: int) -> None:
        """SEND; the Requests that it accepts are noted."""
        ksock = self.ksocks[slot % len(self.ksocks)]
        written, number = ksock.written, self.do(slot, "send")
        if isinstance(number, MsgId) and parse(written).is_request:
            self.requests.append((ksock.id, number))


def is_sender(ksock: model.ModelKsock) -> bool:
    """Whether a message can be written to it now."""
    return "w" in ksock.mode and not ksock.waits
