# SPDX-License-Identifier: MIT
"""The answers that KBUS gives when a replier does not: rule 27, and the axiom of the one answer."""

from __future__ import annotations

import errno

import pytest

from kbus import Announcement, Ksock, MessageId, Request, Status, reply_to
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import device_stats, ksock_stats, names, packets, refused, stats_lines, take
from tests.kernel.processes import blocked_send
from tests.kernel.room import waiting

GONE_AWAY, IGNORED, UNBOUND = (f"$.KBUS.Replier.{what}" for what in ("GoneAway", "Ignored", "Unbound"))
A_REQUEST = raw.message(b"$.A", flags=raw.WANT_A_REPLY)

pytestmark = [pytest.mark.rule(27), pytest.mark.axiom("answer")]


def told(sender: Ksock) -> list[tuple[str, MessageId | None]]:
    """Take every message that is queued; their names and the Requests that they answer."""
    return [(message.name, message.in_reply_to) for message in sender]


@pytest.fixture
def replier(ksock: OpenKsock) -> Ksock:
    """A KSock that is the replier for $.A."""
    one = ksock()
    one.bind("$.A", replier=True)
    return one


@pytest.mark.abi("SYNTHETIC", "in_reply_to", "from", "to")
@pytest.mark.parametrize("how", ["close unread", "close popped", "unbind"])
def test_what_a_status_looks_like(ksock: OpenKsock, replier: Ksock, how: str) -> None:
    sender, replier_id = ksock(), replier.ksock_id()
    id = raw.send(sender, raw.message(b"$.A", b"data", flags=raw.WANT_A_REPLY | raw.URGENT | 1 << 20))
    serial = device_stats()["last_serial"]
    if how == "close popped":
        replier.next_msg()
    if how == "unbind":
        replier.unbind("$.A", replier=True)
    else:
        replier.close()
    name = {"close unread": GONE_AWAY, "close popped": IGNORED, "unbind": UNBOUND}[how]
    assert raw.receive(sender) == raw.message(
        name.encode(),
        flags=raw.SYNTHETIC,
        id=(0, serial + 1),
        in_reply_to=id,
        to=sender.ksock_id(),
        from_=replier_id,
    )
    assert (sender.num_messages(), ksock_stats(sender)["awaiting"]) == (0, 0)
    assert device_stats()["last_serial"] == serial + 1


def test_statuses_come_in_the_order_of_the_requests(ksock: OpenKsock, replier: Ksock) -> None:
    sender, watcher = ksock(), ksock()
    ids = [sender.send_msg(Request("$.A", b"%d" % n)) for n in range(5)]
    replier.send_msg(reply_to(take(replier)))
    for _ in range(2):
        replier.next_msg()
    watcher.bind("$.KBUS.*")
    replier.close()
    assert names(sender)[:1] == ["$.A"]
    expected = [(IGNORED, ids[1]), (IGNORED, ids[2]), (GONE_AWAY, ids[3]), (GONE_AWAY, ids[4])]
    assert told(watcher) == expected


def test_urgent_requests_do_not_change_that_order(ksock: OpenKsock, replier: Ksock) -> None:
    sender = ksock()
    first = sender.send_msg(Request("$.A"))
    second = sender.send_msg(Request("$.A", flags=raw.URGENT))
    replier.next_msg()
    replier.close()
    assert told(sender) == [(GONE_AWAY, first), (IGNORED, second)]


@pytest.mark.rule(24)
@pytest.mark.parametrize("popped", [True, False])
def test_stateful_requests_are_answered_too(ksock: OpenKsock, replier: Ksock, popped: bool) -> None:
    sender = ksock()
    id = sender.send_msg(Request("$.A", to=replier.ksock_id()))
    if popped:
        replier.next_msg()
    replier.close()
    assert told(sender) == [(IGNORED if popped else GONE_AWAY, id)]


def test_each_sender_gets_its_own(ksock: OpenKsock, replier: Ksock) -> None:
    senders = [ksock() for _ in range(3)]
    ids = [sender.send_msg(Request("$.A")) for sender in senders]
    replier.next_msg()
    replier.close()
    assert [told(sender) for sender in senders] == [
        [(IGNORED, ids[0])],
        [(GONE_AWAY, ids[1])],
        [(GONE_AWAY, ids[2])],
    ]


def test_unbound_and_then_closed(ksock: OpenKsock, replier: Ksock) -> None:
    sender = ksock()
    ids = [sender.send_msg(Request("$.A")) for _ in range(2)]
    replier.next_msg()
    replier.unbind("$.A", replier=True)
    assert told(sender) == [(UNBOUND, ids[1])]
    replier.close()
    assert told(sender) == [(IGNORED, ids[0])]


@pytest.mark.rule(20)
def test_a_status_needs_no_room_but_its_slot(ksock: OpenKsock, replier: Ksock) -> None:
    sender, other = ksock(), ksock()
    sender.set_max_messages(3)
    sender.bind("$.B")
    ids = [sender.send_msg(Request("$.A")) for _ in range(2)]
    for _ in range(5):
        other.send_msg(Announcement("$.B"))
    sender.set_max_messages(1)
    replier.close()
    assert told(sender) == [("$.B", None), (GONE_AWAY, ids[0]), (GONE_AWAY, ids[1])]


