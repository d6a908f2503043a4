# SPDX-License-Identifier: MIT
"""Requests and replies, ABANDON, UNREPLIEDTO: rules 24 to 26, 28 and 29; rule 27 is in test_statuses.py."""

from __future__ import annotations

import errno

import pytest

from kbus import Announcement, Ksock, MessageId, Request, reply_to, stateful_request
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import fails, ksock_stats, names, packets, refused, take, texts
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY, opened_by

A_REQUEST = raw.message(b"$.A", flags=raw.WANT_A_REPLY)


def answer(request: raw.Packet, name: bytes = b"$.A", data: bytes = b"", flags: int = 0) -> bytes:
    """A reply to this Request."""
    return raw.message(name, data, flags=flags, to=request.from_, in_reply_to=request.id)


def pop(replier: Ksock) -> raw.Packet:
    """Take the next message of a replier, which is a Request that it must answer."""
    request = raw.parse(raw.receive(replier))
    assert request.flags & raw.WANT_YOU_TO_REPLY
    return request


@pytest.fixture
def replier(ksock: OpenKsock) -> Ksock:
    """A KSock that is the replier for $.A."""
    one = ksock()
    one.bind("$.A", replier=True)
    return one


@pytest.fixture
def sender(ksock: OpenKsock) -> Ksock:
    """A KSock that is bound to nothing."""
    return ksock()


@pytest.mark.rule(24)
@pytest.mark.abi("WANT_A_REPLY")
def test_listeners_alone_do_not_count(ksock: OpenKsock, sender: Ksock) -> None:
    listener = ksock()
    listener.bind("$.A")
    listener.bind("$.*")
    with refused(errno.EADDRNOTAVAIL, serials=1):
        raw.send(sender, A_REQUEST)
    assert (listener.num_messages(), ksock_stats(sender)["awaiting"]) == (0, 0)


@pytest.mark.rule(24)
@pytest.mark.abi("to")
def test_a_request_to_the_right_ksock(ksock: OpenKsock, sender: Ksock) -> None:
    general, special = ksock(), ksock()
    general.bind("$.*", replier=True)
    raw.send(sender, raw.message(b"$.A", flags=raw.WANT_A_REPLY, to=general.ksock_id()))
    assert take(general).to == general.ksock_id()
    special.bind("$.A", replier=True)
    with refused(errno.EPIPE, serials=1):
        raw.send(sender, raw.message(b"$.A", flags=raw.WANT_A_REPLY, to=general.ksock_id()))
    raw.send(sender, raw.message(b"$.A", flags=raw.WANT_A_REPLY, to=special.ksock_id()))
    assert (general.num_messages(), special.num_messages()) == (0, 1)


@pytest.mark.rule(24)
@pytest.mark.abi("to")
def test_a_request_to_the_wrong_ksock(ksock: OpenKsock, sender: Ksock, replier: Ksock) -> None:
    listener = ksock()
    listener.bind("$.A")
    for to in (sender.ksock_id(), listener.ksock_id(), 0xFFFFFFFF):
        with refused(errno.EPIPE, serials=1):
            raw.send(sender, raw.message(b"$.A", flags=raw.WANT_A_REPLY, to=to))
    assert (replier.num_messages(), listener.num_messages(), ksock_stats(sender)["awaiting"]) == (0, 0, 0)


@pytest.mark.rule(24)
def test_a_conversation_ends_with_its_replier(ksock: OpenKsock, sender: Ksock, replier: Ksock) -> None:
    sender.send_msg(Request("$.A"))
    replier.send_msg(reply_to(take(replier)))
    earlier = take(sender)
    sender.send_msg(stateful_request(earlier, "$.A", b"second"))
    assert take(replier).data == b"second"
    replier.unbind("$.A", replier=True)
    with refused(errno.EADDRNOTAVAIL, serials=1):
        sender.send_msg(stateful_request(earlier, "$.A"))
    ksock().bind("$.A", replier=True)
    with refused(errno.EPIPE, serials=1):
        sender.send_msg(stateful_request(earlier, "$.A"))


@pytest.mark.rule(25)
def test_a_replier_gets_requests_only(sender: Ksock, replier: Ksock) -> None:
    sender.send_msg(Announcement("$.A"))
    sender.send_msg(Request("$.A"))
    assert [message.wants_us_to_reply() for message in replier] == [True]


