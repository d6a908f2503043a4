# SPDX-License-Identifier: MIT
"""Ksock as programs use it: what its methods take, return and raise, against the real module."""

from __future__ import annotations

import errno
import math
import os
import select
import signal
import struct
import threading
from collections.abc import Callable

import pytest

from kbus import (
    Announcement,
    Ksock,
    Message,
    MessageId,
    Request,
    read_bindings,
    reply_to,
    split_replier_bind_event_data,
)
from tests.kernel.conftest import NewDevice, OpenKsock
from tests.kernel.helpers import PATIENCE, fails, fill, handler, ksock_stats, stats_lines, take, wait_until

# Opening and closing.


def test_a_with_block_closes(ksock: OpenKsock) -> None:
    watcher = ksock()
    with Ksock() as inside:
        inside.bind("$.Fred")
        assert read_bindings({}) == [(inside.ksock_id(), False, "$.Fred")]
    assert inside.fd is None
    assert read_bindings({}) == []
    assert watcher.ksock_id() < inside.ksock_id()


def test_close_can_be_repeated() -> None:
    closed = Ksock()
    closed.close()
    closed.close()
    assert closed.fd is None


@pytest.mark.parametrize(
    "method",
    [
        Ksock.fileno,
        Ksock.next_msg,
        Ksock.read_next_msg,
        Ksock.wait_for_msg,
        Ksock.send,
        Ksock.discard,
        Ksock.num_messages,
        Ksock.lost_messages,
        lambda closed: closed.bind("$.Fred"),
        lambda closed: closed.send_msg(Announcement("$.Fred")),
        lambda closed: closed.peer(1),
        lambda closed: closed.send_many([]),
        Ksock.__enter__,
    ],
)
def test_a_closed_ksock_says_so(method: Callable[[Ksock], object]) -> None:
    closed = Ksock()
    closed.close()
    with pytest.raises(ValueError, match="closed file"):
        method(closed)


def test_a_ksock_never_closed_is_warned_of_and_closed() -> None:
    forgotten = Ksock()
    key = ("ksock", 0, forgotten.ksock_id())
    assert key in dict(stats_lines())
    expected = f"unclosed <Ksock device 0, id {forgotten.ksock_id()}, mode read/write>"
    with pytest.warns(ResourceWarning, match=expected):
        del forgotten
    assert key not in dict(stats_lines())


def test_what_it_shows(ksock: OpenKsock) -> None:
    reader = ksock(mode="r")
    assert repr(reader) == f"<Ksock device 0, id {reader.ksock_id()}, mode read>"
    reader.close()
    assert repr(reader) == f"<Ksock device 0, id {reader.ksock_id()}, mode read, closed>"


def test_fd_is_the_open_file(ksock: OpenKsock) -> None:
    opened = ksock()
    assert opened.fd
    assert opened.fd.fileno() == opened.fileno()
    assert opened.fd.name == "/dev/kbus0"
    assert not os.get_inheritable(opened.fileno())


def test_nonblocking_is_a_flag_of_the_open_file(ksock: OpenKsock) -> None:
    assert os.get_blocking(ksock().fileno())
    assert not os.get_blocking(ksock(nonblocking=True).fileno())


def test_a_reader_cannot_send(ksock: OpenKsock) -> None:
    reader = ksock(mode="r")
    reader.bind("$.Fred")
    with fails(errno.EBADF):
        reader.send_msg(Announcement("$.Fred"))


# Sending and reading.


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 1000])
def test_data_of_every_length_arrives_exactly(ksock: OpenKsock, length: int) -> None:
    sender, listener = ksock(), ksock()
    listener.bind("$.Fred")
    data = bytes(range(256)) * 4
    sender.send_msg(Announcement("$.Fred", data[:length], flags=0x10000))
    message = take(listener)
    assert (message.data or b"") == data[:length]
    assert message.flags == 0x10000
    assert type(message) is Message


def test_send_tells_the_id(ksock: OpenKsock) -> None:
    sender, listener = ksock(), ksock()
    listener.bind("$.Fred")
    assert sender.last_msg_id() == MessageId(0, 0)
    sent = sender.send_msg(Announcement("$.Fred"))
    assert sent == sender.last_msg_id()
    message = take(listener)
    assert message.id == sent
    assert message.from_ == sender.ksock_id()


def test_a_message_in_pieces(ksock: OpenKsock) -> None:
    sender, listener = ksock(), ksock()
    listener.bind("$.Fred")
    whole = Announcement("$.Fred", b"12345678").to_bytes()
    for start in range(0, len(whole), 7):
        sender.write_data(whole[start : start + 7])
    sent = sender.send()
    assert listener.len_left() == 0
    length = listener.next_msg()
    assert length == len(whole) == listener.len_left()
    first = listener.read_data(10)
    assert listener.len_left() == length - 10
    message = Message.from_bytes(first + listener.read_data(length))
    assert message == Message("$.Fred", b"12345678", from_=sender.ksock_id(), id=sent)
    assert listener.read_data(1) == b""


