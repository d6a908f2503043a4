# SPDX-License-Identifier: MIT
"""The line of senders that wait for room at one KSock: whoever can go on is woken. Rules 22, 41 and 42."""

from __future__ import annotations

import errno
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import pytest

from kbus import Ksock
from tests.effort import reduced
from tests.kernel import raw, transfer
from tests.kernel.conftest import NewDevice, OpenKsock, StartChild
from tests.kernel.helpers import (
    PATIENCE,
    device_stats,
    fails,
    fill,
    handler,
    ksock_stats,
    refused,
    take,
    texts,
    wait_until,
)
from tests.kernel.module import PARAMETERS, parameter
from tests.kernel.processes import (
    NOBODY,
    Sending,
    become,
    blocked_send,
    opened_by,
    processor_1_taken,
    times_slept,
)
from tests.kernel.room import told_to_try_again, use_up_bytes, used_by, waiting
from tests.kernel.transfer import Transfer, soon

pytestmark = [pytest.mark.rule(22), pytest.mark.abi("ALL_OR_WAIT")]

TURN = 0.1
"""Seconds, after which whoever is first in line and does not go on has lost its turn."""
LATE, FORGIVEN = 2.0, 2.5
"""Seconds, before which it is not forgotten that a user was late, and after which it is for sure."""
LARGE = 1 << 18
"""Bytes of data that take a while to free, which NEXTMSG does after it has taken the next message."""


def run_for_ever(body: Callable[[], object]) -> None:
    """Start a thread that does `body` again and again, whatever it raises from the system."""

    def repeat() -> None:
        while True:
            with suppress(OSError):
                body()

    threading.Thread(target=repeat, daemon=True).start()


# What a wake-up depends on changes while nobody looks.


@pytest.mark.rule(15, 41)
@pytest.mark.parametrize(
    ("request_to", "flags", "rounds"),
    [(b"$.Nobody", 0, 3000), (b"$.Busy", raw.ALL_OR_FAIL, 1000)],
    ids=["without a replier", "with a full replier"],
)
def test_a_slot_that_a_failing_request_gives_back_is_room(
    ksock: OpenKsock, child: StartChild, request_to: bytes, flags: int, rounds: int
) -> None:
    """The slot for its answer is set aside for a moment, in which a reader may make room for nobody."""
    full, busy = ksock(), ksock()
    full.set_max_messages(1)
    full.bind("$.A")
    # The longer it takes to see that there is no room, the longer the slot is set aside.
    busy.bind("$.Busy", replier=True)
    for _ in range(500):
        busy.bind("$.Busy")
    busy.set_max_messages(1)
    request = raw.message(request_to, flags=flags | raw.WANT_A_REPLY)

    def send() -> Ksock:
        sender = Ksock()
        run_for_ever(lambda: raw.send(sender, waiting(bytes(LARGE))))
        return sender

    child(lambda: run_for_ever(lambda: raw.send(full, request)))
    # While the message of one is read, another one waits.
    for _ in range(3):
        child(send)
    poll = select.poll()
    poll.register(full.fileno(), select.POLLIN)
    for number in range(reduced(rounds)):
        came = poll.poll(PATIENCE * 1000)
        waits = device_stats()["waiting"] if not came else 0
        assert came, f"after {number} messages {waits} senders wait for room in an empty queue"
        full.next_msg()


@pytest.mark.rule(15, 41)
@pytest.mark.abi("ABANDON")
def test_a_slot_that_is_not_needed_any_more_is_room(ksock: OpenKsock) -> None:
    full, replier, sender = ksock(), ksock(), ksock()
    full.bind("$.A")
    full.set_max_messages(1)
    replier.bind("$.Asked", replier=True)
    raw.send(full, raw.message(b"$.Asked", flags=raw.WANT_A_REPLY))
    sending = blocked_send(sender, waiting(b"room"))
    raw.abandon(full, raw.msg_id(full, "LASTSENT"))
    sending.result()
    assert texts(full) == [b"room"]


@contextmanager
def left_by_signal(ksock: Ksock, packet: bytes, child: StartChild) -> Iterator[Callable[[], None]]:
    with handler(signal.SIGUSR1, restart=False):
        sending = blocked_send(ksock, packet)

        def leave() -> None:
            sending.interrupt(signal.SIGUSR1)
            with fails(errno.EINTR):
                sending.result()

        yield leave


@contextmanager
def left_at_deadline(ksock: Ksock, packet: bytes, child: StartChild) -> Iterator[Callable[[], None]]:
    """The deadline is so late that whoever comes second has come by then."""
    results: list[Transfer] = []
    thread = threading.Thread(
        target=lambda: results.append(transfer.send(ksock, packet, deadline=soon(3))), daemon=True
    )
    thread.start()
    wait_until(lambda: ksock_stats(ksock)["waiting"] == 1, "the message waits")

    def leave() -> None:
        thread.join()
        assert (results[0].error, results[0].kept) == (errno.EAGAIN, 1)

    yield leave


