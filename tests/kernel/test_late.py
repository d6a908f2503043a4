# SPDX-License-Identifier: MIT
"""When a worker wakes those who wait at a KSock: rule 45."""

from __future__ import annotations

import os
import re
import resource
import select
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbus import Ksock, reply_to
from tests.effort import DIVISOR
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import fill, take
from tests.kernel.module import parameter
from tests.kernel.patching import one_processor
from tests.kernel.processes import NOBODY, Polling, new_user, opened_by
from tests.kernel.room import told_to_try_again, waiting
from tests.kernel.test_tracing import TRACEFS, tracefs

pytestmark = pytest.mark.long("is about turns and lateness, by time")

__all__ = ["tracefs"]

MOST_AT_ONCE = 3
"""How many waiters of a KSock are woken by whoever has something for it."""
KEPT_AT_ONCE = 2
"""How many whose message is kept are told of room by whoever makes it."""
POLLERS, POLLED = 2, 4000
"""So many processes poll an epoll so often: to wake them takes about a millisecond."""
ROUNDS = 600
"""Times that they are woken at most, where 50 ms in all are enough for the worker."""
ACCOMPLICE, QUICK = NOBODY - 1, 300
"""Who wakes a KSock that takes no time, and how often for each slow wake-up: often enough on average."""
SLOW_KSOCKS, CLOSED_KSOCKS = 200, 500
"""KSocks that each take some milliseconds to wake, and those that are closed meanwhile."""
OFTEN = 500
"""Requests, of which each wakes the replier, and the reply the sender."""


@pytest.fixture
def times_asked(tracefs: None) -> Iterator[Callable[[str], int]]:
    """Tells how often such a worker was asked for, since the test began."""
    instance = TRACEFS / "instances" / "kbus-late"
    instance.mkdir()
    switch = instance / "events" / "workqueue" / "workqueue_queue_work" / "enable"
    with one_processor():
        switch.write_text("1")
    yield lambda worker: (instance / "trace").read_text().count(f"={worker} ")
    with one_processor():
        switch.write_text("0")
    instance.rmdir()


@pytest.fixture
def times_late(times_asked: Callable[[str], int]) -> Callable[[], int]:
    """Tells how often the worker that wakes was asked for."""
    return lambda: times_asked("kbus_wake_late")


def wake(listener: Ksock, sender: Ksock, count: int) -> None:
    """Have so many threads poll, and send what all of them find."""
    polling = [Polling(listener, select.POLLIN) for _ in range(count)]
    raw.send(sender, raw.message(b"$.A"))
    for each in polling:
        assert each.result() & select.POLLIN
    take(listener)


@pytest.mark.rule(45)
def test_a_crowd_that_has_gone_is_nobodys_concern(ksock: OpenKsock, times_late: Callable[[], int]) -> None:
    """The KSock is woken at once again, and not by a worker for ever."""
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    wake(listener, sender, MOST_AT_ONCE)
    assert times_late() == 0
    wake(listener, sender, MOST_AT_ONCE + 1)
    before = times_late()
    assert before == 1
    for _ in range(3):
        wake(listener, sender, MOST_AT_ONCE)
    assert times_late() == before


@pytest.mark.rule(30, 45)
@pytest.mark.parametrize("count", [KEPT_AT_ONCE, KEPT_AT_ONCE + 1])
def test_whoever_makes_room_tells_a_few_whose_message_is_kept(
    ksock: OpenKsock, times_asked: Callable[[str], int], count: int
) -> None:
    """A worker tells the others: not the one that wakes the queue's own user, who is not to wait for them."""
    full = ksock()
    fill(full, "$.A")
    for _ in range(count):
        told_to_try_again(ksock(nonblocking=True), waiting())
    take(full)
    assert times_asked("kbus_user_settle") == (count > KEPT_AT_ONCE)
    assert times_asked("kbus_wake_late") == 0


@pytest.mark.rule(45)
def test_a_crowd_without_memory_is_still_one(ksock: OpenKsock, times_late: Callable[[], int]) -> None:
    """Even if its user has no bytes left when it comes, nobody else joins the first waiters."""
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    with parameter("max_user_bytes", 0):
        polling = [Polling(listener, select.POLLIN) for _ in range(MOST_AT_ONCE + 1)]
    raw.send(sender, raw.message(b"$.A"))
    for each in polling:
        assert each.result() & select.POLLIN
    assert times_late() == 1


def poll_often(inner: select.epoll) -> None:
    """Have a thread poll the epoll so often that waking it takes long."""
    room = (POLLED + 1000, POLLED + 1000)
    resource.setrlimit(resource.RLIMIT_NOFILE, room)
    poll = select.poll()
    for _ in range(POLLED):
        poll.register(os.dup(inner.fileno()), select.POLLPRI)
    threading.Thread(target=poll.poll, daemon=True).start()


