# SPDX-License-Identifier: MIT
"""TRANSFER: many messages in and out with one call."""

from __future__ import annotations

import errno
import os
import select
import signal
import threading
import time

import pytest

from kbus import Announcement, Ksock
from tests.kernel import raw, transfer
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import (
    IOCTL,
    blocked_in,
    device_stats,
    fails,
    fill,
    handler,
    ksock_stats,
    packets,
    take,
    wait_until,
)
from tests.kernel.processes import Polling
from tests.kernel.room import waiting
from tests.kernel.test_call_and_serve import meanwhile
from tests.kernel.transfer import NEVER, NOW, Transfer, pack, soon

pytestmark = pytest.mark.abi("TRANSFER")

A = raw.message(b"$.A")
REQUEST = raw.message(b"$.A", flags=raw.WANT_A_REPLY)


def sized(number: int, words: int = 1) -> bytes:
    """A message to $.A that can be told from others, with so many words of data."""
    return raw.message(b"$.A", number.to_bytes(4, "little") * words)


@pytest.fixture
def listener(ksock: OpenKsock) -> Ksock:
    """A KSock that is bound to $.A."""
    one = ksock()
    one.bind("$.A")
    return one


@pytest.mark.rule(14, 15, 16)
@pytest.mark.axiom("order")
def test_messages_are_sent_in_order(ksock: OpenKsock, listener: Ksock) -> None:
    sender = ksock()
    messages = [sized(number, number % 5) for number in range(40)]
    done = transfer.send(sender, *messages)
    assert (done.sent, done.error, done.to_send, done.kept) == (40, 0, b"", 0)
    received = packets(listener)
    assert [packet.data for packet in received] == [raw.parse(message).data for message in messages]
    assert [packet.id for packet in received] == done.ids
    assert [packet.from_ for packet in received] == [sender.ksock_id()] * 40
    assert raw.msg_id(sender, "LASTSENT") == done.ids[-1]


@pytest.mark.rule(17, 18)
@pytest.mark.axiom("order", "urgency")
def test_messages_are_received_in_the_order_of_the_queue(ksock: OpenKsock, listener: Ksock) -> None:
    sender = ksock()
    for number in range(50):
        raw.send(sender, sized(number, number % 5))
    raw.send(sender, raw.message(b"$.A", b"now!", flags=raw.URGENT))
    done = transfer.receive(listener)
    expected = [b"now!", *(raw.parse(sized(number, number % 5)).data for number in range(50))]
    assert [raw.parse(packet).data for packet in done.packets] == expected
    assert (done.received, done.queued, done.next_len, done.lost) == (51, 0, 0, 0)
    assert ksock_stats(listener)["received"] == 51
    assert ksock_stats(listener)["bytes"] == 0


@pytest.mark.parametrize("length", [0, 1, 500, 511, 512, *range(994, 1004), 1500, 2022, 20_000])
def test_a_message_is_the_same_whichever_way_it_goes(ksock: OpenKsock, listener: Ksock, length: int) -> None:
    message = raw.message(b"$.A", os.urandom(4 * length), flags=0xABC0_0000 & 0x3FFF_0000)
    sender = ksock()
    transfer.send(sender, message)
    raw.send(sender, message)
    (first,) = transfer.receive(listener, room=len(message)).packets
    second = raw.receive(listener)
    assert first[12:] == second[12:]
    assert raw.parse(first).data == raw.parse(message).data
    assert raw.parse(first).flags == raw.parse(message).flags


@pytest.mark.rule(24, 25)
@pytest.mark.axiom("answer")
def test_a_request_and_its_answer_are_a_call_each(ksock: OpenKsock) -> None:
    asker, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    answers: list[Transfer] = []
    thread = threading.Thread(
        target=lambda: answers.append(Transfer(REQUEST, deadline=NEVER).call(asker)), daemon=True
    )
    thread.start()
    asked = transfer.receive(replier, deadline=NEVER)
    request = raw.parse(asked.packets[0])
    assert request.flags & raw.WANT_YOU_TO_REPLY
    assert ksock_stats(replier)["unreplied"] == 1
    reply = raw.message(b"$.A", b"yes.", to=request.from_, in_reply_to=request.id)
    done = Transfer(reply, deadline=soon(0.01)).call(replier)
    assert (done.sent, done.error, done.received) == (1, 0, 0)
    thread.join()
    assert answers[0].ids == [request.id]
    assert [raw.parse(packet).data for packet in answers[0].packets] == [b"yes."]