@contextmanager
def left_when_stopped(ksock: Ksock, packet: bytes, child: StartChild) -> Iterator[Callable[[], None]]:
    process = child(lambda: blocked_send(ksock, packet))

    def leave() -> None:
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(
            lambda: all(
                task.read_text().rpartition(")")[2].split()[0] == "T"
                for task in Path(f"/proc/{process.pid}/task").glob("*/stat")
            ),
            "all threads are stopped",
        )

    yield leave


Left = Callable[[Ksock, bytes, StartChild], AbstractContextManager[Callable[[], None]]]
"""Has a message wait; what it gives makes its sender leave SEND, with the message kept."""


@pytest.mark.rule(41)
@pytest.mark.axiom("isolation")
@pytest.mark.parametrize("left", [left_by_signal, left_at_deadline, left_when_stopped])
def test_who_leaves_send_lets_those_behind_pass(ksock: OpenKsock, child: StartChild, left: Left) -> None:
    """The first in the line needs more room than there is, and its message stays; the second needs less."""
    full, first, second = ksock(), ksock(), ksock()
    fill(full, "$.A")
    full.bind("$.A")
    full.bind("$.B")
    full.set_max_messages(2)
    raw.send(first, raw.message(b"$.B"))
    with left(first, waiting(b"both"), child) as leave:
        sending = blocked_send(second, raw.message(b"$.B", b"next", flags=raw.ALL_OR_WAIT))
        take(full)
        leave()
        sending.result()
        assert ksock_stats(first)["waiting"] == 1
        assert texts(full)[-1] == b"next"


def pop(full: Ksock) -> None:
    """Leave the message to be read, so that its bytes are still taken."""
    full.next_msg()


@pytest.mark.rule(20, 37, 41)
@pytest.mark.parametrize("event", [pop, lambda full: full.set_max_messages(3)], ids=["pop", "raise_limit"])
def test_want_of_a_slot_can_become_want_of_bytes(ksock: OpenKsock, event: Callable[[Ksock], None]) -> None:
    """When there is a slot at last, the user's bytes are gone; when these are there, nothing else happens."""
    full, other, sender, feeder, roomy = ksock(), ksock(), ksock(), ksock(), ksock()
    # Of the two copies, the user that writes the message has paid for one.
    roomy.bind("$.A")
    with parameter("max_user_bytes", 1_000_000):
        fill(full, "$.A")
        full.set_max_messages(2)
        raw.send(feeder, raw.message(b"$.A"))
        sending = blocked_send(sender, waiting(bytes(20_000)))
        other.bind("$.B")
        other.set_max_messages(10_000)
        use_up_bytes(feeder, [ksock() for _ in range(4)])
        event(full)
        assert sending.waits()
        take(other)
        sending.result()
    assert texts(full)[-1] == bytes(20_000)


def unbind(ksock: Ksock) -> None:
    ksock.unbind("$.A")


def close(ksock: Ksock) -> None:
    ksock.close()


@pytest.mark.rule(22, 37, 41)
@pytest.mark.parametrize("leave", [unbind, close])
def test_a_message_that_needs_less_bytes_goes_on(ksock: OpenKsock, leave: Callable[[Ksock], None]) -> None:
    """Another KSock of the user, for which the bytes were lacking too, does not listen any more."""
    stays, leaves, other, sender = ksock(), ksock(), ksock(), ksock()
    stays.bind("$.A")
    leaves.bind("$.A")
    other.bind("$.B")
    with parameter("max_user_bytes", 1_000_000):
        raw.send(sender, raw.message(b"$.B", bytes(600_000)))
        sending = blocked_send(sender, waiting(bytes(300_000)))
        leave(leaves)
        sending.result()
    assert texts(stays) == [bytes(300_000)]


@pytest.mark.rule(22, 37, 41)
@pytest.mark.parametrize("comes_first", [True, False])
def test_a_message_that_needs_fewer_copies_goes_on(ksock: OpenKsock, comes_first: bool) -> None:
    """Another KSock of the user, for which the bytes were lacking too, wants only one copy from now on."""
    listens, twice, other, sender = ksock(), ksock(), ksock(), ksock()
    other.bind("$.B")
    for each in (listens, twice, twice) if comes_first else (twice, twice, listens):
        each.bind("$.A")
    with parameter("max_user_bytes", 1_000_000):
        raw.send(sender, raw.message(b"$.B", bytes(200_000)))
        sending = blocked_send(sender, waiting(bytes(300_000)))
        twice.want_messages_once(True)
        sending.result()
    assert [texts(each) for each in (listens, twice)] == [[bytes(300_000)]] * 2


@pytest.mark.rule(22, 37, 41)
def test_bytes_for_several_ksocks_of_a_user_are_counted_once(ksock: OpenKsock) -> None:
    """What a try has charged to one of them must not be asked for again by the next."""
    listeners, other, sender = [ksock() for _ in range(3)], ksock(), ksock()
    for each in listeners:
        each.bind("$.A")
    other.bind("$.B")
    with parameter("max_user_bytes", 350_000):
        raw.send(sender, raw.message(b"$.B", bytes(150_000)))
        sending = blocked_send(sender, waiting(bytes(100_000)))
        take(other)
        sending.result()
    assert [texts(each) for each in listeners] == [[bytes(100_000)]] * 3


