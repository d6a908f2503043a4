# SPDX-License-Identifier: MIT
"""A reader's cgroup that is at its limit, but full of what can be dropped at once: rules 37 and 44.

A sender has memory reclaimed there, but loses little of its time for any one user unless it may wait.
"""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from kbus import Ksock
from tests.effort import DIVISOR
from tests.kernel import raw
from tests.kernel.cgroup import NewCgroup, cgroup, enter, events, new_cgroup
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import fails
from tests.kernel.processes import new_user, opened_by
from tests.kernel.transfer import NOW, Transfer, soon

__all__ = ["cgroup", "new_cgroup"]

pytestmark = [pytest.mark.rule(37, 44), pytest.mark.axiom("isolation"), pytest.mark.long("measures time")]

MIB = 1 << 20
LIMIT = 12 * MIB
"""Bytes that the cgroup may have."""
MOST_CGROUPS = 3
"""Of one test; each has page cache of its own."""
REST = 0.15
"""Seconds after which somebody has memory reclaimed again, if that took as long as it should."""
REST_OF = 20
"""How many times as long the rest is, at least, as it took."""
IN_USE = (40 * MIB, 60 * MIB)
"""Bytes of a cgroup that are in use, at least and most."""
SENDS, PAUSE, USUAL, SHARE = 300, 0.01, 0.002, 0.07
"""So often one sends, with such pauses, and loses this share of them beside what a SEND may take; seconds."""


@pytest.fixture
def open_in(ksock: OpenKsock, new_cgroup: NewCgroup, child: StartChild) -> Callable[[Path], Ksock]:
    """Opens a KSock of a cgroup that is full of clean page cache; all are one new user's."""
    groups: list[Path] = []
    user = new_user()

    def open_one(group: Path) -> Ksock:
        groups.append(group)
        enter(group)
        one = opened_by(ksock, user)
        enter(group.parent)
        (group / "memory.max").write_text(str(LIMIT))
        child(lambda: fill_with_cache(group, len(groups) - 1))
        return one

    return open_one


@pytest.fixture
def listener(open_in: Callable[[Path], Ksock], cgroup: Path) -> Ksock:
    """A KSock that listens to $.A, of a cgroup that is full of clean page cache."""
    one = open_in(cgroup)
    one.bind("$.A")
    return one


@pytest.fixture
def swap() -> Iterator[None]:
    """Room for pages to be swapped to, in memory."""
    if subprocess.run(["modprobe", "-q", "zram"]).returncode:
        pytest.skip("this kernel has nothing to swap to")
    Path("/sys/block/zram0/disksize").write_text(str(IN_USE[1]))
    subprocess.run(["mkswap", "/dev/zram0"], check=True)
    subprocess.run(["swapon", "/dev/zram0"], check=True)
    yield
    subprocess.run(["swapoff", "/dev/zram0"], check=True)
    Path("/sys/block/zram0/reset").write_text("1")


def libraries(pattern: str) -> list[Path]:
    """Files that any machine has, the largest first."""
    found = {path.resolve() for path in Path("/usr/lib").glob(f"*-linux-gnu*/{pattern}") if path.is_file()}
    return sorted(found, key=lambda path: -path.stat().st_size)


def fill_with_cache(group: Path, number: int) -> None:
    """Enter the cgroup, and read files until it is at its limit; for each number, others."""
    enter(group)
    for path in libraries("lib*.so.*")[number::MOST_CGROUPS]:
        with path.open("rb", buffering=0) as file:
            # What somebody else has read before would not be this cgroup's.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while events(group)["max"] < 3 and file.read(MIB // 4):
                pass
        if events(group)["max"] >= 3:
            return
    raise AssertionError("there are not enough files")


