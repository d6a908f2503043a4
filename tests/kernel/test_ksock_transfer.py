# SPDX-License-Identifier: MIT
"""Ksock on TRANSFER: how many system calls, many messages at once, large ones, old and new calls in turn."""

from __future__ import annotations

import errno
import select
import threading
from collections.abc import Callable

import pytest

from kbus import Announcement, Ksock, Message, MessageId, Request, SendManyError, reply_to
from tests.kernel.calls import TRANSFER, counted
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PATIENCE, fails, fill, ksock_stats, take, texts, wait_until

WAIT = Message.ALL_OR_WAIT
LARGE = [16 * 1024, 100_000, 1_000_000]
"""Bytes that do not fit into the memory that a Ksock begins with; the last is never kept."""


def numbered(count: int, flags: int = 0) -> list[Message]:
    """Messages to $.A that can be told from each other, of several lengths."""
    return [Announcement("$.A", str(number) * (number % 7 + 1), flags=flags) for number in range(count)]


def listener_to_a(ksock: OpenKsock, room: int = 1000) -> Ksock:
    listener = ksock()
    listener.set_max_messages(room)
    listener.bind("$.A")
    return listener


def test_one_system_call_each(ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    with counted(monkeypatch, sender) as calls:
        sender.send_msg(Announcement("$.A"))
        assert calls == [TRANSFER]
        sender.send_many(numbered(100))
        assert calls == [TRANSFER] * 2
    with counted(monkeypatch, listener) as calls:
        for receive in (listener.read_next_msg, listener.wait_for_msg, listener.__next__):
            assert receive() is not None
        assert calls == [TRANSFER] * 3
        assert len(listener.receive_many()) == 98
        assert calls == [TRANSFER] * 4
        sender.write_msg(Announcement("$.A"))
        sender.send()
        assert listener.read_msg(listener.next_msg()) is not None
        assert calls[4:] == [("ioctl", 6), "read"]


def test_a_call_is_one_system_call(ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch) -> None:
    caller, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)

    def answer() -> None:
        request = replier.wait_for_msg()
        assert request is not None
        replier.send_msg(reply_to(request, "yes"))

    with counted(monkeypatch, caller) as calls:
        thread = threading.Thread(target=answer)
        thread.start()
        assert caller.call("$.A", timeout=PATIENCE).data == b"yes"
        thread.join()
        assert calls == [TRANSFER]


# Many at once.


@pytest.mark.rule(16)
@pytest.mark.axiom("order")
@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 700])
def test_many_are_sent_and_received(ksock: OpenKsock, count: int) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    messages = numbered(count)
    ids = sender.send_many(iter(messages))
    received: list[Message] = []
    while len(received) < count:
        received += listener.receive_many(PATIENCE)
    assert [message.id for message in received] == ids == sorted(ids)
    assert [message.data for message in received] == [message.data for message in messages]
    assert listener.receive_many(0) == []


def test_many_of_all_sizes(ksock: OpenKsock) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    sizes = [10, *LARGE, 20, 8000, 8000, *LARGE[:2], 30]
    sender.send_many(Announcement("$.A", bytes(size)) for size in sizes)
    received: list[int] = []
    while len(received) < len(sizes):
        received += [len(message.data or b"") for message in listener.receive_many()]
    assert received == sizes


@pytest.mark.rule(15)
def test_what_cannot_be_sent_stops_the_others(ksock: OpenKsock) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    with pytest.raises(SendManyError) as caught:
        sender.send_many([*numbered(200), Request("$.Nobody"), Announcement("$.A", "after it")])
    assert caught.value.errno == errno.EADDRNOTAVAIL
    assert len(caught.value.sent) == 200
    assert not caught.value.kept
    assert [message.id for _ in range(200) if (message := listener.read_next_msg())] == caught.value.sent
    assert listener.read_next_msg() is None
    with fails(errno.ENOMSG):
        sender.send()


@pytest.mark.rule(22)
def test_one_of_many_is_kept(ksock: OpenKsock) -> None:
    sender, full = ksock(nonblocking=True), listener_to_a(ksock, room=3)
    messages = numbered(5, WAIT)
    with pytest.raises(SendManyError) as caught:
        sender.send_many(messages)
    assert caught.value.errno == errno.EAGAIN
    assert len(caught.value.sent) == 3
    assert caught.value.kept
    with fails(errno.EALREADY):
        sender.send_msg(Announcement("$.A"))
    take(full)
    sent = [*caught.value.sent, sender.send()]
    take(full)
    sent += sender.send_many(messages[4:])
    assert [message.id for message in full] == sent[2:]


def test_nothing_is_sent_if_one_is_no_message(ksock: OpenKsock) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    with pytest.raises(AttributeError):
        sender.send_many([Announcement("$.A"), "no message"])  # type: ignore[list-item]
    assert listener.num_messages() == 0


