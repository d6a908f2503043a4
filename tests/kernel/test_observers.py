# SPDX-License-Identifier: MIT
"""Observers: listeners whose full queue is never held against a sender ('Observers' in the decisions)."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from kbus import Ksock
from kbus import _abi as abi
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import (
    bindings,
    device_stats,
    fails,
    ksock_stats,
    names,
    refused,
    take,
    texts,
)
from tests.kernel.module import parameter
from tests.kernel.processes import blocked_send
from tests.kernel.room import waiting

pytestmark = [pytest.mark.abi("BIND")]

NAME = "$.A"


def observer_with(ksock: OpenKsock, length: int, *bound: str) -> Ksock:
    """An observer with a queue of this length."""
    one = ksock()
    one.set_max_messages(length)
    for name in bound or (NAME,):
        one.bind(name, observer=True)
    return one


@pytest.fixture
def full(ksock: OpenKsock) -> Ksock:
    """An observer of $.A whose queue of one message is full."""
    one = observer_with(ksock, 1)
    raw.send(ksock(), raw.message(NAME.encode(), b"one."))
    return one


@pytest.mark.rule(22)
@pytest.mark.abi("ALL_OR_WAIT", "LOSTMSGS")
def test_no_sender_waits_for_an_observer(ksock: OpenKsock, full: Ksock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind(NAME)
    raw.send(sender, raw.message(NAME.encode(), b"two.", flags=raw.ALL_OR_WAIT))
    assert texts(listener) == [b"two."]
    assert texts(full) == [b"one."]
    assert full.lost_messages() == 1


@pytest.mark.rule(21)
@pytest.mark.abi("ALL_OR_FAIL")
def test_nothing_fails_because_of_an_observer(ksock: OpenKsock, full: Ksock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind(NAME)
    raw.send(sender, raw.message(NAME.encode(), b"two.", flags=raw.ALL_OR_FAIL))
    assert texts(listener) == [b"two."]
    assert (full.lost_messages(), full.num_messages()) == (1, 1)


@pytest.mark.parametrize("flags", [0, raw.ALL_OR_WAIT, raw.ALL_OR_FAIL], ids=["none", "wait", "fail"])
def test_what_fits_of_several_copies_is_queued(ksock: OpenKsock, flags: int) -> None:
    observer, sender = observer_with(ksock, 2, NAME, NAME, "$.*"), ksock()
    raw.send(sender, raw.message(NAME.encode(), flags=flags))
    assert names(observer) == [NAME, NAME]
    assert observer.lost_messages() == 1


@pytest.mark.rule(21)
@pytest.mark.parametrize("flags", [raw.ALL_OR_WAIT, raw.ALL_OR_FAIL], ids=["wait", "fail"])
def test_others_who_are_full_still_count(ksock: OpenKsock, full: Ksock, flags: int) -> None:
    listener, sender = ksock(), ksock(nonblocking=True)
    listener.set_max_messages(1)
    listener.bind(NAME)
    raw.send(sender, raw.message(NAME.encode(), b"two."))
    with fails(errno.EAGAIN if flags == raw.ALL_OR_WAIT else errno.EBUSY):
        raw.send(sender, raw.message(NAME.encode(), b"more", flags=flags))
    assert full.lost_messages() == 1  # the second: what failed is not lost
    sender.discard()


@pytest.mark.rule(22)
def test_a_sender_who_waits_for_others_gives_the_observer_what_fits_then(
    ksock: OpenKsock, full: Ksock
) -> None:
    listener, sender = ksock(), ksock()
    listener.set_max_messages(1)
    listener.bind(NAME)
    raw.send(ksock(), raw.message(NAME.encode(), b"two."))
    sending = blocked_send(sender, waiting(b"more"))
    assert texts(full) == [b"one."]
    take(listener)
    sending.result()
    assert texts(full) == [b"more"]
    assert full.lost_messages() == 1


@pytest.mark.rule(23)
@pytest.mark.axiom("loss")
@pytest.mark.abi("REPORTLOST", "LOSTMSGS")
def test_losses_are_counted_and_reported(ksock: OpenKsock, full: Ksock) -> None:
    full.report_lost_messages()
    sender = ksock()
    for flags in (0, raw.ALL_OR_WAIT, raw.ALL_OR_FAIL):
        raw.send(sender, raw.message(NAME.encode(), flags=flags))
    assert ksock_stats(full)["lost"] == full.lost_messages() == 3
    assert take(full).data == b"one."
    report = take(full)
    assert (report.name, report.data) == ("$.KBUS.MessagesLost", abi.U32.pack(3))


@pytest.mark.rule(19)
@pytest.mark.abi("MSGONLYONCE")
def test_once_is_once(ksock: OpenKsock) -> None:
    observer, sender = observer_with(ksock, 1, NAME, "$.*"), ksock()
    observer.want_messages_once(True)
    raw.send(sender, raw.message(NAME.encode(), b"one.", flags=raw.ALL_OR_FAIL))
    raw.send(sender, raw.message(NAME.encode(), b"two.", flags=raw.ALL_OR_FAIL))
    assert texts(observer) == [b"one."]
    assert observer.lost_messages() == 1


@pytest.mark.rule(21, 24)
@pytest.mark.parametrize("flags", [0, raw.ALL_OR_FAIL], ids=["none", "fail"])
def test_a_replier_who_observes_must_have_room_for_its_request(ksock: OpenKsock, flags: int) -> None:
    both, sender = observer_with(ksock, 1), ksock()
    both.bind(NAME, replier=True)
    raw.send(sender, raw.message(NAME.encode(), flags=raw.WANT_A_REPLY | flags))
    assert both.lost_messages() == 1
    with refused(errno.EBUSY, serials=1):
        raw.send(sender, raw.message(NAME.encode(), flags=raw.WANT_A_REPLY | flags))
    assert take(both).wants_us_to_reply()


@pytest.mark.rule(22, 24)
def test_a_request_waits_for_a_replier_who_observes(ksock: OpenKsock) -> None:
    both, sender = observer_with(ksock, 1), ksock()
    both.bind(NAME, replier=True)
    raw.send(sender, raw.message(NAME.encode()))
    sending = blocked_send(sender, waiting(b"wait", flags=raw.WANT_A_REPLY))
    take(both)
    sending.result()
    request = take(both)
    assert request.wants_us_to_reply()
    assert (request.data, both.num_messages(), both.lost_messages()) == (b"wait", 0, 1)


@pytest.mark.rule(26)
def test_an_answer_comes_to_an_observer_who_asked(ksock: OpenKsock) -> None:
    observer, replier = observer_with(ksock, 2), ksock()
    replier.bind("$.B", replier=True)
    raw.send(observer, raw.message(b"$.B", flags=raw.WANT_A_REPLY))
    for _ in range(3):
        raw.send(replier, raw.message(NAME.encode(), flags=raw.ALL_OR_FAIL))
    replier.close()
    assert names(observer) == [NAME, "$.KBUS.Replier.GoneAway"]
    assert observer.lost_messages() == 2


@pytest.mark.rule(32)
def test_binds_are_not_put_off_for_an_observer_of_events(ksock: OpenKsock) -> None:
    event = "$.KBUS.ReplierBindEvent"
    observer, replier = observer_with(ksock, 1, event), ksock()
    replier.report_replier_binds(True)
    replier.bind("$.B", replier=True)
    replier.bind("$.C", replier=True)
    replier.unbind("$.C", replier=True)
    replier.close()
    assert names(observer) == [event]
    assert observer.lost_messages() == 3
    assert device_stats()["events_aside"] == 0
    observer.report_replier_binds(False)


@pytest.mark.rule(6, 11)
@pytest.mark.abi("UNBIND")
@pytest.mark.parametrize("first", [raw.LISTENER, raw.OBSERVER])
def test_a_ksock_listens_in_one_way(ksock: OpenKsock, first: int) -> None:
    one, other = ksock(), raw.OBSERVER - first
    raw.bind_request(one, "BIND", b"$.A", is_replier=first)
    for call in ("BIND", "UNBIND"):
        with refused(errno.EINVAL):
            raw.bind_request(one, call, b"$.A", is_replier=other)
    raw.bind_request(one, "BIND", b"$.A", is_replier=raw.REPLIER)
    raw.bind_request(one, "UNBIND", b"$.A", is_replier=first)
    raw.bind_request(one, "BIND", b"$.A", is_replier=other)
    assert [each.kind for each in bindings()] == ["L", "R"]


@pytest.mark.rule(10)
@pytest.mark.abi("UNBIND")
def test_unbind_takes_what_is_unread(ksock: OpenKsock, full: Ksock) -> None:
    full.unbind(NAME, observer=True)
    assert full.num_messages() == 0


@pytest.mark.rule(8)
def test_reading_is_enough_to_observe(ksock: OpenKsock) -> None:
    ksock(mode="r").bind(NAME, observer=True)
    assert [(each.kind, each.name) for each in bindings()] == [("L", NAME)]


@pytest.mark.rule(37)
def test_what_a_user_has_paid_for_goes_to_who_must_have_it(ksock: OpenKsock) -> None:
    """There is memory for the message once, and the observer has been bound first."""
    observer, listener, sender = observer_with(ksock, 10), ksock(), ksock()
    listener.bind(NAME)
    with parameter("max_user_bytes", 400_000):
        raw.send(sender, raw.message(NAME.encode(), bytes(300_000), flags=raw.ALL_OR_FAIL))
    assert (listener.num_messages(), listener.lost_messages()) == (1, 0)
    assert (observer.num_messages(), observer.lost_messages()) == (0, 1)


@pytest.mark.parametrize("method", ["bind", "unbind"])
def test_a_replier_is_no_observer_in_python(ksock: OpenKsock, method: str) -> None:
    one = ksock()
    call: Callable[..., None] = getattr(one, method)
    with pytest.raises(ValueError, match="a replier is no observer"):
        call(NAME, replier=True, observer=True)
    assert bindings() == []