@pytest.mark.rule(22, 37, 41)
@pytest.mark.parametrize("comes_first", [True, False])
def test_what_a_user_has_paid_is_for_who_must_have_it(ksock: OpenKsock, comes_first: bool) -> None:
    """Not for an observer, which misses the message, and which nobody waits for."""
    observer, listener, other, sender = ksock(), ksock(), ksock(), ksock()
    if comes_first:
        observer.bind("$.A", observer=True)
    listener.bind("$.A")
    observer.bind("$.A", observer=True)
    other.bind("$.B")
    with parameter("max_user_bytes", 1_000_000):
        raw.send(sender, raw.message(b"$.B", bytes(600_000)))
        with patience(sender):
            raw.send(sender, waiting(bytes(300_000)))
    assert texts(listener) == [bytes(300_000)]


@pytest.mark.rule(22, 37, 41)
@pytest.mark.parametrize("copies", [2, 3, 4])
@pytest.mark.parametrize("paid", [True, False], ids=["by its user", "by another"])
def test_a_message_waits_for_the_bytes_that_it_takes_and_no_more(
    ksock: OpenKsock, open_to_all: None, copies: int, paid: bool
) -> None:
    """Some of the copies take a little more than the others. For one of them its user may have paid."""
    listener, other, asker, stranger = ksock(), ksock(), ksock(), opened_by(ksock, NOBODY)
    sender = asker if paid else stranger
    for _ in range(copies):
        listener.bind("$.A")
    other.bind("$.B")
    empty = used_by(asker)
    raw.send(stranger, raw.message(b"$.A"))
    copied = used_by(asker)
    raw.send(stranger, raw.message(b"$.B"))
    probe = used_by(asker) - copied
    texts(listener)
    texts(other)
    with parameter("max_user_bytes", copied - probe):
        raw.send(stranger, raw.message(b"$.B"))
        sending = blocked_send(sender, waiting())
        take(other)
        sending.result()
    assert listener.num_messages() == copies
    assert used_by(asker) == copied > empty


@pytest.mark.rule(37, 41)
def test_what_a_copy_takes_does_not_depend_on_who_else_gets_one(ksock: OpenKsock, open_to_all: None) -> None:
    """Else a sender that waits for one user's bytes would have to be told when another unbinds."""
    listener, stranger = ksock(), opened_by(ksock, NOBODY)
    listener.bind("$.A")
    taken = []
    for _ in range(2):
        before = used_by(listener)
        raw.send(stranger, raw.message(b"$.A"))
        taken.append(used_by(listener) - before)
        texts(listener)
        for _ in range(3):
            stranger.bind("$.A")
    assert taken[0] == taken[1] > 0


@contextmanager
def alone(thread: int) -> Iterator[None]:
    """In the block, a thread that is woken does not run: this one has the only processor that it may use."""
    cpus, policy = os.sched_getaffinity(0), os.sched_getscheduler(0)
    cpu = {min(cpus)}
    os.sched_setaffinity(thread, cpu)
    os.sched_setaffinity(0, cpu)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, os.sched_param(0))
        os.sched_setaffinity(0, cpus)


@pytest.mark.rule(14, 31, 41)
@pytest.mark.abi("DISCARD")
def test_who_slept_for_a_discarded_message_does_not_sleep_for_the_next(ksock: OpenKsock) -> None:
    """Also if the next one waits already before the thread can run."""
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    sending = blocked_send(sender, waiting(b"gone"))
    os.set_blocking(sender.fileno(), False)
    with alone(sending.thread_id):
        sender.discard()
        os.write(sender.fileno(), waiting(b"next"))
        with fails(errno.EAGAIN):
            sender.send()
        assert not sending.done
    with fails(errno.ENOMSG):
        sending.result()
    assert sending.waits()
    take(full)
    sender.send()
    assert texts(full) == [b"next"]


# What can never fit.


def two_bindings(full: Ksock) -> None:
    """Two copies, and place for one."""
    full.set_max_messages(1)


def few_bytes(full: Ksock) -> None:
    """Two copies, and bytes for one."""
    (PARAMETERS / "max_queue_bytes").write_text("1000")


CANNOT_FIT = [two_bindings, few_bytes]


@contextmanager
def patience(sender: Ksock) -> Iterator[None]:
    """Discard the sender's message if SEND sleeps for it too long, which makes SEND fail with ENOMSG."""
    timer = threading.Timer(PATIENCE, sender.discard)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@pytest.fixture
def bound_twice(ksock: OpenKsock) -> Iterator[Ksock]:
    """A KSock that gets two copies of $.A."""
    full = ksock()
    full.bind("$.A")
    full.bind("$.A")
    with parameter("max_queue_bytes", int((PARAMETERS / "max_queue_bytes").read_text())):
        yield full