def test_no_more_than_asked_for(ksock: OpenKsock) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    sender.send_many(numbered(50))
    assert len(listener.receive_many(at_most=1)) == 1
    assert len(listener.receive_many(at_most=20)) == 20
    assert listener.num_messages() == 29
    assert take(listener).data == numbered(22)[21].data
    with pytest.raises(ValueError, match="at_most is 0"):
        listener.receive_many(at_most=0)
    assert len(listener.receive_many(at_most=100)) == 28


@pytest.mark.parametrize("nonblocking", [False, True])
def test_waiting_for_many(ksock: OpenKsock, nonblocking: bool) -> None:
    sender, listener = ksock(), ksock(nonblocking=nonblocking)
    listener.bind("$.A")
    assert listener.receive_many(0.01) == []
    thread = threading.Thread(target=sender.send_many, args=[numbered(3)])
    thread.start()
    assert listener.receive_many(PATIENCE)[0].data == b"0"
    thread.join()


def test_waiting_on_a_nonblocking_ksock(ksock: OpenKsock) -> None:
    sender, listener = ksock(), ksock(nonblocking=True)
    listener.bind("$.A")
    assert listener.wait_for_msg(0.01) is None
    thread = threading.Thread(target=sender.send_msg, args=[Announcement("$.A", "came")])
    thread.start()
    message = listener.wait_for_msg()
    thread.join()
    assert message is not None
    assert message.data == b"came"


def test_calling_on_a_nonblocking_ksock(ksock: OpenKsock) -> None:
    caller, replier = ksock(nonblocking=True), ksock()
    replier.bind("$.A", replier=True)
    with pytest.raises(TimeoutError):
        caller.call("$.A", timeout=0.01)
    take(replier)

    def answer() -> None:
        request = replier.wait_for_msg()
        assert request is not None
        replier.send_msg(reply_to(request, "yes"))

    thread = threading.Thread(target=answer)
    thread.start()
    assert caller.call("$.A").data == b"yes"
    thread.join()


# Nothing is hidden, nothing is lost.


def test_poll_tells_of_what_was_not_returned(ksock: OpenKsock) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    sender.send_many(numbered(4))
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    for receive in (listener.read_next_msg, listener.wait_for_msg, lambda: listener.receive_many(at_most=1)):
        receive()
        assert poll.poll(0) == [(listener.fileno(), select.POLLIN)]
    next(listener)
    assert poll.poll(0) == []


def test_a_call_that_fails_loses_nothing(ksock: OpenKsock) -> None:
    caller, sender = listener_to_a(ksock), ksock()
    sender.send_many(numbered(3))
    with fails(errno.EADDRNOTAVAIL):
        caller.call("$.Nobody")
    assert caller.num_messages() == 3
    assert texts(caller) == [message.data for message in numbered(3)]


def test_many_are_what_was_put_aside_first(ksock: OpenKsock) -> None:
    caller, replier, sender = listener_to_a(ksock), ksock(), ksock()
    replier.bind("$.Fred", replier=True)
    sender.send_many(numbered(3))
    with pytest.raises(TimeoutError):
        caller.call("$.Fred", timeout=1)
    sender.send_msg(Announcement("$.A", "last"))
    assert [message.data for message in caller.receive_many(at_most=2)] == [b"0", b"11"]
    assert [message.data for message in caller.receive_many()] == [b"222"]
    assert [message.data for message in caller.receive_many()] == [b"last"]


