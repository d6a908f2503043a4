# SPDX-License-Identifier: MIT
"""What docs/bus/promises.rst says, at length: with as much of everything as takes minutes to make.

KBUS_PROMISE_SECONDS sets how long the search for a lost wake-up takes.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from kbus import Ksock
from tests.effort import reduced
from tests.kernel import raw, transfer
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import device_stats, fails, ksock_stats, packets, wait_until
from tests.kernel.module import parameter
from tests.kernel.test_answers_bounded import A_REQUEST, NO_ROOM, STATUS_LEN, answer, packet_of
from tests.kernel.transfer import NEVER, Transfer
from tests.model.load import memory

pytestmark = pytest.mark.long("makes as much of everything as there may be")

SECONDS = float(os.environ.get("KBUS_PROMISE_SECONDS", reduced(60)))
EACH = 5
"""Messages that each sender has in a round."""
WAITS = raw.message(b"$.A", flags=raw.ALL_OR_WAIT)
REQUESTS = 9000
DESCRIPTORS = 200_000
WATCHES = Path("/proc/sys/fs/epoll/max_user_watches")


class Sender:
    """A process that sends EACH messages whenever it is told, and waits for room as long as it must."""

    def __init__(self, child: StartChild, send: Callable[[], object]) -> None:
        wait_for_go, self._go = os.pipe()
        self._done, tell = os.pipe()

        def work() -> None:
            while os.read(wait_for_go, 1):
                send()
                os.write(tell, b"+")

        self.process = child(lambda: threading.Thread(target=work, daemon=True).start())
        os.close(wait_for_go)
        os.close(tell)

    def begin(self) -> None:
        """Have it send."""
        os.write(self._go, b"+")

    def has_done(self) -> bool:
        """Whether it has sent all of them, which is told once."""
        return bool(select.select([self._done], [], [], 0)[0]) and os.read(self._done, 1) == b"+"

    def kill(self) -> None:
        """Whatever it is doing."""
        self.process.kill()
        os.close(self._go)
        os.close(self._done)


def one_by_one() -> None:
    """Send by a KSock of its own."""
    with Ksock() as ksock:
        for _ in range(EACH):
            raw.send(ksock, WAITS)


def by_threads_of_one_ksock() -> None:
    """Each tries again while the message of another one waits; one that was stopped goes on with its own."""
    left = [None] * EACH

    def work(ksock: Ksock) -> None:
        done = Transfer()
        while left:
            done = Transfer(b"" if done.kept else WAITS, kept=done.kept, room=0, deadline=NEVER).call(ksock)
            del left[: done.sent]

    with Ksock() as ksock:
        threads = [threading.Thread(target=work, args=(ksock,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def read_for_ever(ksock: Ksock) -> None:
    """Three threads sleep for the next message of one KSock."""

    def work() -> None:
        while True:
            Transfer(deadline=NEVER, receive_max=1).call(ksock)

    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()


@pytest.mark.rule(22, 41, 42)
@pytest.mark.axiom("isolation")
def test_no_wake_up_is_lost(child: StartChild, ksock: OpenKsock) -> None:
    """At the end of each round nothing wakes the last sender but what is read of the last messages."""
    full = ksock()
    full.bind("$.A")
    child(lambda: read_for_ever(full))
    senders = [Sender(child, kind) for kind in (one_by_one, one_by_one, by_threads_of_one_ksock)]
    end, rounds = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        mortal = Sender(child, one_by_one)
        for each in (*senders, mortal):
            each.begin()
        stopped = random.choice(senders).process.pid
        os.kill(stopped, signal.SIGSTOP)
        full.set_max_messages(random.randint(1, 3))
        mortal.kill()
        os.kill(stopped, signal.SIGCONT)
        full.set_max_messages(random.randint(1, 3))
        for each in senders:
            wait_until(each.has_done, f"round {rounds} ends")
        rounds += 1
    print(f"{rounds} rounds, {device_stats()['sent']} messages")
    for each in senders:
        each.kill()


@pytest.mark.rule(20, 43)
@pytest.mark.axiom("answer")
def test_nine_thousand_long_answers_to_whom_does_not_read(ksock: OpenKsock) -> None:
    asker, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    with parameter("max_queue_length", REQUESTS), parameter("max_queue_bytes", 4 << 20):
        for each in (asker, replier):
            assert each.set_max_messages(REQUESTS) == REQUESTS
        ids = [raw.send(asker, A_REQUEST) for _ in range(REQUESTS)]
        with fails(errno.ENOLCK):
            raw.send(asker, A_REQUEST)
        taken = 0
        for number, request in enumerate(packets(replier)):
            with suppress(OSError):
                raw.send(replier, answer(request, 65536))
                taken += 1
            if number % 100 == 0:
                assert ksock_stats(asker)["bytes"] + (REQUESTS - number - 1) * STATUS_LEN <= 4 << 20
        assert ksock_stats(asker)["bytes"] <= 4 << 20
        assert taken == ((4 << 20) - REQUESTS * STATUS_LEN) // (65536 - STATUS_LEN)
    answers = packets(asker)
    assert [each.in_reply_to for each in answers] == ids
    assert [each.name for each in answers].count(NO_ROOM) == REQUESTS - taken


@pytest.mark.qemu("one processor is busy with it")
@pytest.mark.axiom("isolation")
def test_a_ksock_that_is_in_an_epoll_200000_times(child: StartChild, ksock: OpenKsock) -> None:
    """It takes long to wake, and unrelated senders wait for that at most as long as they need themselves."""

    def wake() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS + 100, DESCRIPTORS + 100))
        WATCHES.write_text(str(2 * DESCRIPTORS))
        os.sched_setaffinity(0, {0})
        one, epoll = Ksock(), select.epoll()
        one.bind("$.Epoll")
        for _ in range(DESCRIPTORS):
            epoll.register(os.dup(one.fileno()), select.EPOLLIN)
        threading.Thread(target=send_and_read, args=(one, "$.Epoll", 1 << 40), daemon=True).start()

    before = WATCHES.read_text()
    other = ksock()
    other.bind("$.Other")
    os.sched_setaffinity(0, {1})
    try:
        waker = child(wake).pid
        times: list[float] = []
        # Something else may run on the machine meanwhile, which makes times longer, and never shorter.
        while len(times) < 40 and (not times or min(times[1::2]) > 2 * min(times[::2])):
            for number in (signal.SIGSTOP, signal.SIGCONT):
                os.kill(waker, number)
                began = time.monotonic()
                send_and_read(other, "$.Other", 2000)
                times.append(time.monotonic() - began)
    finally:
        os.sched_setaffinity(0, {0, 1})
        WATCHES.write_text(before)
    print([round(each, 3) for each in times])
    assert min(times[1::2]) <= 2 * min(times[::2])


def send_and_read(ksock: Ksock, name: str, count: int) -> None:
    packet = raw.message(name.encode())
    for _ in range(count):
        raw.send(ksock, packet)
        ksock.next_msg()


@pytest.mark.qemu("what watches memory takes more of it")
@pytest.mark.rule(37)
@pytest.mark.parametrize("size", [64, 200, 1000, 3000, 5000, 65536, 1 << 20])
def test_what_is_charged_is_taken(ksock: OpenKsock, size: int) -> None:
    """Within 15 %, with all that belongs to it, for messages that are so many bytes long."""
    limit = 16 << 20
    packet = packet_of(size, flags=raw.ALL_OR_FAIL)
    together = transfer.pack(*[packet] * max(1, 16384 // size))
    sender = ksock()
    old = sender.max_message_size()
    sender.set_max_message_size(1 << 20)
    before = sum(memory.held())
    count = limit // (size + 64) + 1
    limits = {"max_user_bytes": limit, "max_queue_bytes": limit, "max_queue_length": count}
    with ExitStack() as stack:
        for name, value in limits.items():
            stack.enter_context(parameter(name, value))
        listener = stack.enter_context(Ksock())
        listener.bind("$.A")
        listener.set_max_messages(count)
        done = Transfer()
        while not done.error:
            done = Transfer(together, room=0).call(sender)
        assert errno.errorcode[done.error] == "ENOBUFS"
        taken = sum(memory.held()) - before
        print(f"{listener.num_messages()} messages: {taken} bytes taken, {limit} charged")
    sender.set_max_message_size(old)
    assert 0.85 * limit < taken < 1.15 * limit