@pytest.mark.axiom("answer")
def test_whenever_a_message_comes_it_ends_the_wait(ksock: OpenKsock) -> None:
    """Between the look into the queue and the sleep, too: a call without an end always brings something."""
    asker, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    rounds = 1000

    def answer() -> None:
        (packet,) = transfer.receive(replier, deadline=NEVER).packets
        for _ in range(rounds):
            request = raw.parse(packet)
            reply = raw.message(b"$.A", to=request.from_, in_reply_to=request.id)
            (packet,) = Transfer(reply, deadline=NEVER).call(replier).packets

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    for _ in range(rounds):
        assert Transfer(REQUEST, deadline=NEVER).call(asker).received == 1
    transfer.send(asker, REQUEST)
    thread.join()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (raw.message(b"$.A", start=1), "EINVAL"),
        (raw.message(b"$.A", end=1), "EINVAL"),
        (A[:-4], "EINVAL"),
        (A[:20], "EINVAL"),
        (raw.message(b"$.A", name_len=1001), "ENAMETOOLONG"),
        (raw.message(b"$.A", data_len=1 << 29), "EMSGSIZE"),
        (raw.message(b"$.A*"), "EBADMSG"),
        (raw.message(b"$.*"), "EBADMSG"),
        (raw.message(b"$.KBUS.Mine"), "EACCES"),
        (raw.message(b"$.B", flags=raw.WANT_A_REPLY), "EADDRNOTAVAIL"),
        (raw.message(b"$.A", in_reply_to=(0, 77)), "ECONNREFUSED"),
    ],
)
def test_what_cannot_be_sent_stops_what_comes_after(
    ksock: OpenKsock, listener: Ksock, wrong: bytes, error: str
) -> None:
    """Those before it stay sent, and it can be passed over. What is queued is received without waiting."""
    both = ksock()
    both.bind("$.A")
    done = Transfer(pack(sized(1), wrong, sized(2)), deadline=NEVER).call(both)
    assert (done.sent, errno.errorcode[done.error], done.kept) == (1, error, 0)
    assert done.to_send == pack(wrong, sized(2))
    assert [raw.parse(packet).data for packet in done.packets] == [b"\1\0\0\0"]
    done.to_send = done.to_send[len(pack(wrong, b"")) :]
    done.call(both)
    assert (done.sent, done.error) == (1, 0)
    assert [packet.data for packet in packets(listener)] == [b"\1\0\0\0", b"\2\0\0\0"]


@pytest.mark.rule(15)
def test_what_cannot_be_sent_is_no_reason_to_wait_for_messages(ksock: OpenKsock) -> None:
    with meanwhile(lambda: Transfer(raw.message(b"$.?"), deadline=NEVER).call(ksock())):
        pass


@pytest.mark.rule(22, 30)
@pytest.mark.parametrize(
    "refused",
    [
        raw.message(b"$.*"),
        raw.message(b"$.Full", flags=raw.ALL_OR_FAIL),
        raw.message(b"$.Full", flags=raw.ALL_OR_WAIT),
        # Before a Request they are woken in any case.
        raw.message(b"$.B", flags=raw.WANT_A_REPLY),
    ],
    ids=["no name", "no room", "kept", "no replier"],
)
def test_readers_are_woken_for_what_was_sent_before_a_failure(
    ksock: OpenKsock, listener: Ksock, refused: bytes
) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.Full")
    polling = Polling(listener, select.POLLIN)
    done = transfer.send(sender, A, refused)
    assert done.sent == 1
    assert errno.errorcode[done.error] in ("EBADMSG", "EBUSY", "EADDRNOTAVAIL", "EAGAIN")
    assert polling.result() == select.POLLIN


@pytest.mark.rule(15)
def test_a_message_that_is_being_written_stays(ksock: OpenKsock, listener: Ksock) -> None:
    sender = ksock()
    os.write(sender.fileno(), A[:20])
    done = transfer.send(sender, A)
    assert (done.sent, done.error, done.to_send) == (0, errno.EALREADY, A)
    os.write(sender.fileno(), A[20:])
    sender.send()
    assert transfer.send(sender, A).sent == 1
    assert len(packets(listener)) == 2