@pytest.mark.rule(5, 25)
@pytest.mark.axiom("loss")
def test_listeners_see_statuses_where_they_have_room(ksock: OpenKsock, replier: Ksock) -> None:
    sender, watcher, full = ksock(), ksock(), ksock()
    watcher.bind("$.KBUS.*")
    full.bind("$.*")
    full.set_max_messages(2)
    ids = [sender.send_msg(Request("$.A")) for _ in range(2)]
    replier.close()
    assert told(watcher) == [(GONE_AWAY, id) for id in ids]
    assert (names(full), full.lost_messages()) == (["$.A", "$.A"], 2)
    assert told(sender) == [(GONE_AWAY, id) for id in ids]


def test_a_sender_that_is_gone_is_told_nothing(ksock: OpenKsock, replier: Ksock) -> None:
    sender, watcher = ksock(), ksock()
    watcher.bind("$.KBUS.*")
    for _ in range(2):
        sender.send_msg(Request("$.A"))
    replier.next_msg()
    sender.close()
    replier.close()
    assert names(watcher) == []


def test_one_that_asks_itself(ksock: OpenKsock, replier: Ksock) -> None:
    watcher = ksock()
    watcher.bind("$.KBUS.*")
    id = replier.send_msg(Request("$.A"))
    replier.unbind("$.A", replier=True)
    assert told(replier) == [(UNBOUND, id)]
    replier.bind("$.A", replier=True)
    replier.send_msg(Request("$.A"))
    replier.close()
    assert names(watcher) == [UNBOUND]


def test_a_status_is_a_status_in_python(ksock: OpenKsock, replier: Ksock) -> None:
    sender = ksock()
    id = sender.send_msg(Request("$.A"))
    replier.close()
    status = take(sender).cast()
    assert isinstance(status, Status)
    assert (status.name, status.in_reply_to, status.data) == (GONE_AWAY, id, None)


@pytest.mark.rule(26)
def test_after_a_status_there_is_no_reply(ksock: OpenKsock, replier: Ksock) -> None:
    sender = ksock()
    id = raw.send(sender, A_REQUEST)
    replier.unbind("$.A", replier=True)
    with refused(errno.ECONNREFUSED, serials=1):
        raw.send(replier, raw.message(b"$.A", to=sender.ksock_id(), in_reply_to=id))
    assert names(sender) == [UNBOUND]


@pytest.mark.axiom("lifetime")
def test_a_killed_replier_answers_by_its_statuses(ksock: OpenKsock, child: StartChild) -> None:
    sender = ksock()

    def serve() -> Ksock:
        replier = Ksock()
        replier.bind("$.A", replier=True)
        for _ in range(3):
            raw.send(sender, A_REQUEST)
        replier.send_msg(reply_to(take(replier)))
        replier.next_msg()
        return replier

    process = child(serve)
    assert names(sender) == ["$.A"]
    process.kill()
    assert names(sender) == [IGNORED, GONE_AWAY]


@pytest.mark.rule(31, 38)
@pytest.mark.axiom("lifetime")
def test_nothing_survives_a_killed_owner(ksock: OpenKsock, child: StartChild) -> None:
    full, sender = ksock(), ksock()
    full.bind("$.A")
    full.set_max_messages(1)
    before = len(stats_lines())

    def live() -> list[Ksock]:
        bound, half, reading, asking, waiter = (Ksock() for _ in range(5))
        for one in (bound, reading):
            one.bind("$.*")
        bound.bind("$.A", replier=True)
        half.write_data(raw.message(b"$.A")[:17])
        sender.send_msg(Announcement("$.A", bytes(100_000)))
        reading.next_msg()
        reading.read_data(50_000)
        asking.send_msg(Request("$.A"))
        bound.report_lost_messages()
        blocked_send(waiter, waiting())
        return [bound, half, reading, asking, waiter]

    process = child(live)
    assert len(stats_lines()) == before + 5
    assert device_stats()["bindings"] == 4
    process.kill()
    assert len(stats_lines()) == before
    assert (device_stats()["bindings"], device_stats()["waiting"]) == (1, 0)
    assert packets(full)[0].data == bytes(100_000)


@pytest.mark.rule(28)
def test_exactly_one_answer(ksock: OpenKsock, replier: Ksock) -> None:
    sender = ksock()
    answered, given_up, ignored, unread = (sender.send_msg(Request("$.A")) for _ in range(4))
    replier.send_msg(reply_to(take(replier)))
    for _ in range(2):
        replier.next_msg()
    sender.abandon(given_up)
    replier.close()
    assert told(sender) == [("$.A", answered), (IGNORED, ignored), (GONE_AWAY, unread)]
    assert ksock_stats(sender)["awaiting"] == 0