def use_pages(group: Path) -> None:
    """Enter the cgroup, map files until it has much memory, and use all of their pages again and again."""
    enter(group)
    maps: list[mmap.mmap] = []

    def has() -> int:
        return int((group / "memory.current").read_text())

    def read() -> None:
        for each in maps:
            each[:: mmap.PAGESIZE]

    def read_for_ever() -> None:
        while True:
            read()
            time.sleep(0.02)

    for path in libraries("**/*.so*"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            maps.append(mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_EXEC))
        read()
        if has() > IN_USE[1]:
            break
    assert has() > IN_USE[0], "there are not enough files"
    threading.Thread(target=read_for_ever, daemon=True).start()


@pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times")
def test_what_is_in_use_is_not_reclaimed_again_and_again(
    ksock: OpenKsock, cgroup: Path, child: StartChild
) -> None:
    """That takes long, as each page is looked at; a sender who need not wait loses little of its time."""
    enter(cgroup)
    listener = opened_by(ksock, new_user())
    enter(cgroup.parent)
    listener.bind("$.A")
    listener.set_max_messages(SENDS)
    child(lambda: use_pages(cgroup))
    (cgroup / "memory.max").write_text(str(int((cgroup / "memory.current").read_text()) + MIB // 4))
    sender, lost = ksock(), []
    for _ in range(SENDS):
        began = time.thread_time()
        raw.send(sender, raw.message(b"$.A", bytes(10_000)))
        lost.append(max(time.thread_time() - began - USUAL, 0))
        time.sleep(PAUSE)
    lost.remove(max(lost))
    print(
        f"{listener.num_messages()} of {SENDS} messages; {sum(lost):.3f} s are lost, and once more than that"
    )
    assert sum(lost) < SHARE * SENDS * PAUSE


@pytest.fixture
def listener_in_use(ksock: OpenKsock, swap: None, cgroup: Path, child: StartChild) -> Ksock:
    """A KSock that listens to $.A, of a cgroup that is full of what can only be swapped."""
    enter(cgroup)
    listener = opened_by(ksock, new_user())
    enter(cgroup.parent)
    listener.bind("$.A")

    def take_memory() -> mmap.mmap:
        enter(cgroup)
        taken = mmap.mmap(-1, IN_USE[1])
        taken[:: mmap.PAGESIZE] = b"x" * (IN_USE[1] // mmap.PAGESIZE)
        return taken

    child(take_memory)
    fill_up(cgroup)
    return listener


def fill_up(group: Path) -> None:
    """Let it have no memory besides what it has."""
    (group / "memory.max").write_text((group / "memory.current").read_text())


def swapped(group: Path) -> int:
    """How many bytes of it are on the disk."""
    return int((group / "memory.swap.current").read_text())


def test_who_is_not_ready_to_wait_does_not_swap(
    ksock: OpenKsock, listener_in_use: Ksock, cgroup: Path
) -> None:
    """It may take a disk long to write what is in use; if there is nothing else, messages are lost."""
    before = events(cgroup)["max"]
    send_at_once(ksock, 3)
    assert events(cgroup)["max"] > before
    assert (listener_in_use.lost_messages(), swapped(cgroup)) == (3, 0)


def test_who_is_ready_to_wait_swaps(ksock: OpenKsock, listener_in_use: Ksock, cgroup: Path) -> None:
    send_at_once(ksock, 3, raw.ALL_OR_WAIT)
    assert (listener_in_use.num_messages(), swapped(cgroup) > 0) == (3, True)


def test_who_must_not_sleep_does_not_swap(ksock: OpenKsock, listener_in_use: Ksock, cgroup: Path) -> None:
    """Whatever it says of its messages: that there is no memory is told at once."""
    message = raw.message(b"$.A", bytes(MIB - 4096), flags=raw.ALL_OR_WAIT)
    with fails(errno.ENOMEM):
        raw.send(ksock(nonblocking=True), message)
    for deadline in (NOW, 1, soon(-0.01)):
        assert Transfer(message, deadline=deadline).call(ksock()).error == errno.ENOMEM
    assert (listener_in_use.num_messages(), swapped(cgroup)) == (0, 0)


def test_whoever_is_quick_ends_nobodys_rest(ksock: OpenKsock, listener_in_use: Ksock, cgroup: Path) -> None:
    """Memory that is swapped is there soon; to look for what can be dropped has taken long, and in vain."""
    first, own, again = written(ksock, 0), written(ksock, raw.ALL_OR_WAIT), written(ksock, 0)
    took = []
    for sender in (first, own):
        began = time.thread_time()
        raw.msg_id(sender, "SEND")
        took.append(time.thread_time() - began)
    print(f"the first took {took[0]:.3f} s, the own {took[1]:.3f} s")
    assert (listener_in_use.lost_messages(), listener_in_use.num_messages()) == (1, 1)
    time.sleep(REST_OF * took[0] / 2)
    fill_up(cgroup)
    before = events(cgroup)["max"]
    raw.msg_id(again, "SEND")
    assert (listener_in_use.lost_messages(), events(cgroup)["max"]) == (2, before)


@pytest.mark.axiom("loss")
def test_now_and_then_anybody_has_it_reclaimed(ksock: OpenKsock, listener: Ksock, cgroup: Path) -> None:
    """A reader misses nothing because of what its cgroup can do without."""
    sender = ksock()
    before = events(cgroup)["max"]
    for _ in range(12):
        raw.send(sender, raw.message(b"$.A", bytes(100_000)))
        time.sleep(REST)
    assert (listener.num_messages(), listener.lost_messages()) == (12, 0)
    assert events(cgroup)["max"] > before


@pytest.mark.rule(22)
def test_who_is_ready_to_wait_always_does(ksock: OpenKsock, listener: Ksock, cgroup: Path) -> None:
    """However long that has just taken."""
    before = events(cgroup)["max"]
    send_at_once(ksock, 6, flags=raw.ALL_OR_WAIT)
    assert listener.num_messages() == 6
    assert events(cgroup)["max"] > before


def send_at_once(ksock: OpenKsock, count: int, flags: int = 0) -> None:
    """Send so many long messages $.A one after the other, each of which was written before."""
    for sender in [written(ksock, flags) for _ in range(count)]:
        raw.msg_id(sender, "SEND")


def written(ksock: OpenKsock, flags: int) -> Ksock:
    """A KSock to which a long message $.A is written."""
    sender = ksock()
    os.write(sender.fileno(), raw.message(b"$.A", bytes(MIB - 4096), flags=flags))
    return sender


@pytest.mark.rule(22)
def test_who_is_ready_to_wait_does_not_for_an_observer(
    ksock: OpenKsock, open_in: Callable[[Path], Ksock], cgroup: Path
) -> None:
    """Nobody must have that get the message."""
    observer, listener = open_in(cgroup), ksock()
    observer.bind("$.A", observer=True)
    listener.bind("$.A")
    send_at_once(ksock, 6, flags=raw.ALL_OR_WAIT)
    assert listener.num_messages() == 6
    assert 0 < observer.num_messages() < 6


def test_all_cgroups_of_a_user_have_their_part_together(
    ksock: OpenKsock, open_in: Callable[[Path], Ksock], new_cgroup: NewCgroup
) -> None:
    listeners = [open_in(new_cgroup(f"kbus-test{number}")) for number in range(MOST_CGROUPS)]
    for listener in listeners:
        listener.bind("$.A")
    send_at_once(ksock, 1)
    assert sum(listener.num_messages() for listener in listeners) == 1


def test_who_closes_and_opens_again_is_remembered(
    ksock: OpenKsock, new_cgroup: NewCgroup, child: StartChild
) -> None:
    """Memory that was reclaimed for a user counts, though it had no KSock for a moment."""
    user, got = new_user(), []
    groups = [new_cgroup(f"kbus-test{number}") for number in range(2)]
    for number, group in enumerate(groups):
        (group / "memory.max").write_text(str(LIMIT))
        child(partial(fill_with_cache, group, number))
    for group, sender in zip(groups, [written(ksock, 0), written(ksock, 0)]):
        enter(group)
        with opened_by(ksock, user) as listener:
            enter(group.parent)
            listener.bind("$.A")
            raw.msg_id(sender, "SEND")
            got.append(listener.num_messages())
    assert got == [1, 0]