def test_a_message_that_is_being_read_stays(ksock: OpenKsock, listener: Ksock) -> None:
    sender = ksock()
    sender.send_msg(Announcement("$.A", b"read"))
    sender.send_msg(Announcement("$.A", b"more"))
    length = listener.next_msg()
    begun = os.read(listener.fileno(), 10)
    assert [raw.parse(packet).data for packet in transfer.receive(listener).packets] == [b"more"]
    assert raw.parse(begun + os.read(listener.fileno(), length)).data == b"read"


def test_what_does_not_fit_stays_queued(ksock: OpenKsock, listener: Ksock) -> None:
    sender = ksock()
    small, large = sized(1), sized(2, 100)
    transfer.send(sender, small, large, small)
    step = len(pack(small, b""))
    for room in (step, step + len(large) - 1):
        done = transfer.receive(listener, room, NEVER)
        assert (done.received, done.queued, done.next_len) == (1, 2, len(large))
        # The next one does not fit, and waiting would not help.
        done = transfer.receive(listener, step, NEVER)
        assert (done.received, done.queued, done.next_len) == (0, 2, len(large))
        done = transfer.receive(listener, len(large) + step)
        assert (done.received, done.queued, done.next_len) == (2, 0, 0)
        transfer.send(sender, small, large, small)


@pytest.mark.parametrize("most", [1, 2, 15, 16, 17, 39])
def test_no_more_than_are_wanted(ksock: OpenKsock, listener: Ksock, most: int) -> None:
    messages = [sized(number, number % 5) for number in range(40)]
    transfer.send(ksock(), *messages)
    first = Transfer(receive_max=most, deadline=NEVER).call(listener)
    assert (first.received, first.queued, first.next_len) == (most, 40 - most, len(messages[most]))
    rest = Transfer(receive_max=41).call(listener)
    assert [raw.parse(packet).data for packet in first.packets + rest.packets] == [
        raw.parse(message).data for message in messages
    ]


@pytest.mark.rule(23)
@pytest.mark.axiom("loss")
def test_it_tells_how_many_were_lost(ksock: OpenKsock, listener: Ksock) -> None:
    listener.set_max_messages(3)
    transfer.send(ksock(), *[A] * 10)
    done = transfer.receive(listener)
    assert (done.received, done.lost) == (3, 7)


@pytest.mark.rule(23)
def test_room_that_it_makes_is_reported_in(ksock: OpenKsock, listener: Ksock) -> None:
    listener.set_max_messages(2)
    listener.report_lost_messages(True)
    transfer.send(ksock(), *[A] * 5)
    assert transfer.receive(listener).received == 2
    (report,) = transfer.receive(listener).packets
    assert raw.parse(report).name == b"$.KBUS.MessagesLost"


def test_it_waits_until_the_deadline(ksock: OpenKsock) -> None:
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    done = transfer.receive(ksock(), deadline=begin + 50_000_000)
    assert time.clock_gettime_ns(time.CLOCK_MONOTONIC) >= begin + 50_000_000
    assert done.received == 0


@pytest.mark.parametrize("deadline", [NOW, 1, soon(-1)], ids=["now", "long ago", "just now"])
def test_a_deadline_that_has_passed_is_no_wait(ksock: OpenKsock, deadline: int) -> None:
    assert transfer.receive(ksock(), deadline=deadline).received == 0


def test_o_nonblock_is_no_wait(ksock: OpenKsock) -> None:
    assert transfer.receive(ksock(nonblocking=True), deadline=NEVER).received == 0


def test_with_nothing_to_send_and_no_room_it_tells_how_things_are(ksock: OpenKsock, listener: Ksock) -> None:
    raw.send(ksock(), A)
    done = Transfer(room=0, deadline=NEVER).call(listener)
    assert (done.sent, done.received, done.queued, done.next_len) == (0, 0, 1, len(A))


