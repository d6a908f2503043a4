# SPDX-License-Identifier: MIT
"""The delivery of one message to all its recipients: rules 14 to 26, 42 and 43."""

from __future__ import annotations

import errno
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from ... import _abi as abi
from . import names
from .parts import STATUS_LENGTH, Copy, PendingRequest
from .wire import MsgId, WireMessage

if TYPE_CHECKING:
    from .bus import Device
    from .ksock import ModelKsock

MOST_OF_ONE_ID = 16
"""Requests of one sender that can wait with the same id (rule 29)."""

# Which KSock gets which copies, in the order of rule 19; copies that it may miss come last in its list.
Plan = dict["ModelKsock", list[Copy]]


def check_form(message: WireMessage) -> None:
    """Rules 1, 4 and 5: what SEND refuses about a whole message, whatever recipients it has."""
    if not names.is_legal(message.name) or names.is_wildcard(message.name):
        raise OSError(errno.EBADMSG, "rules 1 and 4: the name")
    if message.name.startswith(names.OWN_PREFIX) and not message.is_reply:
        raise OSError(errno.EACCES, "rule 5: KBUS's own name")


def plan(sender: ModelKsock, message: WireMessage) -> Plan:
    """Rule 15 from the fourth check on: which KSocks would get `message` now. Changes nothing."""
    planned = plan_copies(sender, message)
    check_room(sender, planned, message)
    return planned


def plan_copies(sender: ModelKsock, message: WireMessage) -> Plan:
    """Likewise, whether there is room for them or not."""
    if message.is_request:
        planned = plan_request(sender, message)
    elif message.is_reply:
        planned = plan_reply(sender, message)
    else:
        planned = {}
    add_listeners(sender.device, planned, message)
    return planned


def who_is_full(sender: ModelKsock, message: WireMessage) -> set[ModelKsock]:
    """Rule 22: the KSocks for whose room an ALL_OR_WAIT message waits that could be sent otherwise."""
    slot = 1 if message.is_request else 0
    return {
        ksock
        for ksock, copies in plan_copies(sender, message).items()
        if (needed := not_to_miss(copies))
        and ksock.queue.room(message.length, ksock.reserved + slot * (ksock is sender)) < len(needed)
    }


def plan_request(sender: ModelKsock, message: WireMessage) -> Plan:
    """Rules 24 and 25: the flagged copy for the replier, if the sender has room for the answer."""
    if not sender.queue.room(STATUS_LENGTH, sender.reserved):
        raise OSError(errno.ENOLCK, "rule 15: no room for the own answer")
    same = [each for each in sender.device.requests if (each.sender, each.id) == (sender, message.id)]
    if message.id.network_id and len(same) >= MOST_OF_ONE_ID:
        raise OSError(errno.ENOLCK, "rule 29: that many with this id")
    binding = sender.device.replier_for(message.name)
    if binding is None:
        raise OSError(errno.EADDRNOTAVAIL, "rule 24: no replier")
    if message.to not in (0, binding.ksock.id):
        raise OSError(errno.EPIPE, "rule 24: that KSock is not the replier")
    flagged = replace(message, flags=message.flags | abi.BIT_WANT_YOU_TO_REPLY)
    request = PendingRequest(message.id, sender, binding.ksock)
    return {binding.ksock: [Copy(flagged, binding, request)]}


def plan_reply(sender: ModelKsock, message: WireMessage) -> Plan:
    """Rule 26: the copy for the requester, if this KSock owes it an answer."""
    if message.to and message.to not in [ksock.id for ksock in sender.device.ksocks]:
        raise OSError(errno.EADDRNOTAVAIL, "rule 26: the requester is gone")
    request = answered_by(sender, message)
    if request is None:
        raise OSError(errno.ECONNREFUSED, "rule 26: this reply is not expected from here")
    if not request.sender.queue.takes_answer(message.length, request.sender.reserved):
        raise OSError(errno.ENOBUFS, "rule 43: no room for the answer")
    return {request.sender: [Copy(message)]}


def answered_by(replier: ModelKsock, message: WireMessage) -> PendingRequest | None:
    """The oldest Request that was read here and that `message` answers."""
    for request in replier.device.requests:
        expected = (request.replier, request.id, request.sender.id, request.popped)
        if expected == (replier, message.in_reply_to, message.to, True):
            return request
    return None


def add_listeners(device: Device, planned: Plan, message: WireMessage) -> None:
    """Rules 6 and 19: a plain copy for each L binding, or one for a KSock that wants messages once."""
    bindings = device.listening_to(message.name)
    for binding in bindings:
        ksock = binding.ksock
        copies = planned.setdefault(ksock, [])
        if not ksock.only_once:
            copies.append(Copy(message, binding))
        elif not copies:
            own = [bound for bound in bindings if bound.ksock is ksock]
            copies.append(Copy(message, max(own, key=device.bindings.index)))