@pytest.mark.rule(25, 26)
def test_who_gets_what(ksock: OpenKsock, sender: Ksock, replier: Ksock) -> None:
    listener, both = ksock(), ksock()
    listener.bind("$.*")
    both.bind("$.B")
    both.bind("$.B", replier=True)
    for name in ("$.A", "$.B"):
        sender.send_msg(Request(name))
    assert [message.flags for message in listener] == [raw.WANT_A_REPLY] * 2
    request, copy = list(both)
    assert (request.flags, copy.flags) == (raw.WANT_A_REPLY | raw.WANT_YOU_TO_REPLY, raw.WANT_A_REPLY)
    raw.send(replier, answer(pop(replier)))
    both.send_msg(reply_to(request))
    assert names(sender) == ["$.A", "$.B"]
    assert [(message.name, message.is_reply()) for message in listener] == [("$.A", True), ("$.B", True)]
    assert [message.is_reply() for message in both] == [True]
    assert replier.num_messages() == 0


@pytest.mark.rule(26)
def test_a_replier_can_ask_itself(replier: Ksock) -> None:
    id = raw.send(replier, A_REQUEST)
    raw.send(replier, answer(pop(replier), data=b"mine"))
    reply = raw.parse(raw.receive(replier))
    assert (reply.in_reply_to, reply.data, reply.flags) == (id, b"mine", 0)
    assert replier.num_messages() == 0


@pytest.mark.rule(26)
@pytest.mark.abi("in_reply_to")
def test_a_reply_is_accepted_once(sender: Ksock, replier: Ksock) -> None:
    raw.send(sender, A_REQUEST)
    request = pop(replier)
    raw.send(replier, answer(request))
    with refused(errno.ECONNREFUSED, serials=1):
        raw.send(replier, answer(request))
    assert len(names(sender)) == 1


@pytest.mark.rule(26)
@pytest.mark.parametrize("who", ["listener", "stranger", "sender"])
def test_nobody_else_can_answer(ksock: OpenKsock, sender: Ksock, replier: Ksock, who: str) -> None:
    listener = ksock()
    listener.bind("$.A")
    raw.send(sender, A_REQUEST)
    packets(listener)
    request = pop(replier)
    impostor = {"listener": listener, "stranger": ksock(), "sender": sender}[who]
    with refused(errno.ECONNREFUSED, serials=1):
        raw.send(impostor, answer(request))
    raw.send(replier, answer(request, data=b"real"))
    assert texts(sender) == [b"real"]


@pytest.mark.rule(26)
@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({"to": 0}, errno.ECONNREFUSED),
        ({"to": 0xFFFFFFFF}, errno.EADDRNOTAVAIL),
        ({"in_reply_to": (0, 0xFFFFFFF0)}, errno.ECONNREFUSED),
        ({"in_reply_to": (1, 1)}, errno.ECONNREFUSED),
    ],
)
def test_a_reply_must_fit_its_request(
    sender: Ksock, replier: Ksock, change: dict[str, int], number: int
) -> None:
    raw.send(sender, A_REQUEST)
    request = pop(replier)
    fitting = {"to": request.from_, "in_reply_to": request.id}
    with refused(number, serials=1):
        raw.send(replier, raw.message(b"$.A", **{**fitting, **change}))  # type: ignore[arg-type]
    assert replier.num_unreplied_to() == 1
    raw.send(replier, answer(request))
    assert len(names(sender)) == 1


@pytest.mark.rule(26)
def test_an_unread_request_cannot_be_answered(sender: Ksock, replier: Ksock) -> None:
    id = raw.send(sender, A_REQUEST)
    with refused(errno.ECONNREFUSED, serials=1):
        raw.send(replier, raw.message(b"$.A", to=sender.ksock_id(), in_reply_to=id))
    raw.send(replier, answer(pop(replier)))
    assert len(names(sender)) == 1


@pytest.mark.rule(26)
def test_an_announcement_cannot_be_answered(ksock: OpenKsock, sender: Ksock) -> None:
    listener = ksock()
    listener.bind("$.A")
    sender.send_msg(Announcement("$.A"))
    announced = raw.parse(raw.receive(listener))
    with refused(errno.ECONNREFUSED, serials=1):
        raw.send(listener, answer(announced))


@pytest.mark.rule(26, 29)
def test_a_reply_to_a_sender_that_is_gone(ksock: OpenKsock, sender: Ksock, replier: Ksock) -> None:
    listener = ksock()
    raw.send(sender, A_REQUEST)
    request = pop(replier)
    listener.bind("$.A")
    sender.close()
    assert replier.num_unreplied_to() == 0
    with refused(errno.EADDRNOTAVAIL, serials=1):
        raw.send(replier, answer(request))
    assert listener.num_messages() == 0


