# SPDX-License-Identifier: MIT
"""The line of senders that wait for room at one KSock: whoever can go on is woken. Rules 22, 41 and 42."""

from __future__ import annotations

import errno
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import pytest

from kbus import Ksock
from tests.effort import reduced
from tests.kernel import raw, transfer
from tests.kernel.conftest import OpenKsock, StartChild
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
    blocked_send,
    opened_by,
    processor_1_taken,
)
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


@pytest.mark.smp("UNBIND on one processor, SEND on the other")
@pytest.mark.rule(10, 20, 41)
@pytest.mark.abi("UNBIND")
def test_room_that_an_unbind_makes_is_there_at_once(ksock: OpenKsock, child: StartChild) -> None:
    """A queue has as many slots as it says, also while what was in them is being freed."""
    full, sender = ksock(), ksock()
    full.bind("$.B")
    full.set_max_messages(50)

    def send() -> Ksock:
        other = Ksock()
        run_for_ever(lambda: raw.send(other, raw.message(b"$.B")))
        return other

    child(send)
    for _ in range(reduced(300)):
        full.bind("$.A")
        for _ in range(50):
            raw.send(sender, raw.message(b"$.A", bytes(5000)))
        full.unbind("$.A")
        assert full.num_messages() <= 50
        for _ in range(50):
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


@pytest.mark.rule(22)
@pytest.mark.qemu("takes a processor of its own")
@pytest.mark.parametrize("lacks", ["slots", "max_queue_bytes"])
def test_past_a_line_goes_what_leaves_room_for_it(ksock: OpenKsock, lacks: str) -> None:
    """Two are in line who get no processor, and there is room for three: one more need not join them."""
    packet = waiting(b"past")
    full, *senders = ksock(), *(opened_by(ksock, NOBODY) for _ in range(3))
    newcomer = senders.pop()
    os.set_blocking(newcomer.fileno(), False)
    fill(full, "$.A")
    limit = parameter(lacks, 3 * len(packet)) if lacks == "max_queue_bytes" else nullcontext()
    line = [blocked_send(sender, waiting(b"line")) for sender in senders]
    with processor_1_taken(), limit:
        for one in line:
            os.sched_setaffinity(one.thread_id, {1})
        full.set_max_messages(100 if lacks == "max_queue_bytes" else 3)
        take(full)
        raw.send(newcomer, packet)
        os.write(newcomer.fileno(), packet)
        with suppress(BlockingIOError):
            newcomer.send()
        passed = texts(full)
    for one in line:
        one.result()
    assert passed == [b"past"]


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
