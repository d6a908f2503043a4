# SPDX-License-Identifier: MIT
"""Reports of repliers that bind and unbind: rule 32."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

import pytest

from kbus import Announcement, Ksock, Request, split_replier_bind_event_data
from tests.kernel import raw
from tests.kernel.conftest import NewDevice, OpenKsock, StartChild
from tests.kernel.helpers import bindings, device_stats, ksock_stats, names, packets, refused, take
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY, opened_by

pytestmark = [pytest.mark.rule(32), pytest.mark.abi("REPORTREPLIERBINDS")]

EVENT, EVENTS_LOST = "$.KBUS.ReplierBindEvent", "$.KBUS.UnbindEventsLost"
GONE_AWAY, UNBOUND = "$.KBUS.Replier.GoneAway", "$.KBUS.Replier.Unbound"
MOST_ASIDE = 1000


def told(listener: Ksock) -> list[tuple[bool, int, str] | str]:
    """Take every message: (is_bind, binder, name) of an event, the name of another."""
    return [
        split_replier_bind_event_data(message.data) if message.name == EVENT else message.name
        for message in listener
    ]


@pytest.fixture
def reporting(ksock: OpenKsock) -> Iterator[None]:
    """Binds are reported on device 0."""
    switch = ksock()
    assert switch.report_replier_binds() is False
    yield
    switch.report_replier_binds(False)


@pytest.fixture
def listener(ksock: OpenKsock, reporting: None) -> Ksock:
    """A KSock that listens to the events."""
    one = ksock(mode="r")
    one.bind(EVENT)
    return one


def test_off_by_default(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind(EVENT)
    one.bind("$.A", replier=True)
    assert names(one) == []


def test_reporting_is_a_switch(ksock: OpenKsock) -> None:
    one, reader = ksock(), ksock(mode="r")
    for value, before in ((raw.ASK, 0), (raw.ON, 0), (raw.ASK, 1), (raw.ON, 1), (raw.OFF, 1), (raw.ASK, 0)):
        assert raw.number(reader, "REPORTREPLIERBINDS", raw.ASK) == before
        assert raw.number(one, "REPORTREPLIERBINDS", value) == before
    with refused(errno.EINVAL):
        raw.number(one, "REPORTREPLIERBINDS", 2)
    for value in (raw.ON, raw.OFF):
        with refused(errno.EBADF):
            raw.number(reader, "REPORTREPLIERBINDS", value)


@pytest.mark.rule(40)
def test_it_is_one_switch_a_device(ksock: OpenKsock, new_device: NewDevice, listener: Ksock) -> None:
    number = new_device()
    other = ksock(number)
    assert other.report_replier_binds(just_ask=True) is False
    other.bind("$.A", replier=True)
    assert device_stats()["report_replier_binds"] == 1
    assert device_stats(number)["report_replier_binds"] == 0
    assert told(listener) == []


@pytest.mark.abi("BIND", "UNBIND", "SYNTHETIC")
@pytest.mark.parametrize("name", [b"$.A", b"$.Ab", b"$.Abc.*", b"$.Abcd.%"])
def test_what_an_event_looks_like(ksock: OpenKsock, listener: Ksock, name: bytes) -> None:
    one = ksock()
    for which, is_bind in (("BIND", 1), ("UNBIND", 0)):
        serial = device_stats()["last_serial"]
        raw.bind_request(one, which, name, is_replier=1)
        data = struct.pack("=3I", is_bind, one.ksock_id(), len(name)) + name + bytes(-len(name) % 4)
        expected = raw.message(EVENT.encode(), data, flags=raw.SYNTHETIC, id=(0, serial + 1))
        assert raw.receive(listener) == expected
        assert listener.num_messages() == 0


def test_every_listener_is_told(ksock: OpenKsock, listener: Ksock) -> None:
    wildcard, binder = ksock(), ksock()
    wildcard.bind("$.KBUS.*")
    binder.bind(EVENT)
    binder.bind("$.A", replier=True)
    event = (True, binder.ksock_id(), "$.A")
    assert [told(one) for one in (listener, wildcard, binder)] == [[event]] * 3


def test_listeners_and_failures_make_no_event(ksock: OpenKsock, listener: Ksock) -> None:
    one, other = ksock(), ksock()
    one.bind("$.A", replier=True)
    told(listener)
    one.bind("$.B")
    one.unbind("$.B")
    for number, method, name in (
        (errno.EADDRINUSE, other.bind, "$.A"),
        (errno.EBADMSG, other.bind, "$.A."),
        (errno.EBADMSG, other.bind, EVENT),
        (errno.EINVAL, other.unbind, "$.A"),
    ):
        with refused(number):
            method(name, replier=True)
    assert told(listener) == []


def test_after_switching_off_there_are_none(ksock: OpenKsock, listener: Ksock) -> None:
    one = ksock()
    one.bind("$.A", replier=True)
    one.report_replier_binds(False)
    one.unbind("$.A", replier=True)
    one.report_replier_binds()
    assert told(listener) == [(True, one.ksock_id(), "$.A")]


@pytest.mark.rule(10, 27)
def test_the_event_comes_before_the_status(ksock: OpenKsock, reporting: None) -> None:
    replier, sender = ksock(), ksock()
    sender.bind("$.KBUS.*")
    sender.want_messages_once(True)
    replier.bind("$.A", replier=True)
    sender.send_msg(Request("$.A"))
    replier.unbind("$.A", replier=True)
    id = replier.ksock_id()
    assert told(sender) == [(True, id, "$.A"), (False, id, "$.A"), UNBOUND]


@pytest.mark.rule(27)
def test_a_close_sends_its_events_and_then_its_statuses(ksock: OpenKsock, reporting: None) -> None:
    replier, sender = ksock(), ksock()
    replier.bind("$.C", replier=True)
    replier.bind("$.A", replier=True)
    replier.bind("$.L")
    replier.bind("$.B", replier=True)
    sender.bind("$.KBUS.*")
    sender.want_messages_once(True)
    for name in ("$.A", "$.B"):
        sender.send_msg(Request(name))
    id = replier.ksock_id()
    replier.close()
    assert told(sender) == [*((False, id, name) for name in ("$.C", "$.A", "$.B")), GONE_AWAY, GONE_AWAY]


@pytest.mark.abi("BIND")
def test_a_full_listener_holds_up_a_bind(ksock: OpenKsock, listener: Ksock) -> None:
    one = ksock()
    listener.set_max_messages(1)
    one.bind("$.A", replier=True)
    with refused(errno.EAGAIN):
        one.bind("$.B", replier=True)
    one.bind("$.B")
    assert told(listener) == [(True, one.ksock_id(), "$.A")]
    one.bind("$.B", replier=True)
    assert told(listener) == [(True, one.ksock_id(), "$.B")]


@pytest.mark.abi("UNBIND")
def test_a_full_listener_holds_up_an_unbind(ksock: OpenKsock, listener: Ksock) -> None:
    one, sender = ksock(), ksock()
    listener.set_max_messages(1)
    one.bind("$.A", replier=True)
    sender.send_msg(Request("$.A"))
    with refused(errno.EAGAIN):
        one.unbind("$.A", replier=True)
    assert (one.num_messages(), sender.num_messages()) == (1, 0)
    told(listener)
    one.unbind("$.A", replier=True)
    assert told(listener) == [(False, one.ksock_id(), "$.A")]
    assert names(sender) == [UNBOUND]


@pytest.mark.rule(7)
def test_eaddrinuse_comes_before_eagain(ksock: OpenKsock, listener: Ksock) -> None:
    one = ksock()
    listener.set_max_messages(1)
    one.bind("$.A", replier=True)
    with refused(errno.EADDRINUSE):
        one.bind("$.A", replier=True)
    with refused(errno.EINVAL):
        one.unbind("$.B", replier=True)


@pytest.mark.rule(11)
def test_enospc_comes_before_eagain(ksock: OpenKsock, listener: Ksock) -> None:
    one = ksock()
    listener.set_max_messages(1)
    one.bind("$.A", replier=True)
    with parameter("max_ksock_bindings", 1), refused(errno.ENOSPC):
        one.bind("$.B", replier=True)
    with refused(errno.EAGAIN):
        one.bind("$.B", replier=True)


@pytest.mark.abi("NUMMSGS")
@pytest.mark.axiom("lifetime", "loss")
def test_a_close_is_never_refused(ksock: OpenKsock, listener: Ksock) -> None:
    closing, other = ksock(), ksock()
    for name in ("$.A", "$.B", "$.C"):
        closing.bind(name, replier=True)
    told(listener)
    listener.set_max_messages(1)
    other.bind("$.D", replier=True)
    closing.close()
    assert bindings(0)[0].name == "$.D"
    assert (listener.num_messages(), device_stats()["events_aside"]) == (4, 3)
    assert (listener.lost_messages(), ksock_stats(listener)["queued"]) == (0, 4)
    with refused(errno.EAGAIN):
        other.bind("$.A", replier=True)
    assert take(listener).from_ == 0
    assert listener.num_messages() == 3
    assert [event[2] for event in told(listener) if isinstance(event, tuple)] == ["$.A", "$.B", "$.C"]
    assert device_stats()["events_aside"] == 0
    other.bind("$.A", replier=True)
    assert told(listener) == [(True, other.ksock_id(), "$.A")]


@pytest.mark.rule(21)
def test_events_aside_let_no_other_message_in(ksock: OpenKsock, listener: Ksock) -> None:
    closing, sender = ksock(), ksock()
    listener.bind("$.M")
    closing.bind("$.A", replier=True)
    listener.set_max_messages(1)
    closing.close()
    sender.send_msg(Announcement("$.M"))
    take(listener)
    sender.send_msg(Announcement("$.M"))
    assert listener.lost_messages() == 2
    assert [event if isinstance(event, str) else event[2] for event in told(listener)] == ["$.A"]


@pytest.mark.axiom("loss")
def test_too_many_events_of_closes(ksock: OpenKsock, listener: Ksock) -> None:
    closing = ksock()
    over = 10
    closing.report_replier_binds(False)
    for number in range(MOST_ASIDE + over):
        closing.bind(f"$.N{number}", replier=True)
    closing.report_replier_binds()
    listener.set_max_messages(1)
    ksock().bind("$.A", replier=True)
    closing.close()
    assert device_stats()["events_aside"] == MOST_ASIDE
    assert (listener.num_messages(), listener.lost_messages()) == (1 + MOST_ASIDE + 1, over)
    *events, last = packets(listener)
    assert [split_replier_bind_event_data(event.data)[2] for event in events] == [
        "$.A",
        *(f"$.N{number}" for number in range(MOST_ASIDE)),
    ]
    assert (last.name, last.data, last.flags) == (EVENTS_LOST.encode(), b"", raw.SYNTHETIC)
    assert (last.from_, last.to, last.in_reply_to, last.id[0]) == (0, 0, (0, 0), 0)
    assert device_stats()["events_aside"] == 0


@pytest.mark.rule(37)
@pytest.mark.axiom("loss")
def test_too_many_events_of_a_user_without_bytes(
    ksock: OpenKsock, listener: Ksock, open_to_all: None
) -> None:
    """What ends the list was made when the binding was, and paid for."""
    switch, many, closing = ksock(), ksock(), opened_by(ksock, NOBODY)
    listener.set_max_messages(1)
    switch.report_replier_binds(False)
    for number in range(MOST_ASIDE):
        many.bind(f"$.N{number}", replier=True)
    closing.bind("$.Last", replier=True)
    os.write(closing.fileno(), raw.message(b"$.A", bytes(1_000_000))[:100])
    switch.report_replier_binds()
    ksock().bind("$.First", replier=True)
    many.close()
    assert device_stats()["events_aside"] == MOST_ASIDE
    with parameter("max_user_bytes", 1_000_000):
        closing.close()
    assert told(listener)[-1] == EVENTS_LOST


@pytest.mark.axiom("loss")
def test_each_time_there_are_too_many_is_told(ksock: OpenKsock, listener: Ksock) -> None:
    """One end of the list for each, once the one before it was read."""
    binder = ksock()
    listener.set_max_messages(1)
    for _ in range(3):
        closing = ksock()
        binder.report_replier_binds(False)
        for number in range(MOST_ASIDE + 2):
            closing.bind(f"$.N{number}", replier=True)
        binder.report_replier_binds()
        closing.close()
        assert (listener.num_messages(), device_stats()["events_aside"]) == (MOST_ASIDE + 2, MOST_ASIDE)
        *events, last = told(listener)
        assert len(events) == MOST_ASIDE + 1
        assert last == EVENTS_LOST


@pytest.mark.axiom("lifetime")
def test_a_killed_replier_is_reported(ksock: OpenKsock, listener: Ksock, child: StartChild) -> None:
    def serve() -> Ksock:
        replier = Ksock()
        replier.bind("$.A", replier=True)
        return replier

    process = child(serve)
    bound = told(listener)[0]
    assert isinstance(bound, tuple)
    process.kill()
    assert told(listener) == [(False, bound[1], "$.A")]


def test_a_listener_that_closes_loses_its_events(ksock: OpenKsock, listener: Ksock) -> None:
    closing = ksock()
    closing.bind("$.A", replier=True)
    listener.set_max_messages(1)
    closing.close()
    listener.close()
    assert device_stats()["events_aside"] == 0


@pytest.mark.rule(10)
def test_a_listener_that_unbinds_loses_its_events(ksock: OpenKsock, listener: Ksock) -> None:
    closing = ksock()
    closing.bind("$.A", replier=True)
    listener.set_max_messages(1)
    closing.close()
    listener.unbind(EVENT)
    assert (listener.num_messages(), device_stats()["events_aside"]) == (0, 0)