@pytest.mark.rule(26)
@pytest.mark.axiom("lifetime")
def test_who_has_closed_leaves_no_request(ksock: OpenKsock, replier: Ksock, open_to_all: None) -> None:
    """Its replier has read it, and takes its time; it has nothing to do with the user's quotas."""
    with parameter("max_user_bytes", 100_000):
        for _ in range(100):
            with opened_by(ksock, NOBODY) as asker:
                raw.send(asker, A_REQUEST)
                request = pop(replier)
    with fails(errno.EADDRNOTAVAIL):
        raw.send(replier, answer(request))


@pytest.mark.rule(25, 26)
def test_a_request_is_done_though_nobody_waits_for_its_answer(sender: Ksock, replier: Ksock) -> None:
    raw.send(sender, A_REQUEST)
    sender.close()
    request = pop(replier)
    assert replier.num_unreplied_to() == 0
    with fails(errno.EADDRNOTAVAIL):
        raw.send(replier, answer(request))


@pytest.mark.rule(26)
def test_a_request_may_have_an_id_with_serial_0(sender: Ksock, replier: Ksock) -> None:
    raw.send(sender, raw.message(b"$.A", flags=raw.WANT_A_REPLY, id=(7, 0)))
    raw.send(replier, answer(pop(replier), data=b"yes!"))
    (reply,) = packets(sender)
    assert (reply.in_reply_to, reply.data) == ((7, 0), b"yes!")


@pytest.mark.rule(20, 26)
@pytest.mark.axiom("answer")
def test_a_reply_fits_into_its_slot(ksock: OpenKsock, sender: Ksock, replier: Ksock) -> None:
    other = ksock()
    sender.set_max_messages(2)
    sender.bind("$.B")
    raw.send(sender, A_REQUEST)
    for _ in range(3):
        other.send_msg(Announcement("$.B"))
    sender.set_max_messages(1)
    raw.send(replier, answer(pop(replier), data=bytes(500_000)))
    assert [len(packet.data) for packet in packets(sender)] == [0, 500_000]
    assert sender.lost_messages() == 2


@pytest.mark.rule(26)
@pytest.mark.abi("URGENT")
@pytest.mark.axiom("urgency")
def test_a_reply_can_be_urgent(ksock: OpenKsock, sender: Ksock, replier: Ksock) -> None:
    sender.bind("$.B")
    raw.send(sender, A_REQUEST)
    ksock().send_msg(Announcement("$.B"))
    raw.send(replier, answer(pop(replier), flags=raw.URGENT))
    assert names(sender) == ["$.A", "$.B"]


@pytest.mark.rule(26)
def test_replies_may_come_in_any_order(sender: Ksock, replier: Ksock) -> None:
    ids = [raw.send(sender, A_REQUEST) for _ in range(3)]
    requests = [pop(replier) for _ in range(3)]
    for request in (requests[1], requests[2], requests[0]):
        raw.send(replier, answer(request))
    assert [packet.in_reply_to for packet in packets(sender)] == [ids[1], ids[2], ids[0]]


@pytest.mark.rule(16, 26, 28)
def test_the_older_of_two_with_the_same_id_is_answered_first(ksock: OpenKsock, sender: Ksock) -> None:
    first, second = ksock(), ksock()
    first.bind("$.A", replier=True)
    second.bind("$.B", replier=True)
    for name in (b"$.A", b"$.B"):
        raw.send(sender, raw.message(name, flags=raw.WANT_A_REPLY, id=(3, 3)))
    abandoned, wanted = pop(first), pop(second)
    raw.abandon(sender, (3, 3))
    with refused(errno.ECONNREFUSED, serials=1):
        raw.send(first, answer(abandoned))
    raw.send(second, answer(wanted, data=b"yes!"))
    assert texts(sender) == [b"yes!"]


@pytest.mark.rule(15, 33)
@pytest.mark.axiom("isolation")
def test_requests_with_the_same_id_are_few(sender: Ksock, replier: Ksock) -> None:
    """Whoever looks for one of them, with a reply to it perhaps, goes over all."""
    request = raw.message(b"$.A", flags=raw.WANT_A_REPLY, id=(3, 3))
    for _ in range(16):
        raw.send(sender, request)
    with refused(errno.ENOLCK):
        raw.send(sender, request)
    raw.send(sender, raw.message(b"$.A", flags=raw.WANT_A_REPLY, id=(3, 4)))
    raw.abandon(sender, (3, 3))
    raw.send(sender, request)
    assert not raw.parse(raw.receive(replier)).flags & raw.WANT_YOU_TO_REPLY
    raw.send(replier, answer(pop(replier)))
    raw.send(sender, request)
    with refused(errno.ENOLCK):
        raw.send(sender, request)