@pytest.mark.rule(22)
def test_all_or_wait_waits_for_room(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    results: list[Transfer] = []
    thread = threading.Thread(
        target=lambda: results.append(
            transfer.send(sender, waiting(b"one."), waiting(b"two."), deadline=NEVER)
        ),
        daemon=True,
    )
    thread.start()
    for text in (b"", b"one."):
        # Right after the one before it was read, that one's successor still waits, and nothing is queued.
        wait_until(lambda: device_stats()["waiting"] == full.num_messages() == 1, "a message waits")
        assert raw.parse(raw.receive(full)).data == text
    thread.join()
    assert results[0].sent == 2
    assert [packet.data for packet in packets(full)] == [b"two."]


@pytest.mark.rule(22)
@pytest.mark.parametrize("deadline", [NOW, 1, None])
def test_a_message_that_waits_is_kept(ksock: OpenKsock, deadline: int | None) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    to_send = pack(waiting(b"one."), waiting(b"two."))
    done = Transfer(to_send, room=0, deadline=soon(0.05) if deadline is None else deadline).call(sender)
    assert (done.sent, done.error, done.kept) == (0, errno.EAGAIN, 1)
    assert done.to_send == waiting(b"two.")
    assert device_stats()["waiting"] == 1
    # Called again with what came back it goes on, and can do nothing yet.
    done.deadline = NOW
    assert done.call(sender).kept == 1
    raw.receive(full)
    done.call(sender)
    assert (done.sent, done.error, done.kept) == (1, errno.EAGAIN, 1)
    assert [packet.data for packet in packets(full)] == [b"one."]
    done.call(sender)
    assert (done.sent, done.error, done.kept) == (1, 0, 0)
    assert [packet.data for packet in packets(full)] == [b"two."]
    done.kept = 1
    done.call(sender)
    assert (done.sent, done.error, done.kept) == (0, errno.ENOMSG, 0)


@pytest.mark.rule(22)
def test_what_is_kept_is_sent_by_send_too(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    transfer.send(sender, waiting(b"one."))
    assert transfer.send(sender, A).error == errno.EALREADY
    raw.receive(full)
    sender.send()
    assert [packet.data for packet in packets(full)] == [b"one."]


@pytest.mark.rule(22)
def test_what_is_kept_and_refused_is_not_at_send(ksock: OpenKsock) -> None:
    """The error is that of the message that was kept, also when there is no place for what is received."""
    for addresses in ({}, {"receive": 8}):
        full, sender = ksock(), ksock()
        sender.bind("$.B")
        fill(full)
        full.bind("$.A", replier=True)
        request = raw.message(b"$.A", flags=raw.WANT_A_REPLY | raw.ALL_OR_WAIT)
        done = Transfer(pack(request, A), room=0).call(sender)
        assert (done.sent, done.error, done.kept, done.to_send) == (0, errno.EAGAIN, 1, A)
        raw.send(ksock(), raw.message(b"$.B"))
        full.unbind("$.A", replier=True)
        done.room = 100
        done.call(sender, addresses)
        assert (done.sent, done.error, done.kept) == (0, errno.EADDRNOTAVAIL, 0)
        assert done.to_send == A
        assert done.received == (0 if addresses else 1)
        done.call(sender)
        assert (done.sent, done.error, done.to_send) == (1, 0, b"")


@pytest.mark.rule(13, 22)
def test_what_another_thread_discards_is_not_at_send(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    to_send = pack(waiting(b"one."), A)
    results: list[Transfer] = []
    thread = threading.Thread(
        target=lambda: results.append(Transfer(to_send, room=0, deadline=NEVER).call(sender)), daemon=True
    )
    thread.start()
    wait_until(lambda: device_stats()["waiting"] == 1, "the message waits")
    wait_until(lambda: blocked_in(thread.native_id or 0, IOCTL), "its sender sleeps")
    raw.command(sender, "DISCARD")
    thread.join()
    (done,) = results
    assert (done.sent, done.error, done.kept, done.to_send) == (0, errno.ENOMSG, 0, A)


def test_a_signal_ends_a_long_call(ksock: OpenKsock) -> None:
    """What has been sent is told, and the next call goes on with the rest."""
    sender = ksock()
    count = 20_000
    done = Transfer(pack(*[A] * count), room=0)
    with handler(signal.SIGALRM, restart=True):
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            done.call(sender, {"ids": 0})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    assert (done.error, done.kept) == (errno.EINTR, 0)
    assert 0 < done.sent < count
    sent = done.sent
    done.call(sender, {"ids": 0})
    assert (sent + done.sent, done.error, done.to_send) == (count, 0, b"")


@pytest.mark.parametrize("restart", [True, False])
def test_a_signal_ends_the_wait_or_is_not_noticed(ksock: OpenKsock, listener: Ksock, restart: bool) -> None:
    main = threading.main_thread()
    assert threading.current_thread() is main
    with handler(signal.SIGUSR1, restart) as came:

        def disturb() -> None:
            wait_until(lambda: blocked_in(main.native_id or 0, IOCTL), "the test sleeps in TRANSFER")
            os.kill(os.getpid(), signal.SIGUSR1)
            if restart:
                time.sleep(0.05)
                raw.send(sender, A)

        sender = ksock()
        thread = threading.Thread(target=disturb, daemon=True)
        thread.start()
        if restart:
            assert transfer.receive(listener, deadline=NEVER).received == 1
        else:
            done = Transfer(raw.message(b"$.B"), deadline=soon(20)).call(listener)
            # Something was done, so that is told.
            assert (done.sent, done.received) == (1, 0)
        thread.join()
        assert came


@pytest.mark.rule(8)
def test_what_the_descriptor_must_be_open_for(ksock: OpenKsock, write_only: raw.Descriptor) -> None:
    with fails(errno.EBADF):
        Transfer(A, room=0).call(ksock(mode="r"))
    with fails(errno.EBADF):
        Transfer(room=0, kept=1).call(ksock(mode="r"))
    with fails(errno.EBADF):
        Transfer(room=1).call(write_only)
    assert transfer.send(write_only, A).sent == 1
    assert transfer.receive(ksock(mode="r")).received == 0


def test_wrong_arguments(ksock: OpenKsock) -> None:
    with fails(errno.EINVAL):
        Transfer(kept=2).call(ksock())


@pytest.mark.parametrize("word", range(6))
@pytest.mark.parametrize("value", [1, 1 << 31])
def test_flags_and_reserved_words_must_be_zero(listener: Ksock, word: int, value: int) -> None:
    """Nothing is sent or received; and it is said before what the descriptor is open for."""
    listener.send_msg(Announcement("$.A"))
    reserved = tuple(value if each == word else 0 for each in range(6))
    with fails(errno.EINVAL):
        Transfer(A, reserved=reserved).call(listener)
    assert ksock_stats(listener)["queued"] == 1
    with Ksock(mode="r") as reader, fails(errno.EINVAL):
        Transfer(A, reserved=reserved).call(reader)


@pytest.mark.axiom("loss")
def test_bad_addresses_lose_nothing(ksock: OpenKsock, listener: Ksock) -> None:
    sender = ksock()
    done = Transfer(A, room=0).call(sender, {"send": 8})
    assert (done.sent, done.error) == (0, errno.EFAULT)
    # Without a place for their ids they are not sent.
    done = Transfer(pack(A, A), room=0).call(sender, {"ids": 8})
    assert (done.sent, done.error, done.to_send) == (0, errno.EFAULT, pack(A, A))
    assert Transfer(pack(A, A), room=0).call(sender, {"ids": 0}).sent == 2
    with fails(errno.EFAULT):
        Transfer().call(listener, {"receive": 8})
    assert len(transfer.receive(listener).packets) == 2


@pytest.mark.axiom("loss")
def test_a_kept_message_that_has_no_place_for_its_id_stays_kept(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    full.bind("$.A")
    full.set_max_messages(1)
    raw.send(sender, A)
    done = transfer.send(sender, waiting(b"kept"))
    assert (done.sent, done.kept) == (0, 1)
    take(full)
    done = Transfer(kept=1, room=0).call(sender, {"ids": 8})
    assert (done.sent, done.error, done.kept) == (0, errno.EFAULT, 1)
    assert full.num_messages() == 0
    done = Transfer(kept=1, room=0).call(sender)
    assert (done.sent, done.kept) == (1, 0)
    assert take(full).data == b"kept"


def timed(ksock: Ksock, room: int = 1 << 16) -> Transfer:
    """What is queued, and when that was."""
    return Transfer(room=room, timed=True).call(ksock)


def test_times_are_those_of_queueing(ksock: OpenKsock, listener: Ksock) -> None:
    sender = ksock()
    raw.send(sender, sized(1))
    assert timed(listener).times == [0]
    bounds = [time.monotonic_ns()]
    # More than one batch
    for number in range(70):
        raw.send(sender, sized(number))
        bounds.append(time.monotonic_ns())
    times = timed(listener).times
    assert len(times) == 70
    assert all(begin <= at <= end for begin, at, end in zip(bounds, times, bounds[1:]))


def test_a_message_has_one_time_for_all(ksock: OpenKsock, listener: Ksock) -> None:
    late, never, sender = ksock(), ksock(), ksock()
    late.bind("$.*")
    never.bind("$.*")
    assert timed(listener).times == []
    raw.send(sender, A)
    (at,) = timed(listener).times
    assert at > 0
    assert timed(late).times == [at]
    assert transfer.receive(never).received == 1


@pytest.mark.axiom("order")
def test_an_urgent_message_has_its_own_time(ksock: OpenKsock, listener: Ksock) -> None:
    sender = ksock()
    assert timed(listener).times == []
    raw.send(sender, raw.message(b"$.A", b"late"))
    raw.send(sender, raw.message(b"$.A", b"soon", flags=raw.URGENT))
    done = timed(listener)
    assert [raw.parse(packet).data for packet in done.packets] == [b"soon", b"late"]
    assert done.times[0] > done.times[1]


@pytest.mark.rule(22)
def test_the_time_of_a_message_that_waited_is_when_there_was_room(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    assert timed(full, room=0).times == []
    assert Transfer(waiting(b"one."), room=0).call(sender).kept == 1
    transfer.receive(full)
    before = time.monotonic_ns()
    assert Transfer(room=0, kept=1).call(sender).sent == 1
    assert before <= timed(full).times[0] <= time.monotonic_ns()


def test_what_kbus_makes_has_a_time(ksock: OpenKsock, listener: Ksock) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    listener.set_max_messages(1)
    listener.report_lost_messages(True)
    assert timed(listener).times == timed(sender).times == []
    before = time.monotonic_ns()
    raw.send(sender, raw.message(b"$.A", flags=raw.WANT_A_REPLY))
    raw.send(sender, A)
    replier.close()
    (status,) = timed(sender).times
    (copy,) = timed(listener).times
    report = timed(listener)
    assert raw.parse(report.packets[0]).name == b"$.KBUS.MessagesLost"
    assert before <= copy <= status <= report.times[0] <= time.monotonic_ns()


@pytest.mark.axiom("loss")
def test_a_bad_place_for_times_loses_nothing(ksock: OpenKsock, listener: Ksock) -> None:
    sender = ksock()
    raw.send(sender, A)
    with fails(errno.EFAULT):
        Transfer().call(listener, {"times": 8})
    raw.send(sender, A)
    done = timed(listener)
    assert done.received == 2
    assert done.times[0] == 0 < done.times[1]


@pytest.mark.axiom("order", "loss")
def test_two_readers_and_two_senders_at_once(ksock: OpenKsock, listener: Ksock) -> None:
    """Each message comes to one of the readers of a KSock, and to each of them in order."""
    listener.set_max_messages(1000)
    count, senders = 400, [ksock(), ksock()]
    got: list[list[bytes]] = [[], []]

    def read(mine: list[bytes]) -> None:
        while sum(map(len, got)) < 2 * count:
            mine += transfer.receive(listener, room=300, deadline=soon(0.02)).packets

    def write(sender: Ksock) -> None:
        for number in range(0, count, 8):
            assert transfer.send(sender, *[sized(number + i, i) for i in range(8)]).sent == 8

    threads = [threading.Thread(target=read, args=(mine,), daemon=True) for mine in got]
    threads += [threading.Thread(target=write, args=(sender,), daemon=True) for sender in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [[raw.parse(packet).id for packet in mine] for mine in got]
    assert all(mine == sorted(mine) for mine in ids)
    assert len(set(ids[0] + ids[1])) == 2 * count
    assert ksock_stats(listener)["lost"] == 0
