# SPDX-License-Identifier: MIT
"""What it costs to wake a neighbour, and whom a neighbour wakes: rules 45 and 49."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.effort import DIVISOR
from tests.kernel import raw
from tests.kernel.conftest import NewDevice, OpenKsock
from tests.kernel.helpers import device_stats, fill, take, wait_until
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY, blocked_send, new_user, times_slept, workers_share
from tests.kernel.test_late import times_asked, times_late
from tests.kernel.test_tracing import tracefs
from tests.neighbours.neighbour import StartNeighbour
from tests.neighbours.stopwatch import SENT, SLOT, Stopwatch, Times, quiet

__all__ = ["times_asked", "times_late", "tracefs"]

pytestmark = pytest.mark.axiom("isolation")

CROWD = 200_000
"""Descriptors of one KSock in one epoll."""
POLLERS = 25
"""Processes that poll one epoll, each 4000 times."""
SECONDS = 4
"""How long workers are watched."""
GOAL = 2.0
"""How many times its idle value the mean may be."""
COUNT, WINDOWS = 10, 4
"""Calls in a window, and windows in a round."""
MOST_ROUNDS = 6
WATCHES = Path("/proc/sys/fs/epoll/max_user_watches")


@pytest.fixture
def room_for_crowds() -> Iterator[None]:
    """A user may have as many descriptors, and add as many to an epoll, as a crowd takes."""
    limits, watches = resource.getrlimit(resource.RLIMIT_NOFILE), WATCHES.read_text()
    resource.setrlimit(resource.RLIMIT_NOFILE, (CROWD + 100, CROWD + 100))
    WATCHES.write_text(str(2 * CROWD))
    yield
    WATCHES.write_text(watches)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def costs_only_whoever_has_it(
    neighbour: StartNeighbour, what: str, interval: int, few: str, many: str
) -> None:
    """The calls of others take at most GOAL times as long beside a neighbour with `many`."""
    times: dict[str, list[Times]] = {few: [], many: []}
    with Stopwatch() as stopwatch:
        for _ in range(MOST_ROUNDS):
            for orders, measured in times.items():
                with neighbour(orders, uid=new_user()):
                    measured += [stopwatch.measure(what, COUNT, interval) for _ in range(WINDOWS)]
            with_few, with_many = (quiet(measured, "mean") for measured in times.values())
            print(f"{what}: mean {with_few} us, with many who are woken {with_many} us")
            if with_many <= GOAL * with_few:
                return
    pytest.fail(f"{what}: mean {with_few} us, with many who are woken {with_many} us")


@pytest.mark.rule(45)
@pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times")
@pytest.mark.parametrize(
    ("what", "interval", "orders"),
    [
        ("send", 1000, "bind $.Own 1 done loop send $.Own 0 0 read"),
        # In that time the neighbour is in line again, whatever it costs.
        ("read", 100_000, f"done loop press {SLOT} 0"),
    ],
    ids=["an unrelated SEND", "NEXTMSG of whom the neighbour waits for"],
)
def test_a_crowd_that_is_woken_costs_only_whoever_has_it(
    room_for_crowds: None, open_to_all: None, neighbour: StartNeighbour, what: str, interval: int, orders: str
) -> None:
    """The neighbour does the same without the crowd and with it."""
    few, many = (f"open 1 crowd {crowd} {orders}" for crowd in (0, CROWD))
    costs_only_whoever_has_it(neighbour, what, interval, few, many)


@pytest.mark.rule(45)
@pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times")
def test_an_epoll_that_many_poll_costs_only_whoever_has_it(
    room_for_crowds: None, open_to_all: None, neighbour: StartNeighbour
) -> None:
    """The neighbour gets all that is sent, and waits for it in one epoll, for which others of his wait."""
    few, many = (f"open 1 queue 10000 bind {SENT} 1 nest {pollers} done pause" for pollers in (1, POLLERS))
    costs_only_whoever_has_it(neighbour, "send", 1000, few, many)


@pytest.mark.rule(45)
@pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times")
def test_an_epoll_that_its_owner_wakes_costs_only_whoever_has_it(
    room_for_crowds: None, open_to_all: None, neighbour: StartNeighbour
) -> None:
    """Others do not wait for the lock of its wait queue, which the owner has for as long as that takes."""
    few, many = (
        f"open 1 queue 10000 bind {SENT} 1 nest {pollers} done loop send {SENT} 0 0 read"
        for pollers in (1, POLLERS)
    )
    costs_only_whoever_has_it(neighbour, "send", 1000, few, many)


@pytest.mark.rule(45)
def test_a_few_long_wake_ups_are_forgiven(
    room_for_crowds: None,
    open_to_all: None,
    neighbour: StartNeighbour,
    ksock: OpenKsock,
    times_late: Callable[[], int],
) -> None:
    """The machine may have been stopped meanwhile. These take more than 50 ms where that is emulated."""
    sender = ksock()
    with neighbour(f"open 1 queue 10000 bind $.Own 1 nest {6 * POLLERS} done pause", uid=new_user()):
        for _ in range(4):
            began = time.monotonic()
            raw.send(sender, raw.message(b"$.Own"))
            print(f"to wake them takes {1000 * (time.monotonic() - began):.1f} ms")
        assert times_late() == 0


@pytest.mark.rule(45, 46)
@pytest.mark.parametrize("ksocks", [1, 200])
def test_what_is_woken_late_takes_a_part_of_a_processor(
    room_for_crowds: None, open_to_all: None, neighbour: StartNeighbour, ksocks: int
) -> None:
    """However many KSocks of the user's have a crowd: a fifth, and as much again for all else."""
    crowd = f"crowd {4000 // ksocks} nest 5"
    with neighbour(
        f"open {ksocks} queue 100 {crowd} bind $.Own 1 done loop send $.Own 0 0 read", uid=new_user()
    ):
        time.sleep(1)
        share = workers_share(SECONDS)
    print(f"the workers take {share:.2f} of a processor")
    # The crowd is woken.
    assert 0.02 < share < 0.4


@pytest.mark.rule(37, 40, 49)
def test_a_starved_user_wakes_nobody_of_another_device(
    ksock: OpenKsock, open_to_all: None, neighbour: StartNeighbour, new_device: NewDevice
) -> None:
    """One who waits there for a slot sleeps on while neighbours here run out of bytes again and again."""
    number = new_device()
    full = ksock(number)
    fill(full, "$.A")
    packet = raw.message(b"$.A", flags=raw.ALL_OR_WAIT)
    with parameter("max_user_bytes", 3 << 20):
        sending = blocked_send(ksock(number), packet, number)
        wait_until(sending.sleeps, "the sender sleeps")
        before = times_slept(sending.thread_id)
        with neighbour("open 1 queue 10000 bind $.Own 1 done loop read"):
            begin = device_stats()["sent"]
            with neighbour("fork 2 open 1 done wait $.Own MEGABYTE", uid=NOBODY - 1):
                wait_until(lambda: device_stats()["sent"] > begin + 200, "the neighbours have sent much")
        wait_until(sending.sleeps, "the sender sleeps")
        assert times_slept(sending.thread_id) - before == 0
    take(full)
    sending.result()