@pytest.mark.rule(14, 26)
def test_a_dropped_reply_can_be_sent_again(sender: Ksock, replier: Ksock) -> None:
    raw.send(sender, A_REQUEST)
    request = pop(replier)
    replier.write_data(answer(request))
    replier.discard()
    with refused(errno.EBADMSG):
        raw.send(replier, answer(request, name=b"$.A.*"))
    raw.send(replier, answer(request))
    assert len(names(sender)) == 1


@pytest.mark.rule(28)
@pytest.mark.abi("ABANDON")
@pytest.mark.axiom("answer")
@pytest.mark.parametrize("popped_before", [True, False])
def test_abandon(sender: Ksock, replier: Ksock, popped_before: bool) -> None:
    sender.set_max_messages(1)
    id = raw.send(sender, A_REQUEST)
    if popped_before:
        pop(replier)
    raw.abandon(sender, id)
    assert ksock_stats(sender)["awaiting"] == 0
    if not popped_before:
        packets(replier)
    with refused(errno.ECONNREFUSED, serials=1):
        raw.send(replier, raw.message(b"$.A", to=sender.ksock_id(), in_reply_to=id))
    assert replier.num_unreplied_to() == 0
    with refused(errno.ENOENT):
        raw.abandon(sender, id)
    raw.send(sender, A_REQUEST)
    raw.send(replier, answer(pop(replier)))
    assert len(names(sender)) == 1


@pytest.mark.rule(28)
@pytest.mark.abi("ABANDON")
def test_abandon_of_what_is_not_outstanding(ksock: OpenKsock, sender: Ksock, replier: Ksock) -> None:
    announced = sender.send_msg(Announcement("$.A"))
    answered = sender.send_msg(Request("$.A"))
    replier.send_msg(reply_to(take(replier)))
    others = ksock().send_msg(Request("$.A"))
    for id in (announced, answered, others, MessageId(0, 0), MessageId(0, 0xFFFFFFF0), MessageId(1, 1)):
        with refused(errno.ENOENT):
            sender.abandon(id)
    assert take(sender).in_reply_to == answered


@pytest.mark.rule(28)
def test_nothing_is_owed_to_who_has_given_up(sender: Ksock, replier: Ksock) -> None:
    for _ in range(2):
        raw.send(sender, A_REQUEST)
    pop(replier)
    for serial in range(2):
        sender.abandon(MessageId(0, sender.last_msg_id().serial_num - serial))
    replier.close()
    assert names(sender) == []


@pytest.mark.rule(28)
@pytest.mark.abi("ABANDON")
def test_a_call_that_times_out_abandons(sender: Ksock, replier: Ksock) -> None:
    with pytest.raises(TimeoutError):
        sender.call("$.A", timeout=0.01)
    assert (ksock_stats(sender)["awaiting"], replier.num_messages()) == (0, 1)


@pytest.mark.rule(29)
@pytest.mark.abi("UNREPLIEDTO")
def test_unrepliedto_counts_what_was_popped(ksock: OpenKsock, sender: Ksock, replier: Ksock) -> None:
    listener = ksock()
    listener.bind("$.A")
    ids = [raw.send(sender, A_REQUEST) for _ in range(3)]
    assert (replier.num_unreplied_to(), ksock_stats(replier)["owed"]) == (0, 3)
    first = pop(replier)
    replier.next_msg()
    packets(listener)
    assert (replier.num_unreplied_to(), listener.num_unreplied_to(), sender.num_unreplied_to()) == (2, 0, 0)
    assert (ksock_stats(replier)["unreplied"], ksock_stats(sender)["awaiting"]) == (2, 3)
    raw.send(replier, answer(first))
    assert (replier.num_unreplied_to(), ksock_stats(replier)["owed"]) == (1, 2)
    raw.abandon(sender, ids[1])
    assert replier.num_unreplied_to() == 0


@pytest.mark.rule(10, 29)
@pytest.mark.abi("UNREPLIEDTO")
def test_unrepliedto_survives_unbind(sender: Ksock, replier: Ksock) -> None:
    raw.send(sender, A_REQUEST)
    request = pop(replier)
    replier.unbind("$.A", replier=True)
    assert replier.num_unreplied_to() == 1
    raw.send(replier, answer(request))
    assert replier.num_unreplied_to() == 0
