# SPDX-License-Identifier: MIT
"""Binding and unbinding, and the events that report it: rules 6, 7, 10 and 32."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from ... import _abi as abi
from .answers import answer_removed
from .delivery import Plan, add_listeners, deliver, is_observed, report_losses, report_lost, send_from_kbus
from .parts import Copy, ModelBinding
from .wire import WireMessage, padded

if TYPE_CHECKING:
    from .bus import Device
    from .ksock import ModelKsock

LIST_END = WireMessage(name=abi.NAME_UNBIND_EVENTS_LOST.encode(), flags=abi.BIT_SYNTHETIC)


def bind(ksock: ModelKsock, name: bytes, kind: int) -> None:
    """Rules 6 and 7; EAGAIN by rule 32."""
    device = ksock.device
    replier, observer = kind == abi.BIND_REPLIER, kind == abi.BIND_OBSERVER
    if replier and device.replier_of(name) is not None:
        raise OSError(errno.EADDRINUSE, "rule 7: there is a replier")
    listening = [b for b in device.bindings if b.ksock is ksock and not b.replier]
    if not replier and any(b.observer != observer for b in listening):
        raise OSError(errno.EINVAL, "decisions: an observer is nothing but that")
    planned = plan_event(ksock, name, is_bind=True) if replier else None
    check_room(planned)
    device.bindings.append(ModelBinding(ksock, name, replier, observer))
    if planned is not None:
        send_from_kbus(device, planned)


def unbind(ksock: ModelKsock, name: bytes, kind: int) -> None:
    """Rules 6 and 10: the newest such binding goes, and with it what came by it and is unread."""
    device = ksock.device
    same = [b for b in device.bindings if (b.ksock, b.name, b.kind) == (ksock, name, kind)]
    if not same:
        raise OSError(errno.EINVAL, "rule 6: nothing to unbind")
    planned = plan_event(ksock, name, is_bind=False) if same[-1].replier else None
    check_room(planned)
    device.bindings.remove(same[-1])
    if planned is not None:
        send_from_kbus(device, planned)
    removed = ksock.queue.remove_by(same[-1])
    answer_removed(device, removed)
    report_lost(ksock)


def unbind_all(ksock: ModelKsock) -> None:
    """A close removes every binding, the oldest first, and is never refused (rule 32)."""
    device = ksock.device
    for binding in [binding for binding in device.bindings if binding.ksock is ksock]:
        device.bindings.remove(binding)
        planned = plan_event(ksock, binding.name, is_bind=False) if binding.replier else None
        if planned is not None:
            planned.pop(ksock, None)  # it gets no event of its own close
            tell_of_close(device, planned)


def plan_event(binder: ModelKsock, name: bytes, is_bind: bool) -> Plan | None:
    """Rule 32: which KSocks would get the event; None if events are not reported."""
    if not binder.device.report_binds:
        return None
    data = abi.BIND_EVENT.pack(is_bind, binder.id, len(name)) + padded(name)
    event = WireMessage(name=abi.NAME_REPLIER_BIND_EVENT.encode(), flags=abi.BIT_SYNTHETIC, data=data)
    planned: Plan = {}
    add_listeners(binder.device, planned, event)
    return planned


def check_room(planned: Plan | None) -> None:
    """Rule 32: an event that a listener has no room for is not missed; the bind or unbind is put off."""
    for ksock, copies in (planned or {}).items():
        if not is_observed(copies) and ksock.queue.room(copies[0].message.length, ksock.reserved) < len(
            copies
        ):
            raise OSError(errno.EAGAIN, "rule 32: a listener to the events is full")


def tell_of_close(device: Device, planned: Plan) -> None:
    """Rule 32: the event of a close, which cannot be refused.

    Copies without room are set aside, in their place in the order and over the limit, as long as the device's
    1000 are not used up; then one UnbindEventsLost ends the list.
    """
    ends: Plan = {}
    left = device.limits.events_aside - device.events_aside
    for ksock, copies in planned.items():
        room = ksock.queue.room(copies[0].message.length, ksock.reserved)
        over = [] if is_observed(copies) else copies[room:]
        for copy in over[:left]:
            copy.over_limit = True
        missed = over[left:]
        left -= len(over) - len(missed)
        if missed and not any(copy.message.name == LIST_END.name for copy in ksock.queue.copies):
            ends[ksock] = [Copy(LIST_END, missed[0].binding, over_limit=True)]
    deliver(device, planned, device.next_id())
    if ends:
        deliver(device, ends, device.next_id())
    report_losses(planned)
