# SPDX-License-Identifier: MIT
"""The line of senders that wait for room at one KSock: whoever can go on is woken. Rules 22, 41 and 42."""

from __future__ import annotations

import errno
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
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
from tests.kernel.processes import Sending, blocked_send, times_slept
from tests.kernel.room import waiting
from tests.kernel.transfer import Transfer, soon

pytestmark = [pytest.mark.rule(22), pytest.mark.abi("ALL_OR_WAIT")]

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


def use_up_bytes(feeder: Ksock, writers: list[Ksock]) -> None:
    """Send $.B until there is no room, the longest first, and begin messages with the bytes that are left."""
    for length in (400_000, 40_000, 4_000, 400, 0):
        with pytest.raises(OSError):
            while True:
                raw.send(feeder, raw.message(b"$.B", bytes(length), flags=raw.ALL_OR_FAIL))
    for writer in writers:
        with suppress(OSError):
            os.write(writer.fileno(), raw.message(b"$.B"))


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
