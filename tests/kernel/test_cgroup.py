# SPDX-License-Identifier: MIT
"""Memory is charged to the cgroups of those in whose queues it lies: rules 37 and 44.

Mounts cgroup2 for itself. A KSock belongs to the cgroup of the process that opened it, so that one process
can have KSocks in several.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from kbus import Ksock
from tests.effort import DIVISOR
from tests.kernel import raw
from tests.kernel.cgroup import NewCgroup, cgroup, current, enter, events, kernel_memory, new_cgroup, peak
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import device_stats, fails, ksock_stats, names, packets, refused, take, wait_until
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY, blocked_send, opened_by
from tests.kernel.room import use_up_bytes

__all__ = ["cgroup", "new_cgroup"]

pytestmark = [pytest.mark.rule(37, 44), pytest.mark.axiom("isolation")]

MIB = 1 << 20
PACKET = raw.message(b"$.A", bytes(MIB - 4096))
SMALL = raw.message(b"$.A")
COUNT = 8
LITTLE = MIB // 4
"""Bytes that a cgroup with little memory has left: a short message fits, PACKET does not."""
NO_ROOM = b"$.KBUS.Replier.NoRoom"
GROUPS, AT_ONCE = 60, 8
"""Cgroups of listeners, and how many of them listen at once."""
MORE = 8
"""How many cgroups may have a copy of a message beyond those that listened when it was first looked at."""


@contextmanager
def inside(group: Path) -> Iterator[None]:
    """This process is in the cgroup."""
    enter(group)
    try:
        yield
    finally:
        enter(group.parent)


def opened_in(ksock: OpenKsock, group: Path) -> Ksock:
    """A KSock that belongs to the cgroup."""
    with inside(group):
        return ksock()


def listening_in(ksock: OpenKsock, group: Path) -> Ksock:
    """Likewise, and it listens to $.A."""
    one = opened_in(ksock, group)
    one.bind("$.A")
    return one


def grew(group: Path, idle: int) -> float:
    """MiB by which the cgroup has grown since `idle` was its `current`."""
    return (current(group) - idle) / MIB


def about(amount: int) -> object:
    """So many MiB, but for what the processors have in advance: 256 KiB each, which are not in use."""
    return pytest.approx(amount, abs=0.8)


def leave_little(group: Path) -> None:
    """Give the cgroup next to no memory beyond what it has in use."""
    (group / "memory.max").write_text(str(current(group) + LITTLE))


def test_messages_are_charged_to_who_has_them_in_its_queue(
    ksock: OpenKsock, new_cgroup: NewCgroup, child: StartChild
) -> None:
    readers, writers = new_cgroup("readers"), new_cgroup("writers")
    listener = listening_in(ksock, readers)
    idle = current(readers)

    def send() -> Ksock:
        enter(writers)
        sender = Ksock()
        for _ in range(COUNT):
            raw.send(sender, PACKET)
        return sender

    sender = child(send)
    assert grew(readers, idle) == about(COUNT)
    wait_until(lambda: kernel_memory(writers) < MIB, "nothing is left with the sender")
    assert len(packets(listener)) == COUNT
    wait_until(lambda: grew(readers, idle) == about(0), "reading frees the memory")
    sender.kill()


@pytest.mark.axiom("lifetime")
def test_closing_frees_the_memory(ksock: OpenKsock, cgroup: Path) -> None:
    listener, sender = listening_in(ksock, cgroup), ksock()
    idle = current(cgroup)
    for _ in range(COUNT):
        raw.send(sender, PACKET)
    assert grew(cgroup, idle) == about(COUNT)
    listener.close()
    wait_until(lambda: grew(cgroup, idle) == about(0), "closing frees the memory")


def test_what_is_being_written_is_the_writers(ksock: OpenKsock, cgroup: Path) -> None:
    with inside(cgroup):
        sender = ksock()
        assert os.write(sender.fileno(), PACKET) == len(PACKET)
    wait_until(lambda: kernel_memory(cgroup) >= len(PACKET), "the memory shows")
    sender.discard()
    wait_until(lambda: kernel_memory(cgroup) < len(PACKET) // 2, "DISCARD frees the memory")


def test_recipients_in_one_cgroup_share_a_copy(ksock: OpenKsock, cgroup: Path) -> None:
    listeners = [listening_in(ksock, cgroup) for _ in range(5)]
    sender = ksock()
    idle = current(cgroup)
    for _ in range(COUNT):
        raw.send(sender, PACKET)
    assert grew(cgroup, idle) == about(COUNT)
    for one in listeners[:-1]:
        assert len(packets(one)) == COUNT
    assert grew(cgroup, idle) == about(COUNT)
    listeners[-1].close()
    wait_until(lambda: grew(cgroup, idle) == about(0), "all of it is free")


def test_each_cgroup_has_a_copy_of_its_own(ksock: OpenKsock, new_cgroup: NewCgroup) -> None:
    groups = [new_cgroup(name) for name in ("one", "other")]
    listeners = [listening_in(ksock, group) for group in groups * 2]
    sender = ksock()
    idle = [current(group) for group in groups]
    for _ in range(COUNT):
        raw.send(sender, PACKET)
    for group, before in zip(groups, idle):
        assert grew(group, before) == about(COUNT)
    for one in listeners[::2]:
        one.close()
    wait_until(lambda: grew(groups[0], idle[0]) == about(0), "the memory of one is free")
    assert grew(groups[1], idle[1]) == about(COUNT)


def test_a_listener_in_the_senders_cgroup_has_the_senders_copy(ksock: OpenKsock, cgroup: Path) -> None:
    with inside(cgroup):
        listener, sender = ksock(), ksock()
        listener.bind("$.A")
        idle = current(cgroup)
        for _ in range(COUNT):
            raw.send(sender, PACKET)
    assert grew(cgroup, idle) == about(COUNT)


def test_all_read_the_same(ksock: OpenKsock, new_cgroup: NewCgroup) -> None:
    """A copy is a copy, whosever memory it is: id, flags and bytes."""
    groups = [new_cgroup(name) for name in ("one", "two", "three")]
    opened = [listening_in(ksock, group) for group in groups * 2]
    opened[1].unbind("$.A")
    opened[1].bind("$.A", replier=True)
    with inside(groups[0]):
        sender = ksock()
        sent = [
            raw.message(b"$.A", os.urandom(size), flags=flags | 1 << 20)
            for size in (0, 100, 3000, 100_000)
            for flags in (0, raw.URGENT, raw.WANT_A_REPLY)
        ]
        ids = [raw.send(sender, packet) for packet in sent]
    first, replier, *others = [packets(one) for one in opened]
    assert sorted(packet.id for packet in first) == ids
    data = dict(zip(ids, sent))
    for packet in first:
        assert packet.data == raw.parse(data[packet.id]).data
        assert packet.flags == raw.parse(data[packet.id]).flags & ~raw.WANT_YOU_TO_REPLY
    assert all(seen == first for seen in others)
    requests = [packet for packet in first if packet.flags & raw.WANT_A_REPLY]
    assert replier == [packet._replace(flags=packet.flags | raw.WANT_YOU_TO_REPLY) for packet in requests]


def test_a_ksock_stays_in_the_cgroup_in_which_it_was_opened(
    ksock: OpenKsock, new_cgroup: NewCgroup, child: StartChild
) -> None:
    before, after = new_cgroup("before"), new_cgroup("after")

    def open_and_move() -> Ksock:
        enter(before)
        one = Ksock()
        enter(after)
        one.bind("$.A")
        return one

    child(open_and_move)
    idle = current(before)
    for _ in range(COUNT):
        raw.send(ksock(), PACKET)
    assert grew(before, idle) == about(COUNT)


def test_memory_that_is_used_again_is_charged_to_whoever_has_it(ksock: OpenKsock, cgroup: Path) -> None:
    """No matter who had it before: that somebody read a message leaves memory."""
    count, packet = 40, raw.message(b"$.A", bytes(MIB // 4 - 4096))
    hoarder, reader = listening_in(ksock, cgroup), ksock()
    reader.bind("$.Read")
    idle, cpus = current(cgroup), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})
    try:
        for _ in range(count):
            raw.send(reader, raw.message(b"$.Read", bytes(MIB // 4 - 4096)))
            assert len(packets(reader)) == 1
            raw.send(reader, packet)
    finally:
        os.sched_setaffinity(0, cpus)
    assert hoarder.num_messages() == count
    assert grew(cgroup, idle) == about(count // 4)


@pytest.mark.qemu("KASAN keeps what is freed")
@pytest.mark.skipif(DIVISOR > 2, reason="nothing is kept where use after free is watched for")
def test_memory_that_is_kept_is_given_back_when_memory_is_short(ksock: OpenKsock, cgroup: Path) -> None:
    reader, packet = listening_in(ksock, cgroup), raw.message(b"$.A", bytes(MIB // 4))
    kept = MIB // 8
    raw.send(reader, packet)
    assert packets(reader)
    wait_until(lambda: kernel_memory(cgroup) >= kept, "what is kept shows")
    Path("/proc/sys/vm/drop_caches").write_text("2")
    wait_until(lambda: kernel_memory(cgroup) < kept, "nothing is kept")


@pytest.mark.rule(30)
def test_a_copy_that_is_being_read_is_still_there(ksock: OpenKsock, cgroup: Path) -> None:
    listener, sender = listening_in(ksock, cgroup), ksock()
    raw.send(sender, PACKET)
    assert listener.next_msg() == len(PACKET)
    wait_until(lambda: kernel_memory(cgroup) >= len(PACKET), "the memory shows")
    assert listener.next_msg() == 0
    wait_until(lambda: kernel_memory(cgroup) < len(PACKET) // 2, "the memory is free")


# A cgroup that has no memory for a message.


@pytest.fixture
def poor(ksock: OpenKsock, cgroup: Path) -> Iterator[Ksock]:
    """A KSock of a cgroup that has little memory. In the end nobody has been killed for want of it."""
    one = opened_in(ksock, cgroup)
    leave_little(cgroup)
    yield one
    assert events(cgroup)["oom_kill"] == 0


@pytest.mark.rule(21, 23)
@pytest.mark.axiom("loss")
def test_a_listener_without_memory_misses_the_message(ksock: OpenKsock, poor: Ksock, cgroup: Path) -> None:
    rich, sender = ksock(), ksock()
    poor.bind("$.A")
    rich.bind("$.A")
    for _ in range(COUNT):
        raw.send(sender, PACKET)
    assert (poor.num_messages(), poor.lost_messages()) == (0, COUNT)
    assert (rich.num_messages(), rich.lost_messages()) == (COUNT, 0)
    id = raw.send(sender, SMALL)
    assert [packet.id for packet in packets(poor)] == [id]
    (cgroup / "memory.max").write_text("max")
    raw.send(sender, PACKET)
    assert (poor.num_messages(), poor.lost_messages()) == (1, COUNT)


@pytest.mark.rule(21)
def test_each_of_its_copies_is_missed(ksock: OpenKsock, poor: Ksock) -> None:
    other = ksock()
    for _ in range(3):
        poor.bind("$.A")
    raw.send(other, PACKET)
    assert (poor.num_messages(), poor.lost_messages()) == (0, 3)


@pytest.mark.rule(21)
@pytest.mark.abi("ALL_OR_FAIL")
def test_all_or_fail_without_memory(ksock: OpenKsock, poor: Ksock) -> None:
    rich, sender = ksock(), ksock()
    poor.bind("$.A")
    rich.bind("$.A")
    with refused(errno.EBUSY, serials=1):
        raw.send(sender, raw.message(b"$.A", bytes(MIB - 4096), flags=raw.ALL_OR_FAIL))
    assert (rich.num_messages(), poor.lost_messages()) == (0, 0)


@pytest.mark.rule(21)
def test_a_replier_without_memory(ksock: OpenKsock, poor: Ksock) -> None:
    rich, sender = ksock(), ksock()
    poor.bind("$.A", replier=True)
    rich.bind("$.A")
    with refused(errno.EBUSY, serials=1):
        raw.send(sender, raw.message(b"$.A", bytes(MIB - 4096), flags=raw.WANT_A_REPLY))
    assert (rich.num_messages(), ksock_stats(sender)["awaiting"]) == (0, 0)


@pytest.mark.rule(21)
@pytest.mark.abi("ALL_OR_FAIL")
def test_a_full_listener_does_not_pay_for_what_is_refused(ksock: OpenKsock, cgroup: Path) -> None:
    """Not even for a moment: many senders at once would fill its cgroup. Nor one beside it that has room."""
    full, sender = listening_in(ksock, cgroup), ksock()
    with_room = listening_in(ksock, cgroup)
    full.set_max_messages(1)
    raw.send(sender, SMALL)
    take(with_room)
    before = peak(cgroup)
    with refused(errno.EBUSY, serials=1):
        raw.send(sender, raw.message(b"$.A", bytes(MIB - 4096), flags=raw.ALL_OR_FAIL))
    assert peak(cgroup) - before < MIB // 2


@pytest.mark.rule(22)
@pytest.mark.abi("ALL_OR_WAIT")
def test_a_full_listener_does_not_pay_for_what_waits(ksock: OpenKsock, cgroup: Path) -> None:
    """Nor does one beside it that has room: a sender that does not sleep can try again and again."""
    full, sender = listening_in(ksock, cgroup), ksock(nonblocking=True)
    with_room = listening_in(ksock, cgroup)
    full.set_max_messages(1)
    raw.send(sender, SMALL)
    take(with_room)
    before = peak(cgroup)
    os.write(sender.fileno(), raw.message(b"$.A", bytes(MIB - 4096), flags=raw.ALL_OR_WAIT))
    for _ in range(3):
        with fails(errno.EAGAIN):
            sender.send()
    assert peak(cgroup) - before < MIB // 2
    take(full)
    sender.send()
    assert [each.num_messages() for each in (full, with_room)] == [1, 1]
    assert peak(cgroup) - before > MIB // 2


@pytest.mark.rule(22)
@pytest.mark.abi("ALL_OR_WAIT")
def test_nobody_pays_for_what_waits_behind_others(ksock: OpenKsock, cgroup: Path) -> None:
    """Somebody's queue has room, but for others who have waited longer."""
    victim, accomplice, first, sender = listening_in(ksock, cgroup), ksock(), ksock(), ksock(nonblocking=True)
    accomplice.bind("$.A")
    accomplice.set_max_messages(2)
    raw.send(sender, SMALL)
    take(victim)
    for _ in range(2):
        accomplice.bind("$.B")
    waits = blocked_send(first, raw.message(b"$.B", flags=raw.ALL_OR_WAIT))
    before = peak(cgroup)
    os.write(sender.fileno(), raw.message(b"$.A", bytes(MIB - 4096), flags=raw.ALL_OR_WAIT))
    with fails(errno.EAGAIN):
        sender.send()
    assert peak(cgroup) - before < MIB // 2
    take(accomplice)
    waits.result()
    assert names(accomplice) == ["$.B", "$.B"]
    sender.send()
    assert (victim.num_messages(), accomplice.num_messages()) == (1, 1)