@pytest.mark.rule(15, 16, 20, 42)
@pytest.mark.abi("SEND")
@pytest.mark.parametrize("limit", CANNOT_FIT)
@pytest.mark.parametrize("nonblocking", [False, True])
def test_what_can_never_fit_is_refused_at_once(
    ksock: OpenKsock, bound_twice: Ksock, limit: Callable[[Ksock], None], nonblocking: bool
) -> None:
    roomy, sender = ksock(), ksock(nonblocking=nonblocking)
    roomy.bind("$.A")
    limit(bound_twice)
    with refused(errno.EBUSY, serials=1), patience(sender):
        raw.send(sender, waiting(bytes(800)))
    assert (roomy.num_messages(), bound_twice.num_messages()) == (0, 0)
    with refused(errno.ENOMSG):
        sender.send()
    # One copy is another matter.
    bound_twice.want_messages_once(True)
    raw.send(sender, waiting(bytes(800)))
    assert texts(roomy) == texts(bound_twice) == [bytes(800)]


@pytest.mark.rule(42)
@pytest.mark.abi("TRANSFER")
def test_transfer_refuses_what_can_never_fit(ksock: OpenKsock, bound_twice: Ksock) -> None:
    sender = ksock()
    two_bindings(bound_twice)
    done = transfer.send(sender, waiting(b"1111"), raw.message(b"$.B"))
    assert (done.sent, errno.errorcode.get(done.error), done.kept) == (0, "EBUSY", 0)
    assert device_stats()["waiting"] == 0


@pytest.mark.rule(24, 42)
def test_a_request_that_can_never_fit_is_refused_at_once(ksock: OpenKsock) -> None:
    """The flagged copy and the plain one are two."""
    full, sender = ksock(), ksock(nonblocking=True)
    full.bind("$.A")
    full.bind("$.A", replier=True)
    full.set_max_messages(1)
    with refused(errno.EBUSY, serials=1):
        raw.send(sender, waiting(flags=raw.WANT_A_REPLY))
    assert ksock_stats(sender)["awaiting"] == 0


@pytest.mark.rule(24, 42)
def test_a_request_needs_room_for_its_answer_and_for_what_its_sender_hears(ksock: OpenKsock) -> None:
    """One slot is set aside, and another one is for the copy."""
    sender = ksock(nonblocking=True)
    ksock().bind("$.A", replier=True)
    sender.bind("$.A")
    sender.set_max_messages(1)
    with refused(errno.EBUSY, serials=1):
        raw.send(sender, waiting(flags=raw.WANT_A_REPLY))
    sender.set_max_messages(2)
    raw.send(sender, waiting(flags=raw.WANT_A_REPLY))
    assert (sender.num_messages(), ksock_stats(sender)["awaiting"]) == (1, 1)


@pytest.mark.rule(20, 41, 42)
@pytest.mark.abi("MAXMSGS")
def test_a_limit_that_is_lowered_refuses_who_sleeps(ksock: OpenKsock) -> None:
    full, first, second = ksock(), ksock(), ksock()
    fill(full, "$.A")
    full.bind("$.A")
    full.bind("$.B")
    full.set_max_messages(2)
    raw.send(first, raw.message(b"$.B"))
    both = blocked_send(first, waiting(b"both"))
    one = blocked_send(second, raw.message(b"$.B", b"next", flags=raw.ALL_OR_WAIT))
    full.set_max_messages(1)
    with fails(errno.EBUSY):
        both.result()
    with refused(errno.ENOMSG):
        first.send()
    # Nobody is in front of this one any more.
    assert one.waits()
    assert take(full).data is None
    assert take(full).data is None
    one.result()
    assert texts(full) == [b"next"]


@pytest.mark.rule(41, 42)
@pytest.mark.abi("MAXMSGS")
def test_a_limit_that_is_lowered_refuses_what_is_kept(ksock: OpenKsock, bound_twice: Ksock) -> None:
    sender = ksock(nonblocking=True)
    bound_twice.set_max_messages(3)
    raw.send(sender, raw.message(b"$.A"))
    os.write(sender.fileno(), waiting(b"both"))
    with fails(errno.EAGAIN):
        sender.send()
    bound_twice.set_max_messages(1)
    take(bound_twice)
    take(bound_twice)
    poll = select.poll()
    poll.register(sender.fileno(), select.POLLOUT)
    assert poll.poll(PATIENCE * 1000)
    with fails(errno.EBUSY):
        sender.send()
    with refused(errno.ENOMSG):
        sender.send()


# Many, and others.