@pytest.mark.rule(45)
def test_who_closes_and_opens_again_is_remembered(
    ksock: OpenKsock, child: StartChild, times_late: Callable[[], int]
) -> None:
    """What takes others long is left to a worker, though the user had no KSock for a moment."""
    user, sender, inner = new_user(), ksock(), select.epoll()
    for _ in range(POLLERS):
        child(lambda: poll_often(inner))
    for _ in range(ROUNDS):
        with opened_by(ksock, user) as slow:
            inner.register(slow, select.EPOLLIN)
            slow.bind("$.Slow")
            raw.send(sender, raw.message(b"$.Slow"))
        if times_late():
            break
    else:
        pytest.fail("what is slow is not left to a worker")


@pytest.mark.rule(37, 45)
@pytest.mark.axiom("lifetime")
@pytest.mark.skipif(DIVISOR > 1, reason="what is freed stays for a while where its use is watched for")
def test_a_closed_ksock_waits_for_no_worker(
    ksock: OpenKsock, child: StartChild, times_late: Callable[[], int]
) -> None:
    """It is free at once, though its user has the worker rest after others that take long."""
    user, sender, inner = new_user(), ksock(), select.epoll()
    slow = [opened_by(ksock, user) for _ in range(SLOW_KSOCKS)]
    crowd = [select.epoll() for _ in range(MOST_AT_ONCE + 1)]
    for each in slow:
        each.bind("$.Slow")
        for epoll in (inner, *crowd):
            epoll.register(each, select.EPOLLIN)
    for _ in range(5 * POLLERS):
        child(lambda: poll_often(inner))
    before = ksocks_in_memory()
    raw.send(sender, raw.message(b"$.Slow"))
    for _ in range(CLOSED_KSOCKS):
        with opened_by(ksock, user) as listener:
            listener.bind("$.Quick")
            for epoll in crowd:
                epoll.register(listener, select.EPOLLIN)
            raw.send(sender, raw.message(b"$.Quick"))
    assert times_late() > 0
    assert ksocks_in_memory() - before < CLOSED_KSOCKS / 2


def ksocks_in_memory() -> int:
    """Objects of the slab caches that KSocks are from, of which others have some."""
    found = re.findall(
        r"^kmalloc-(?:cg-)?(?:2k|4k) +(\d+) ", Path("/proc/slabinfo").read_text(), re.MULTILINE
    )
    return sum(map(int, found))


@pytest.mark.rule(45)
def test_what_is_quick_for_one_is_no_credit_with_others(
    ksock: OpenKsock, child: StartChild, times_late: Callable[[], int]
) -> None:
    """Whoever wakes a KSock that takes long pays no more, because others wake one that does not."""
    user, sender = new_user(), ksock()
    slow, quick = opened_by(ksock, user), opened_by(ksock, user)
    inner, outer = select.epoll(), select.epoll()
    outer.register(quick, select.EPOLLIN)
    inner.register(slow, select.EPOLLIN)
    for each, name in ((slow, "$.Slow"), (quick, "$.Quick")):
        each.set_max_messages(10_000)
        each.bind(name)

    def wakes_at_once(uid: int) -> bool:
        before = times_late()
        os.setresuid(uid, uid, 0)
        raw.send(sender, raw.message(b"$.Slow"))
        os.setresuid(0, 0, 0)
        return times_late() == before

    for _ in range(POLLERS):
        child(lambda: poll_often(inner))
    for _ in range(ROUNDS):
        raw.send(sender, raw.message(b"$.Slow"))
        os.setresuid(ACCOMPLICE, ACCOMPLICE, 0)
        for _ in range(QUICK):
            raw.send(sender, raw.message(b"$.Quick"))
        os.setresuid(0, 0, 0)
        # What is full is not woken.
        quick.unbind("$.Quick")
        quick.bind("$.Quick")
        if times_late():
            break
    else:
        pytest.fail("what is slow is not left to a worker")
    # Others wake it at once. Accounts are shared now and then, but not by all of these.
    assert any(wakes_at_once(uid) for uid in range(ACCOMPLICE - 8, ACCOMPLICE))


@pytest.mark.rule(45)
def test_who_is_often_woken_by_its_user_is_woken_at_once(
    ksock: OpenKsock, times_late: Callable[[], int]
) -> None:
    """However long that takes on a busy machine: it is a user's own time."""
    replier, sender = ksock(), ksock()
    replier.bind("$.A", replier=True)

    def answer() -> None:
        for _ in range(OFTEN):
            request = replier.wait_for_msg()
            assert request
            replier.send_msg(reply_to(request))

    with ThreadPoolExecutor() as executor:
        answering = executor.submit(answer)
        for _ in range(OFTEN):
            sender.call("$.A")
        answering.result()
    assert times_late() == 0