@pytest.mark.rule(21, 22)
@pytest.mark.parametrize(
    ("flag", "error"),
    [(raw.ALL_OR_FAIL, errno.EBUSY), (raw.ALL_OR_WAIT, errno.EAGAIN)],
    ids=["ALL_OR_FAIL", "ALL_OR_WAIT"],
)
def test_nobody_pays_for_what_others_lack_bytes_for(
    ksock: OpenKsock, open_to_all: None, cgroup: Path, flag: int, error: int
) -> None:
    """A user has bytes for each of two KSocks, but not for both."""
    victim, sender = listening_in(ksock, cgroup), ksock(nonblocking=True)
    full, *poor = (opened_by(ksock, NOBODY) for _ in range(3))
    full.bind("$.B")
    for each in poor:
        each.bind("$.A")
    raw.send(sender, SMALL)
    raw.send(sender, raw.message(b"$.B", bytes(MIB - 4096)))
    take(victim)
    before = peak(cgroup)
    with parameter("max_user_bytes", 5 * MIB // 2):
        os.write(sender.fileno(), raw.message(b"$.A", bytes(MIB - 4096), flags=flag))
        with fails(error):
            sender.send()
    assert peak(cgroup) - before < MIB // 2


@pytest.mark.rule(44)
def test_a_message_has_so_many_copies_however_its_listeners_change(
    ksock: OpenKsock, new_cgroup: NewCgroup, child: StartChild
) -> None:
    """While it is copied for some cgroups, others come in their place again and again."""
    groups = [new_cgroup(f"kbus-{number}") for number in range(GROUPS)]
    listeners = [opened_in(ksock, group) for group in groups]
    sender = ksock()

    def come_and_go() -> None:
        for each in listeners[:AT_ONCE]:
            each.bind("$.A")
        for number in count():
            listeners[number % GROUPS].unbind("$.A")
            listeners[(number + AT_ONCE) % GROUPS].bind("$.A")

    child(Thread(target=come_and_go, daemon=True).start)
    wait_until(lambda: device_stats()["bindings"] >= AT_ONCE - 1, "they listen")
    raw.send(sender, PACKET)
    copies = sum(peak(group) > MIB // 2 for group in groups)
    assert 0 < copies <= AT_ONCE + MORE


def use_up_memory(ksock: OpenKsock, group: Path) -> None:
    """Leave the cgroup no memory, not even for a queue item."""
    one, sender = listening_in(ksock, group), ksock()
    one.set_max_messages(10_000)
    leave_little(group)
    while not one.lost_messages():
        raw.send(sender, SMALL)


@pytest.mark.rule(23)
@pytest.mark.abi("REPORTLOST")
def test_a_report_of_losses_has_its_memory_already(ksock: OpenKsock, cgroup: Path, open_to_all: None) -> None:
    one, other, sender = opened_in(ksock, cgroup), ksock(), opened_by(ksock, NOBODY)
    one.bind("$.C")
    one.report_lost_messages()
    other.bind("$.B")
    other.set_max_messages(10_000)
    use_up_memory(ksock, cgroup)
    with parameter("max_user_bytes", 4_000_000):
        use_up_bytes(sender, [])
        raw.send(sender, raw.message(b"$.C"))
        assert (one.num_messages(), one.lost_messages()) == (0, 1)
        take(other)
        wait_until(lambda: one.num_messages() == 1, "it is told")
        assert names(one) == ["$.KBUS.MessagesLost"]


@pytest.mark.rule(22)
@pytest.mark.abi("ALL_OR_WAIT")
@pytest.mark.parametrize("nonblocking", [False, True])
def test_all_or_wait_without_memory(ksock: OpenKsock, poor: Ksock, nonblocking: bool) -> None:
    """Nobody tells when a cgroup has memory again."""
    rich, sender = ksock(), ksock(nonblocking=nonblocking)
    poor.bind("$.A")
    rich.bind("$.A")
    with refused(errno.ENOMEM):
        raw.send(sender, raw.message(b"$.A", bytes(MIB - 4096), flags=raw.ALL_OR_WAIT))
    assert (rich.num_messages(), device_stats()["waiting"]) == (0, 0)


@pytest.mark.rule(43)
@pytest.mark.axiom("answer")
def test_a_requester_without_memory(ksock: OpenKsock, poor: Ksock) -> None:
    replier, listener = ksock(), ksock()
    replier.bind("$.A", replier=True)
    id = raw.send(poor, raw.message(b"$.A", flags=raw.WANT_A_REPLY))
    request = raw.parse(raw.receive(replier))
    listener.bind("$.A")
    serial = device_stats()["last_serial"]
    reply = raw.message(b"$.A", bytes(MIB - 4096), to=request.from_, in_reply_to=id)
    with fails(errno.ENOBUFS):
        raw.send(replier, reply)
    assert listener.num_messages() == 0
    assert raw.receive(poor) == raw.message(
        NO_ROOM,
        flags=raw.SYNTHETIC,
        id=(0, serial + 2),
        in_reply_to=id,
        to=poor.ksock_id(),
        from_=replier.ksock_id(),
    )
    with refused(errno.ECONNREFUSED, serials=1):
        raw.send(replier, reply)


@pytest.mark.parametrize("size", [0, 2000], ids=["small", "longer"])
def test_a_queue_that_nobody_reads_fills_its_own_cgroup(ksock: OpenKsock, cgroup: Path, size: int) -> None:
    """It misses the rest, with the sender none the worse."""
    listener, sender = listening_in(ksock, cgroup), ksock()
    listener.set_max_messages(10_000)
    (cgroup / "memory.max").write_text(str(current(cgroup) + MIB))
    count = 5000
    for _ in range(count):
        raw.send(sender, raw.message(b"$.A", bytes(size)))
    queued = listener.num_messages()
    assert 0 < queued < count
    assert queued + listener.lost_messages() == count
    assert queued * (size + len(SMALL)) * (8 if size == 0 else 3) > MIB // 2
    assert events(cgroup)["oom_kill"] == 0
    assert len(packets(listener)) == queued