def check_room(sender: ModelKsock, planned: Plan, message: WireMessage) -> None:
    """Rules 21, 22 and 42: whether a KSock that must not miss a message is full. A reply does not wait."""
    if message.is_reply:
        return
    must = [(ksock, needed) for ksock, copies in planned.items() if (needed := not_to_miss(copies))]
    slots = {sender: 1 if message.is_request else 0}
    for ksock, copies in must:
        could = ksock.queue.could_take(len(copies), message.length, slots.get(ksock, 0))
        if message.flags & abi.BIT_ALL_OR_WAIT and not could:
            raise OSError(errno.EBUSY, "rule 42: it could never fit")
    for ksock, copies in must:
        room = ksock.queue.room(message.length, ksock.reserved + slots.get(ksock, 0))
        if message.flags & abi.BIT_ALL_OR_WAIT and room < len(copies):
            raise OSError(errno.EAGAIN, "rule 22: a recipient is full")
        if message.flags & abi.BIT_ALL_OR_FAIL and room < len(copies):
            raise OSError(errno.EBUSY, "rule 21: a recipient is full")
        if copies[0].request is not None and room < 1:
            raise OSError(errno.EBUSY, "rule 21: the replier is full")


def not_to_miss(copies: list[Copy]) -> list[Copy]:
    """Of copies for one KSock, those that count: of an observer's, only the Request that it must answer."""
    return [copy for copy in copies if copy.request] if is_observed(copies) else copies


def is_observed(copies: list[Copy]) -> bool:
    """Whether the plain ones of these copies, all of one KSock, are an observer's, which may miss them."""
    return any(copy.binding is not None and copy.binding.observer for copy in copies)


def send(sender: ModelKsock, message: WireMessage) -> MsgId:
    """Rules 15 and 16: deliver, or fail with a serial number used; EAGAIN uses none."""
    device = sender.device
    message = replace(
        message, sender=sender.id, flags=message.flags & ~(abi.BIT_WANT_YOU_TO_REPLY | abi.BIT_SYNTHETIC)
    )
    try:
        planned = plan(sender, message)
    except OSError as error:
        request = answered_by(sender, message)
        if error.errno != errno.EAGAIN:
            give_id(sender, message)
        if error.errno == errno.ENOBUFS and request is not None:
            give_status(device, request, abi.NAME_REPLIER_NOROOM)
        elif error.errno != errno.EAGAIN:
            end_request(sender, message)
        raise
    number = give_id(sender, message)
    end_request(sender, message)
    sender.sent += 1
    deliver(device, planned, number)
    report_losses(planned)
    return number


def give_id(sender: ModelKsock, message: WireMessage) -> MsgId:
    """Rule 16: the id that a well-formed message of `sender` gets, whether it is delivered or not."""
    number = sender.device.next_id() if message.id.network_id == 0 else message.id
    sender.last_sent = number
    return number


def end_request(sender: ModelKsock, message: WireMessage) -> None:
    """Rule 26: a reply ends its Request, be it accepted or too late; the requester's slot is free then."""
    request = answered_by(sender, message)
    if request is not None:
        sender.device.requests.remove(request)


def give_status(device: Device, request: PendingRequest, name: str) -> None:
    """Rules 27 and 43: the Request gets its answer from KBUS."""
    device.requests.remove(request)
    status = WireMessage(
        name=name.encode(),
        flags=abi.BIT_SYNTHETIC,
        in_reply_to=request.id,
        to=request.sender.id,
        sender=request.replier.id,
    )
    planned: Plan = {request.sender: [Copy(status)]}
    add_listeners(device, planned, status)
    send_from_kbus(device, planned)


def send_from_kbus(device: Device, planned: Plan) -> None:
    """Deliver a message that KBUS makes itself; it gets the next id."""
    deliver(device, planned, device.next_id())
    report_losses(planned)


def deliver(device: Device, planned: Plan, number: MsgId) -> None:
    """Queue every copy that finds room; what does not is lost and counted (rules 19, 21 and 23)."""
    device.sent += 1
    has_time = False
    for ksock, copies in planned.items():
        for copy in copies:
            copy.message = replace(copy.message, id=number)
            if copy.request is not None:
                copy.request.id = number
                device.requests.append(copy.request)
        promised = sum(copy.binding is None for copy in copies)
        fitting = promised + ksock.queue.room(copies[0].message.length, ksock.reserved, promised)
        queued = copies[:fitting] + [copy for copy in copies[fitting:] if copy.over_limit]
        ksock.queue.put(queued)
        ksock.lose(len(copies) - len(queued))
        # Also if the KSock that asked for it has no room.
        has_time |= ksock.wants_times
    if has_time:
        now = device.clock.now
        for copy in chain.from_iterable(planned.values()):
            copy.queued_at = now


def report_losses(planned: Plan) -> None:
    """MessagesLost reports the losses of a delivery at its end."""
    for ksock in planned:
        report_lost(ksock)


def report_lost(ksock: ModelKsock) -> None:
    """Rule 23: one MessagesLost, as soon as there is room, to a KSock that asked for it."""
    report = WireMessage(
        name=abi.NAME_MESSAGES_LOST.encode(),
        flags=abi.BIT_SYNTHETIC,
        to=ksock.id,
        data=abi.U32.pack(ksock.unreported),
    )
    if ksock.unreported and ksock.queue.room(report.length, ksock.reserved):
        ksock.unreported = 0
        send_from_kbus(ksock.device, {ksock: [Copy(report)]})