def time_to_pass(ksock: OpenKsock, count: int) -> float:
    """How many seconds it takes to pass so many who wait, and get no processor."""
    full = ksock()
    fill(full, "$.A")
    stuck = [blocked_send(ksock(), waiting(b"%04d" % number)) for number in range(count)]
    last = blocked_send(ksock(), waiting(b"last"))
    for processor, one in [*((1, one) for one in stuck), (0, last)]:
        os.sched_setaffinity(one.thread_id, {processor})
    with processor_1_taken():
        began = time.monotonic()
        take(full)
        last.result()
        took = time.monotonic() - began
    assert take(full).data == b"last"
    for number, one in enumerate(stuck):
        one.result()
        assert take(full).data == b"%04d" % number
    full.close()
    return took


@pytest.mark.long("is about turns and lateness, by time")
@pytest.mark.rule(41, 46)
@pytest.mark.axiom("isolation")
def test_many_of_one_user_who_get_no_processor_lose_their_turn_at_once(ksock: OpenKsock) -> None:
    """Not one after the other, which would be 40 times as long."""
    one = time_to_pass(ksock, 1)
    assert time_to_pass(ksock, 40) < 10 * one


@pytest.mark.long("is about turns and lateness, by time")
@pytest.mark.rule(41, 46)
def test_whoever_gets_no_processor_loses_the_turn(ksock: OpenKsock) -> None:
    """It has its place in the line when it can run again."""
    full = ksock()
    fill(full, "$.A")
    first, second, third = (blocked_send(ksock(), waiting(b"%04d" % number)) for number in (1, 2, 3))
    for processor, one in ((1, first), (0, second), (0, third)):
        os.sched_setaffinity(one.thread_id, {processor})
    with processor_1_taken():
        take(full)
        second.result()
        assert not first.done
    wait_until(first.sleeps, "it is in line again")
    assert take(full).data == b"0002"
    first.result()
    assert not third.done
    assert take(full).data == b"0001"
    third.result()


@pytest.mark.long("is about turns and lateness, by time")
@pytest.mark.rule(41, 46)
def test_a_lost_turn_is_forgiven(ksock: OpenKsock, open_to_all: None) -> None:
    """For a while the user's messages hold up nobody, and after that those who came later."""
    full = ksock()
    full.set_max_messages(2)
    full.bind("$.A")
    for _ in range(2):
        full.bind("$.Both")
    packet = waiting(b"one.")
    for _ in range(2):
        raw.send(full, packet)
    late, prompt = (blocked_send(opened_by(ksock, user), packet) for user in (NOBODY, NOBODY - 1))
    for processor, one in ((1, late), (0, prompt)):
        os.sched_setaffinity(one.thread_id, {processor})
    with processor_1_taken():
        take(full)
        prompt.result()
        lost = time.monotonic()
    take(full)
    late.result()
    both = blocked_send(opened_by(ksock, NOBODY), raw.message(b"$.Both", flags=raw.ALL_OR_WAIT))
    newcomer = opened_by(lambda: ksock(nonblocking=True), NOBODY - 2)
    take(full)
    raw.send(newcomer, packet)
    assert time.monotonic() - lost < FORGIVEN / 2, "it takes too long to see"
    time.sleep(lost + FORGIVEN - time.monotonic())
    take(full)
    os.write(newcomer.fileno(), packet)
    with fails(errno.EAGAIN):
        newcomer.send()
    take(full)
    both.result()


@pytest.mark.long("is about turns and lateness, by time")
@pytest.mark.rule(41, 46)
def test_who_is_late_loses_the_turn_though_many_were_a_little(ksock: OpenKsock, open_to_all: None) -> None:
    """By how much they held up others is known of 20 users, of which the one that is least late makes room.

    On a machine with much else to do these have been forgiven by then.
    """
    full = ksock()
    fill(full, "$.A")

    def waits_there(uid: int) -> Sending:
        one = blocked_send(opened_by(ksock, uid), waiting())
        os.sched_setaffinity(one.thread_id, {1})
        return one

    little = [waits_there(NOBODY - 1 - user) for user in range(20)]
    late = waits_there(NOBODY)
    prompt = blocked_send(ksock(), waiting())
    os.sched_setaffinity(prompt.thread_id, {0})

    def one_sends_a_little_late(taker: int) -> None:
        before = sum(one.gone for one in little)
        take(full)
        time.sleep(TURN / 50)
        os.kill(taker, signal.SIGSTOP)
        wait_until(lambda: sum(one.gone for one in little) > before, "one of them has sent")
        os.kill(taker, signal.SIGCONT)

    with processor_1_taken() as taker:
        began = time.monotonic()
        for _ in little:
            one_sends_a_little_late(taker)
        little_took = time.monotonic() - began
        take(full)
        prompt.result()
        print(f"20 users were late in {little_took:.1f} s, one more in {time.monotonic() - began:.1f} s")
        assert time.monotonic() - began < LATE or little_took > LATE - 5 * TURN
    take(full)
    late.result()


def take_next(full: Ksock) -> None:
    """Take the message of whoever has room next."""
    wait_until(lambda: full.num_messages() == 1, "one of them has sent")
    take(full)


def is_held_up(newcomer: Ksock) -> bool:
    """Whether somebody may go on, and does not."""
    os.write(newcomer.fileno(), waiting(b"newcomer"))
    try:
        newcomer.send()
    except BlockingIOError:
        newcomer.discard()
        return True
    return False