def test_nothing_to_read(ksock: OpenKsock) -> None:
    listener = ksock()
    assert listener.next_msg() == 0
    assert listener.len_left() == 0
    assert listener.read_msg(100) is None
    assert listener.read_next_msg() is None
    assert list(listener) == []
    with pytest.raises(StopIteration):
        next(listener)


def test_iteration_gives_what_is_queued(ksock: OpenKsock) -> None:
    sender, listener = ksock(), ksock()
    listener.bind("$.*")
    for name in ("$.A", "$.B", "$.C"):
        sender.send_msg(Announcement(name))
    assert next(listener).name == "$.A"
    assert listener.num_messages() == 2
    assert [message.name for message in listener] == ["$.B", "$.C"]
    assert listener.num_messages() == 0


def test_discard(ksock: OpenKsock) -> None:
    sender = ksock()
    sender.write_msg(Announcement("$.Fred"))
    sender.discard()
    with fails(errno.ENOMSG):
        sender.send()


def test_a_message_that_cannot_be_written_leaves_nothing(ksock: OpenKsock) -> None:
    sender = ksock()
    with fails(errno.EMSGSIZE):
        sender.write_msg(Announcement("$.Fred", bytes(sender.max_message_size())))
    with fails(errno.ENOMSG):
        sender.send()


def test_no_wait_for_what_is_queued(ksock: OpenKsock) -> None:
    sender, listener = ksock(), ksock()
    listener.bind("$.Fred")
    sender.send_msg(Announcement("$.Fred"))
    message = listener.wait_for_msg(timeout=0)
    assert message is not None
    assert message.name == "$.Fred"


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_waiting_in_vain(ksock: OpenKsock, timeout: float) -> None:
    assert ksock().wait_for_msg(timeout) is None


@pytest.mark.parametrize("timeout", [None, PATIENCE, 30 * 24 * 3600, 1e12, math.inf])
def test_waiting_for_a_message(ksock: OpenKsock, timeout: float) -> None:
    sender, listener = ksock(), ksock()
    listener.bind("$.Fred")
    thread = threading.Thread(target=sender.send_msg, args=[Announcement("$.Fred")])
    thread.start()
    message = listener.wait_for_msg(timeout)
    thread.join()
    assert message is not None
    assert message.name == "$.Fred"
    thread = threading.Thread(target=sender.send_msg, args=[Announcement("$.Fred")])
    thread.start()
    assert [message.name for message in listener.receive_many(timeout)] == ["$.Fred"]
    thread.join()


# Full queues.


@pytest.mark.rule(22)
def test_a_nonblocking_send_can_be_repeated(ksock: OpenKsock) -> None:
    sender, listener = ksock(nonblocking=True), ksock()
    fill(listener, "$.Fred")
    with pytest.raises(BlockingIOError) as caught:
        sender.send_msg(Announcement("$.Fred", flags=Message.ALL_OR_WAIT))
    assert caught.value.errno == errno.EAGAIN
    with fails(errno.EALREADY):
        sender.write_msg(Announcement("$.Other"))
    take(listener)
    poll = select.poll()
    poll.register(sender, select.POLLOUT)
    assert poll.poll(PATIENCE * 1000) == [(sender.fileno(), select.POLLOUT)]
    sent = sender.send()
    assert take(listener).id == sent


@pytest.mark.rule(22)
def test_send_goes_on_after_a_signal(ksock: OpenKsock) -> None:
    sender, listener = ksock(), ksock()
    fill(listener, "$.Fred")
    main = threading.get_ident()

    def interrupt_then_make_room() -> None:
        wait_until(lambda: ksock_stats(sender)["waiting"] == 1, "SEND waits")
        signal.pthread_kill(main, signal.SIGUSR1)
        wait_until(lambda: came == [signal.SIGUSR1], "the signal has been handled")
        take(listener)

    with handler(signal.SIGUSR1, restart=False) as came:
        helper = threading.Thread(target=interrupt_then_make_room)
        helper.start()
        sent = sender.send_msg(Announcement("$.Fred", flags=Message.ALL_OR_WAIT))
        helper.join()
    assert came == [signal.SIGUSR1]
    assert take(listener).id == sent


@pytest.mark.rule(23)
def test_lost_messages(ksock: OpenKsock) -> None:
    sender, listener = ksock(), ksock()
    assert listener.lost_messages() == 0
    assert listener.report_lost_messages() is False
    assert listener.report_lost_messages(just_ask=True) is True
    fill(listener, "$.Fred")
    for _ in range(3):
        sender.send_msg(Announcement("$.Fred"))
    assert listener.lost_messages() == 3
    take(listener)
    report = take(listener)
    assert report.name == "$.KBUS.MessagesLost"
    assert report.data == struct.pack("=I", 3)
    assert listener.report_lost_messages(False) is True
    assert listener.report_lost_messages(just_ask=True) is False