@pytest.mark.parametrize("size", LARGE)
def test_large_messages(ksock: OpenKsock, size: int) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    data = bytes(range(256)) * (size // 256)
    for number in range(3):
        sender.send_msg(Announcement("$.A", data))
        sender.send_msg(Announcement("$.A", str(number)))
    receives: list[Callable[[], Message | None]] = [
        listener.read_next_msg,
        listener.wait_for_msg,
        lambda: listener.receive_many(at_most=1)[0],
    ]
    for number, receive in enumerate(receives):
        message = receive()
        assert message is not None
        assert message.data == data
        assert take(listener).data == str(number).encode()
    kept = [len(each.view) for each in sender._transfer._outgoing]
    kept += [len(each.view) for each in listener._transfer._incoming]
    assert kept
    assert max(kept) <= 256 * 1024


@pytest.mark.parametrize("size", LARGE)
def test_calling_amid_large_messages(ksock: OpenKsock, size: int) -> None:
    caller, replier = listener_to_a(ksock), ksock()
    replier.bind("$.Fred", replier=True)
    replier.send_msg(Announcement("$.A", bytes(size)))

    def answer() -> None:
        request = replier.wait_for_msg()
        assert request is not None
        replier.send_msg(reply_to(request, (request.data or b"")[::-1]))

    thread = threading.Thread(target=answer)
    thread.start()
    data = b"ab" * (size // 2)
    assert caller.call("$.Fred", data, PATIENCE).data == data[::-1]
    thread.join()
    assert [len(message.data or b"") for message in caller] == [size]


# Old calls and new ones in turn.


def test_the_old_calls(ksock: OpenKsock) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    sender.write_msg(Announcement("$.A", "old"))
    sent = sender.send()
    message = listener.read_msg(listener.next_msg())
    assert message is not None
    assert (message.id, message.data) == (sent, b"old")


def test_reading_in_turn(ksock: OpenKsock) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    sender.send_many(numbered(6))
    assert take(listener).data == b"0"
    length = listener.next_msg()
    listener.read_data(10)
    assert listener.len_left() == length - 10
    assert take(listener).data == b"222"
    # What was being read is dropped, as by the next next_msg().
    assert listener.len_left() == 0
    assert listener.read_data(100) == b""
    message = listener.read_msg(listener.next_msg())
    assert message is not None
    assert message.data == b"3333"
    assert [message.data for message in listener.receive_many()] == [b"44444", b"555555"]
    assert listener.next_msg() == 0


def test_writing_in_turn(ksock: OpenKsock) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    whole = Announcement("$.A", "in pieces").to_bytes()
    sender.write_data(whole[:30])
    with pytest.raises(BlockingIOError) as caught:
        sender.send_msg(Announcement("$.A", "in between"))
    assert caught.value.errno == errno.EALREADY
    with pytest.raises(SendManyError) as many:
        sender.send_many(numbered(2))
    assert (many.value.errno, many.value.sent, many.value.kept) == (errno.EALREADY, [], False)
    sender.write_data(whole[30:])
    first = sender.send()
    second = sender.send_msg(Announcement("$.A", "after it"))
    assert sender.last_msg_id() == second
    assert [(message.id, message.data) for message in listener] == [
        (first, b"in pieces"),
        (second, b"after it"),
    ]


@pytest.mark.rule(13)
@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Announcement("$.A", bytes(1 << 20)), errno.EMSGSIZE),
        (Announcement("$." + "A" * 999), errno.ENAMETOOLONG),
        (Announcement("$.A*"), errno.EBADMSG),
        (Announcement("$.KBUS.Mine"), errno.EACCES),
        (Announcement("$.A", flags=WAIT | Message.ALL_OR_FAIL), errno.EINVAL),
    ],
)
def test_what_cannot_be_sent_leaves_nothing(ksock: OpenKsock, message: Message, error: int) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    with fails(error):
        sender.send_msg(message)
    with fails(errno.ENOMSG):
        sender.send()
    sent = sender.send_msg(Announcement("$.A"))
    assert take(listener).id == sent


@pytest.mark.rule(22)
def test_a_kept_message_is_in_the_way_until_it_is_discarded(ksock: OpenKsock) -> None:
    sender, full = ksock(nonblocking=True), ksock()
    fill(full, "$.A")
    with fails(errno.EAGAIN):
        sender.send_msg(Announcement("$.A", "kept", flags=WAIT))
    with fails(errno.EALREADY):
        sender.send_msg(Announcement("$.B"))
    with fails(errno.EAGAIN):
        sender.send()
    sender.discard()
    assert ksock_stats(sender)["waiting"] == 0
    sender.send_msg(Announcement("$.B"))
    assert texts(full) == [None]


# Several threads.


@pytest.mark.rule(31)
def test_threads_that_send_with_one_ksock(ksock: OpenKsock) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    sent: list[list[MessageId]] = [[] for _ in range(4)]

    def send(thread: int) -> None:
        for number in range(0, 100, 10):
            sent[thread].append(sender.send_msg(Announcement("$.A", f"{thread} {number}")))
            sent[thread] += sender.send_many(
                Announcement("$.A", f"{thread} {number + i}") for i in range(1, 10)
            )

    threads = [threading.Thread(target=send, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    came = {message.id: message.data for message in listener}
    for index, ids in enumerate(sent):
        assert [came[id] for id in ids] == [f"{index} {number}".encode() for number in range(100)]
    assert len(came) == 400


@pytest.mark.rule(31)
@pytest.mark.axiom("order", "loss")
def test_threads_that_read_with_one_ksock(ksock: OpenKsock) -> None:
    sender, listener = ksock(), listener_to_a(ksock)
    got: list[list[MessageId | None]] = [[] for _ in range(4)]

    def read(mine: list[MessageId | None]) -> None:
        while sum(map(len, got)) < 400:
            if len(mine) % 2:
                mine += [message.id for message in listener.receive_many(0.02, at_most=3)]
            elif message := listener.wait_for_msg(0.02):
                mine.append(message.id)

    threads = [threading.Thread(target=read, args=(mine,)) for mine in got]
    for thread in threads:
        thread.start()
    ids = sender.send_many(numbered(400))
    for thread in threads:
        thread.join()
    assert sorted(id for mine in got for id in mine if id) == ids
    wait_until(lambda: listener.num_messages() == 0, "all is read")