def holds_up_others(full: Ksock, newcomer: Ksock) -> bool:
    """Whether whoever is first in line, and keeps to processor 1, does so when it has its turn."""
    with processor_1_taken():
        take(full)
        return is_held_up(newcomer)


@pytest.mark.long("is about turns and lateness, by time")
@pytest.mark.rule(41, 46)
def test_a_turn_is_the_same_when_an_older_one_has_come_and_gone(ksock: OpenKsock, open_to_all: None) -> None:
    """It does not begin anew each time an accomplice, who needs more room, joins the line and leaves it."""
    full, older = ksock(), opened_by(lambda: ksock(nonblocking=True), NOBODY)
    full.set_max_messages(3)
    for name in ("$.A", "$.B.C", "$.B.*", "$.B.%"):
        full.bind(name)
    for _ in range(3):
        raw.send(full, raw.message(b"$.A"))
    told_to_try_again(older, raw.message(b"$.B.C", flags=raw.ALL_OR_WAIT))
    os.set_blocking(older.fileno(), True)
    late, prompt = (blocked_send(opened_by(ksock, user), waiting()) for user in (NOBODY, NOBODY - 1))
    for processor, one in ((1, late), (0, prompt)):
        os.sched_setaffinity(one.thread_id, {processor})
    with processor_1_taken():
        for _ in range(2):
            take(full)
        began = time.monotonic()
        while not prompt.done:
            left = Transfer(kept=1, deadline=soon(-1), room=0).call(older)
            assert (left.error, left.kept) == (errno.EAGAIN, 1)
            assert time.monotonic() - began < LATE / 2
    older.discard()
    late.result()


@pytest.mark.qemu("takes a processor of its own")
@pytest.mark.rule(41, 46)
def test_one_of_two_threads_that_wait_leaves(ksock: OpenKsock) -> None:
    """The message keeps its place: it holds up a newcomer for as long as the other one sleeps for it."""
    full, sender, newcomer = ksock(), ksock(), ksock(nonblocking=True)
    fill(full, "$.A")
    leaves = blocked_send(sender, waiting(b"once"))
    stays = Sending(sender)
    wait_until(stays.sleeps, "both threads sleep in SEND")
    with handler(signal.SIGUSR1, restart=False):
        leaves.interrupt(signal.SIGUSR1)
        with fails(errno.EINTR):
            leaves.result()
    os.sched_setaffinity(stays.thread_id, {1})
    assert holds_up_others(full, newcomer)
    stays.result()
    assert texts(full) == [b"once"]


@pytest.mark.long("is about turns and lateness, by time")
@pytest.mark.rule(41, 46)
def test_who_is_not_first_is_not_late(ksock: OpenKsock, open_to_all: None) -> None:
    """All are to look again, as a setting has changed, and get no processor, but hold up nobody."""
    full, behind = ksock(), ksock(nonblocking=True)
    newcomer = opened_by(lambda: ksock(nonblocking=True), NOBODY - 2)
    fill(full, "$.A")
    first = blocked_send(ksock(), waiting())
    os.sched_setaffinity(first.thread_id, {0})
    others = [blocked_send(opened_by(ksock, NOBODY), waiting()) for _ in range(15)]
    told_to_try_again(behind, waiting())
    for one in others:
        os.sched_setaffinity(one.thread_id, {1})
    with processor_1_taken():
        full.want_messages_once(True)
        time.sleep(TURN / 2)
    for one in others:
        wait_until(one.sleeps, "it is in line again")
    take(full)
    first.result()
    assert holds_up_others(full, newcomer)
    for _ in others:
        take_next(full)
    for one in others:
        one.result()


@pytest.mark.long("is about turns and lateness, by time")
@pytest.mark.rule(41, 46)
def test_who_holds_up_those_who_do_not_sleep_is_late(ksock: OpenKsock, open_to_all: None) -> None:
    """Short turns count that a message of another user waits for which is kept."""
    full, newcomer, behind = ksock(), *(ksock(nonblocking=True) for _ in range(2))
    fill(full, "$.A")
    late = [blocked_send(opened_by(ksock, NOBODY), waiting()) for _ in range(8)]
    for one in late:
        os.sched_setaffinity(one.thread_id, {1})
    told_to_try_again(behind, waiting())

    def holds_up_for_a_while() -> bool:
        with processor_1_taken():
            take_next(full)
            if not is_held_up(newcomer):
                return False
            time.sleep(TURN * 0.8)
        return True

    assert not all(holds_up_for_a_while() for _ in late)
    while not all(one.done for one in late):
        if full.num_messages():
            take(full)
    for one in late:
        one.result()


