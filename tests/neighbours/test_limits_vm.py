# SPDX-License-Identifier: MIT
"""What one user may take of everybody's: the limits, and that memory stays within them and comes back."""

from __future__ import annotations

import errno
from contextlib import ExitStack

import pytest

from kbus import Ksock
from tests.effort import reduced
from tests.kernel import module, raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PROC, bindings, device_stats, fails, ksock_stats, refused, wait_until
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY, as_nobody
from tests.model.load import memory
from tests.neighbours.bystanders import PING, Bystanders
from tests.neighbours.neighbour import StartNeighbour, owned_by

pytestmark = [pytest.mark.axiom("isolation", "lifetime"), pytest.mark.rule(33)]

PER_BINDING = 640
"""Bytes of slabs that a binding with a short name takes at most: two objects, and a place in a table."""
MAX_USER_BINDINGS = reduced(65536)
"""The limit of each of two users. That which the module begins with is 65536."""
SLACK = 3 << 20
"""Bytes that come and go without the bus."""


def value(name: str) -> int:
    """A module parameter."""
    return int((module.PARAMETERS / name).read_text())


def test_a_fork_bomb_of_ksocks(ksock: OpenKsock, bystanders: Bystanders, neighbour: StartNeighbour) -> None:
    limit = value("max_user_ksocks")
    with neighbour("open 99999 done fork 20 open 10 pause") as bomb:
        assert bomb.refused_with == "EMFILE"
        assert owned_by(NOBODY) == limit
        ksock().bind(PING)
        bystanders.window()
        assert owned_by(NOBODY) == limit


@pytest.mark.rule(11)
def test_a_hundred_thousand_bindings(
    ksock: OpenKsock, bystanders: Bystanders, neighbour: StartNeighbour
) -> None:
    slabs, _ = memory.held()
    orders = "open 17 bind PING 9 names $.Own.N 4096 done pause"
    limit = parameter("max_user_bindings", MAX_USER_BINDINGS)
    with limit, neighbour(orders) as one, neighbour(orders, uid=NOBODY - 1) as other:
        assert (one.refused_with, other.refused_with) == ("ENOSPC", "ENOSPC")
        assert device_stats()["bindings"] == 2 * MAX_USER_BINDINGS + 1
        bystanders.window()
        assert memory.held()[0] - slabs < 2 * MAX_USER_BINDINGS * PER_BINDING
        # Somebody else is not concerned.
        ksock().bind(PING)
    assert [line.name for line in bindings() if line.name != PING] == []
    wait_until(lambda: memory.held()[0] - slabs < SLACK, "the memory is free again")


@pytest.mark.rule(20, 37)
def test_the_longest_messages_from_many_senders(bystanders: Bystanders, neighbour: StartNeighbour) -> None:
    limit = 16 << 20
    _, pages = memory.held()
    orders = "open 8 queue 10000 bind $.Own 1 flood $.Own MEGABYTE 0 done pause"
    with parameter("max_user_bytes", limit), neighbour(orders) as hoarder:
        assert hoarder.refused_with == "ENOBUFS"
        taken = memory.held()[1] - pages
        bystanders.window()
    # The copies share one message, and each counts.
    assert (1 << 20) < taken < limit + SLACK
    wait_until(lambda: memory.held()[1] - pages < SLACK, "the memory is free again")


@pytest.mark.rule(6, 11)
@pytest.mark.abi("BIND")
@pytest.mark.parametrize("names", [["$.A"], ["$.*", "$.A.*", "$.B.%"]], ids=["one name", "wildcards"])
def test_how_often_one_user_may_listen(ksock: OpenKsock, open_to_all: None, names: list[str]) -> None:
    """To one name, and to wildcards in all; KSocks and those whom CAP_SYS_RESOURCE exempts do not matter."""
    privileged = ksock()
    for _ in range(5):
        privileged.bind(names[0])

    def listen() -> None:
        with Ksock() as one, Ksock() as other:
            for number in range(4):
                (one, other)[number % 2].bind(names[number % len(names)])
            for name in names:
                for each in (one, other):
                    with refused(errno.ENOSPC):
                        each.bind(name)
            one.bind("$.C")
            one.bind(names[0], replier=True)
            one.unbind(names[0])
            other.bind(names[-1])
            with refused(errno.ENOSPC):
                one.bind(names[0])

    with parameter("max_name_bindings", 4):
        as_nobody(listen)
        as_nobody(listen)
        privileged.bind(names[0])


@pytest.mark.rule(6, 11)
@pytest.mark.abi("BIND")
def test_how_many_deep_wildcards_one_user_may_serve(open_to_all: None) -> None:
    """Each number of words before one is a look-up for all messages that have more of them."""
    deep = [f"$.{'a.' * words}*" for words in range(12, 30)]

    def serve() -> None:
        with Ksock() as one, Ksock() as other:
            for number, name in enumerate(deep[:8]):
                (one, other)[number % 2].bind(name, replier=True)
            with refused(errno.ENOSPC):
                other.bind(deep[8], replier=True)
            one.bind("$.B.*", replier=True)
            one.unbind(deep[6], replier=True)
            other.bind(deep[8], replier=True)

    with parameter("max_name_bindings", 4):
        as_nobody(serve)
        as_nobody(serve)


@pytest.mark.rule(21, 23)
@pytest.mark.axiom("loss")
def test_copies_for_which_there_is_no_room_are_counted(ksock: OpenKsock) -> None:
    """The sender does not make them first."""
    sender, listener = ksock(), ksock()
    listener.set_max_messages(3)
    for _ in range(50):
        listener.bind("$.A")
    for count in (1, 2):
        raw.send(sender, raw.message(b"$.A"))
        assert ksock_stats(listener)["queued"] == 3
        assert listener.lost_messages() == 50 * count - 3


def most_snapshots() -> int:
    """How many files of all bindings a user can have open."""

    def look() -> int:
        with ExitStack() as stack:
            opened = []
            with fails(errno.ENOBUFS):
                for _ in range(1000):
                    opened.append(stack.enter_context(open(PROC / "bindings")))
            return len(opened)

    return as_nobody(look)


@pytest.mark.rule(35, 37)
def test_snapshots_of_proc_have_a_limit(ksock: OpenKsock, open_to_all: None) -> None:
    """A snapshot is memory, too; but everybody may look at one at any time."""
    one = ksock()
    for number in range(500):
        one.bind(f"$.N{number}")

    def look() -> None:
        with ExitStack() as stack:
            opened = [stack.enter_context(open(PROC / "bindings"))]
            with fails(errno.ENOBUFS):
                for _ in range(1000):
                    opened.append(stack.enter_context(open(PROC / "bindings")))
            assert 1 < len(opened) < 100
            assert len(opened[0].readlines()) > 500
            opened[-1].close()
            stack.enter_context(open(PROC / "bindings"))
            with fails(errno.ENOBUFS):
                (PROC / "bindings").read_text()
        assert (PROC / "bindings").read_text()

    with parameter("max_user_bytes", 1_000_000):
        as_nobody(look)
        assert most_snapshots() > 5
        for number in range(500):
            one.unbind(f"$.N{number}")
            one.bind(f"$.N{number}.{'x' * 900}")
        # The names are there for as long as the snapshot, bound or not.
        assert most_snapshots() == 1
    with parameter("max_user_bytes", 1):
        as_nobody(lambda: wait_until(lambda: len(bindings()) == 500, "everything can be seen"))