@pytest.mark.axiom("loss")
def test_a_message_that_can_not_be_written_drops_no_other(ksock: OpenKsock) -> None:
    sender, listener = ksock(nonblocking=True), ksock()
    listener.bind("$.Fred")
    listener.set_max_messages(1)
    sender.send_msg(Announcement("$.Fred", "first"))
    with pytest.raises(BlockingIOError):
        sender.send_msg(Announcement("$.Fred", "kept", flags=Message.ALL_OR_WAIT))
    with pytest.raises(OSError):
        sender.write_msg(Announcement("$.Fred", bytes(2 << 20)))
    assert take(listener).data == b"first"
    sender.send()
    assert take(listener).data == b"kept"


def test_queue_length(ksock: OpenKsock) -> None:
    opened = ksock()
    assert opened.max_messages() == 100
    assert opened.set_max_messages(7) == 7
    assert opened.max_messages() == 7
    assert opened.set_max_messages(0) == 7
    with pytest.raises(ValueError, match="argument is -1"):
        opened.set_max_messages(-1)


# Repliers.


def test_finding_repliers(ksock: OpenKsock) -> None:
    replier, asker = ksock(), ksock(mode="r")
    assert asker.find_replier("$.Fred.*") is None
    assert asker.resolve("$.Fred.Jim") is None
    replier.bind("$.Fred.*", replier=True)
    assert asker.find_replier("$.Fred.*") == replier.ksock_id()
    assert asker.find_replier("$.Fred.Jim") is None
    assert asker.resolve("$.Fred.Jim") == replier.ksock_id()


def test_names_of_bindings(ksock: OpenKsock) -> None:
    named, unnamed = ksock(), ksock()
    named.bind("$.Fred", replier=True)
    unnamed.bind("$.*")
    found = read_bindings({named.ksock_id(): "named"})
    assert found == [(unnamed.ksock_id(), False, "$.*"), ("named", True, "$.Fred")]


def test_unreplied_to(ksock: OpenKsock) -> None:
    requester, replier = ksock(), ksock()
    replier.bind("$.Fred", True)
    requester.send_msg(Request("$.Fred"))
    assert replier.num_unreplied_to() == 0
    request = take(replier)
    assert replier.num_unreplied_to() == 1
    replier.send_msg(reply_to(request))
    assert replier.num_unreplied_to() == 0
    assert take(requester).is_reply()


@pytest.mark.rule(32)
def test_bind_events(ksock: OpenKsock) -> None:
    listener, replier = ksock(), ksock()
    listener.bind("$.KBUS.ReplierBindEvent")
    assert listener.report_replier_binds() is False
    replier.bind("$.Fred", True)
    replier.unbind("$.Fred", True)
    assert listener.report_replier_binds(False) is True
    assert listener.report_replier_binds(just_ask=True) is False
    events = [split_replier_bind_event_data(event.data) for event in listener]
    assert events == [(True, replier.ksock_id(), "$.Fred"), (False, replier.ksock_id(), "$.Fred")]


# Switches, limits, and the others.


def test_messages_once(ksock: OpenKsock) -> None:
    listener = ksock()
    assert listener.want_messages_once(True) is False
    assert listener.want_messages_once(just_ask=True) is True
    assert listener.want_messages_once() is True
    assert listener.want_messages_once(True, just_ask=True) is False
    assert listener.want_messages_once(just_ask=True) is False


def test_verbose(ksock: OpenKsock) -> None:
    opened = ksock()
    before = opened.kernel_module_verbose(just_ask=True)
    assert opened.kernel_module_verbose(not before) is before
    assert opened.kernel_module_verbose(before) is not before
    assert opened.kernel_module_verbose(just_ask=True) is before


def test_message_size(ksock: OpenKsock) -> None:
    opened = ksock()
    before = opened.max_message_size()
    assert opened.set_max_message_size(1) >= before
    assert opened.max_message_size() == before
    assert opened.set_max_message_size(200) == 200
    assert opened.max_message_size() == 200
    assert opened.set_max_message_size(before) == before


@pytest.mark.rule(36)
def test_peer(ksock: OpenKsock) -> None:
    asker, other = ksock(), ksock()
    assert asker.peer(other.ksock_id()) == (other.ksock_id(), os.getpid(), os.geteuid(), os.getegid())
    other.close()
    with pytest.raises(ProcessLookupError) as caught:
        asker.peer(other.ksock_id())
    assert caught.value.errno == errno.ESRCH


def test_a_new_device(new_device: NewDevice) -> None:
    number = new_device()
    wait_until(lambda: os.path.exists(f"/dev/kbus{number}"), "the node of the new device is there")
    with Ksock(number) as there:
        assert there.which == number
        assert there.ksock_id() == 1