@pytest.mark.long("is about turns and lateness, by time")
@pytest.mark.rule(41, 46)
def test_who_sends_all_the_time_is_not_late(ksock: OpenKsock, child: StartChild, open_to_all: None) -> None:
    """If nobody else is there: all its turns together are long, and none of them is."""
    full, newcomer = ksock(), opened_by(lambda: ksock(nonblocking=True), NOBODY - 2)
    fill(full, "$.A")

    def send_for_ever() -> None:
        become(NOBODY)
        os.sched_setaffinity(0, {1})
        sender = Ksock()
        run_for_ever(lambda: raw.send(sender, waiting()))

    child(send_for_ever)
    wait_until(lambda: device_stats()["waiting"] == 1, "it waits")
    for _ in range(4):
        # By then it is forgotten that the newcomer was held up.
        longest, taken = 0.0, time.monotonic()
        until = taken + FORGIVEN
        while time.monotonic() < until:
            if full.num_messages():
                longest = max(longest, time.monotonic() - taken)
                taken = time.monotonic()
                take(full)
        wait_until(lambda: device_stats()["waiting"] == 1, "it waits again")
        # On a machine with much else to do it may be late indeed.
        assert holds_up_others(full, newcomer) or longest > TURN * 0.9


@pytest.mark.rule(22)
@pytest.mark.qemu("takes a processor of its own")
@pytest.mark.parametrize("lacks", ["slots", "max_queue_bytes", "max_user_bytes"])
def test_past_a_line_goes_what_leaves_room_for_it(ksock: OpenKsock, lacks: str) -> None:
    """Two are in line who get no processor, and there is room for three: one more need not join them."""
    packet = waiting(b"past")
    for _ in range(20):
        full, *senders = ksock(), *(opened_by(ksock, NOBODY) for _ in range(3))
        newcomer = senders.pop()
        os.set_blocking(newcomer.fileno(), False)
        # With the room for one message, by which it is found out
        empty = used_by(full)
        fill(full, "$.A")
        limits = {"max_queue_bytes": 3 * len(packet), "max_user_bytes": 2 * used_by(full) - empty}
        limit = parameter(lacks, limits[lacks]) if lacks in limits else nullcontext()
        line = [blocked_send(sender, waiting(b"line")) for sender in senders]
        with processor_1_taken(), limit:
            for one in line:
                os.sched_setaffinity(one.thread_id, {1})
            began = time.monotonic()
            full.set_max_messages(100 if lacks in limits else 3)
            take(full)
            raw.send(newcomer, packet)
            os.write(newcomer.fileno(), packet)
            with suppress(BlockingIOError):
                newcomer.send()
            in_time = time.monotonic() - began < TURN
            passed = texts(full)
        for one in line:
            one.result()
        if in_time:
            assert passed == [b"past"]
            return
    pytest.fail("it takes too long each time")


MANY = 150
"""More than are woken in one step."""


@pytest.mark.rule(41)
@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        ("$.All.*", "$.All.One", ["$.All.One"] * MANY),
        ("$.*", "$.All.*", [f"$.All.N{number}" for number in range(MANY)]),
        ("$.*", "$.All.%", [f"$.All.N{number}" for number in range(MANY)]),
    ],
    ids=["of one name", "below a name", "right below it"],
)
def test_a_better_replier_is_told_to_all_who_wait(
    ksock: OpenKsock, before: str, now: str, names: list[str]
) -> None:
    """However many Requests wait, and to nobody else, whose name is before or behind theirs."""
    full, better = ksock(), ksock()
    full.set_max_messages(1)
    full.bind(before, replier=True)
    flags = raw.WANT_A_REPLY | raw.ALL_OR_WAIT
    raw.send(ksock(), raw.message(b"$.All.First", flags=flags))
    others = ["$.All.O", "$.All.Ona", "$.All.Onf"] if now == "$.All.One" else ["$.Al.N", "$.Alm.N"]
    if now != "$.All.*":
        others += ["$.All.N1.More", "$.All.One.More"]
    senders = {}
    for name in names + others:
        sender = ksock(nonblocking=True)
        os.write(sender.fileno(), raw.message(name.encode(), flags=flags))
        with fails(errno.EAGAIN):
            sender.send()
        senders[sender.fileno()] = sender
    poll = select.poll()
    for descriptor in senders:
        poll.register(descriptor, select.POLLOUT)
    assert not poll.poll(0)
    better.set_max_messages(MANY)
    better.bind(now, replier=True)
    assert [descriptor for descriptor, _ in poll.poll(0)] == list(senders)[:MANY]
    for sender in list(senders.values())[:MANY]:
        sender.send()
    assert better.num_messages() == MANY


@pytest.mark.rule(41)
@pytest.mark.axiom("isolation")
@pytest.mark.parametrize(
    ("bound", "other"),
    [
        ("$.A.B", "$.A.%"),
        ("$.A.B", "$.A.*"),
        ("$.A.B", "$.*"),
        ("$.A.%", "$.*"),
        ("$.A.%", "$.A.*"),
        ("$.A.*", "$.*"),
    ],
)
def test_a_worse_replier_is_told_to_nobody(ksock: OpenKsock, bound: str, other: str) -> None:
    """Requests that wait for one whose binding gives more of their name need not look again."""
    full, binder = ksock(), ksock()
    fill(full)
    full.bind(bound, replier=True)
    sending = blocked_send(ksock(), raw.message(b"$.A.B", flags=raw.WANT_A_REPLY | raw.ALL_OR_WAIT))
    before = times_slept(sending.thread_id)
    for _ in range(20):
        binder.bind(other, replier=True)
        binder.unbind(other, replier=True)
    time.sleep(0.05)
    wait_until(sending.sleeps, "it waits")
    assert times_slept(sending.thread_id) == before
    take(full)
    sending.result()


@pytest.mark.axiom("lifetime")
def test_a_close_wakes_many(ksock: OpenKsock) -> None:
    """Those who sleep and those who do not, and none of them knows the closed KSock any more."""
    full, listener = ksock(), ksock()
    fill(full, "$.A")
    listener.bind("$.A")
    sleepers = [blocked_send(ksock(), waiting(b"wait")) for _ in range(40)]
    pollers = [ksock(nonblocking=True) for _ in range(40)]
    for sender in pollers:
        os.write(sender.fileno(), waiting(b"poll"))
        with fails(errno.EAGAIN):
            sender.send()
    full.close()
    # Whatever takes the place of the closed KSock in memory.
    strangers = [ksock() for _ in range(40)]
    for sending in sleepers:
        sending.result()
    poll = select.poll()
    for sender in pollers:
        poll.register(sender.fileno(), select.POLLOUT)
    assert len(poll.poll(0)) == len(pollers)
    for sender in pollers[::2]:
        sender.send()
    for sender in pollers[1::2]:
        sender.discard()
    assert texts(listener) == [b"wait"] * 40 + [b"poll"] * 20
    assert device_stats()["waiting"] == 0
    for stranger in strangers:
        fill(stranger, "$.B")


@pytest.mark.rule(37, 40, 41, 49)
@pytest.mark.axiom("isolation")
@pytest.mark.parametrize("same", [False, True], ids=["another device", "the same device"])
def test_bytes_of_a_user_wake_only_who_waits_for_them(
    ksock: OpenKsock, new_device: NewDevice, same: bool
) -> None:
    """A sender there waits for the user's bytes; here, for a slot."""
    number = 0 if same else new_device()
    full, sender = ksock(), ksock()
    starved, other, feeder = ksock(number), ksock(number), ksock(number)
    with parameter("max_user_bytes", 2_000_000):
        fill(full, "$.Here")
        here = blocked_send(sender, raw.message(b"$.Here", flags=raw.ALL_OR_WAIT))
        # Of its two copies, the user that writes the message has paid for one.
        starved.bind("$.A")
        starved.bind("$.A")
        other.bind("$.B")
        raw.send(feeder, raw.message(b"$.A"))
        for length in [400] * 50 + [900_000]:
            raw.send(feeder, raw.message(b"$.B", bytes(length)))
        feeder.write_data(waiting(bytes(600_000)))
        there = Sending(feeder, number)
        wait_until(here.sleeps, "the sender here sleeps")
        before = times_slept(here.thread_id)
        while other.num_messages():
            take(other)
        there.result()
        # All who are woken by such bytes are woken in one go.
        wait_until(here.sleeps, "the sender here sleeps")
        assert times_slept(here.thread_id) - before == 0
        assert here.waits()
    take(full)
    here.result()


@pytest.mark.rule(42)
@pytest.mark.parametrize("sleeps", [True, False])
def test_a_bind_may_make_it_impossible(ksock: OpenKsock, sleeps: bool) -> None:
    """A message that now needs more copies than the queue ever takes is refused to whoever waits with it."""
    full, sender = ksock(), ksock(nonblocking=not sleeps)
    full.set_max_messages(1)
    full.bind("$.A")
    full.bind("$.Filler")
    raw.send(full, raw.message(b"$.Filler"))
    sending = blocked_send(sender, waiting()) if sleeps else None
    if not sending:
        os.write(sender.fileno(), waiting())
        with fails(errno.EAGAIN):
            sender.send()
    full.bind("$.A")
    with fails(errno.EBUSY):
        sending.result() if sending else sender.send()


@pytest.mark.rule(42)
def test_many_whose_message_a_bind_makes_impossible_are_told(ksock: OpenKsock) -> None:
    """They are gone through in steps."""
    full = ksock()
    full.set_max_messages(1)
    full.bind("$.A")
    full.bind("$.Filler")
    raw.send(full, raw.message(b"$.Filler"))
    senders = [ksock(nonblocking=True) for _ in range(200)]
    poll = select.poll()
    for sender in senders:
        os.write(sender.fileno(), waiting())
        with fails(errno.EAGAIN):
            sender.send()
        poll.register(sender.fileno(), select.POLLOUT)
    assert poll.poll(0) == []
    full.bind("$.A")
    assert len(poll.poll(0)) == len(senders)
    for sender in senders:
        with fails(errno.EBUSY):
            sender.send()
