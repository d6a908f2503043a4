# SPDX-License-Identifier: MIT
"""Containers: what is seen from inside namespaces, and what users there may take: rules 35, 36, 47, 48."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbus import Ksock
from tests.kernel import module, raw
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import PROC, bindings, fails, ksock_stats, stats_lines
from tests.kernel.module import parameter
from tests.kernel.processes import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    NOBODY,
    Result,
    become,
    in_child,
    unshare,
)

OVERFLOW = 65534
SOMEBODY = 1234


def in_namespaces(flags: int, body: Callable[[], Result]) -> Result:
    """Run `body` in a process that has namespaces of its own."""

    def enter() -> Result:
        unshare(flags)
        return in_child(body)

    return in_child(enter)


def map_ids(inside: int, outside: int) -> None:
    """In a new user namespace, let one user and group of the parent be there under another number."""
    for file, line in (("uid_map", f"{inside} {outside} 1"), ("setgroups", "deny")):
        Path("/proc/self", file).write_text(line)
    Path("/proc/self/gid_map").write_text(f"{inside} {outside} 1")


@pytest.mark.rule(35, 47)
@pytest.mark.axiom("isolation")
def test_only_root_may_look() -> None:
    with module.reloaded():
        assert sorted(os.listdir(PROC)) == ["bindings", "stats"]
        assert [owner_and_mode(path) for path in (PROC, PROC / "stats", PROC / "bindings")] == [
            (0, 0, 0o550),
            (0, 0, 0o440),
            (0, 0, 0o440),
        ]
        in_child(cannot_look)


@pytest.mark.rule(33, 35, 47)
def test_a_group_may_look() -> None:
    """The one that the module parameter names; nobody writes."""
    group = 1235

    def look() -> None:
        os.setgroups([group])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        assert sorted(os.listdir(PROC)) == ["bindings", "stats"]
        for name in ("stats", "bindings"):
            assert (PROC / name).read_text()
            for flags in (os.O_WRONLY, os.O_RDWR):
                with fails(errno.EACCES):
                    os.open(PROC / name, flags)

    with module.reloaded(proc_gid=group):
        assert (module.PARAMETERS / "proc_gid").read_text() == f"{group}\n"
        assert [owner_and_mode(path)[1] for path in (PROC, PROC / "stats", PROC / "bindings")] == [group] * 3
        in_child(look)
        in_child(cannot_look)


@pytest.mark.rule(47)
def test_who_may_use_the_device_may_not_look(open_to_all: None) -> None:
    def try_it() -> None:
        become(NOBODY, looks=False)
        with Ksock():
            cannot_look_now()

    in_child(try_it)


def cannot_look() -> None:
    become(NOBODY, looks=False)
    cannot_look_now()


def cannot_look_now() -> None:
    """Neither files nor their names, whatever they are to be opened for."""
    with fails(errno.EACCES):
        os.listdir(PROC)
    for name in ("stats", "bindings"):
        for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
            with fails(errno.EACCES):
                os.open(PROC / name, flags)


def owner_and_mode(path: Path) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


@pytest.mark.rule(35, 36)
def test_a_container_with_a_proc_of_its_own(ksock: OpenKsock, tmp_path: Path) -> None:
    """It sees the names of all, but no process that is not its own."""
    outer = ksock()
    outer.bind("$.Outer")
    libc = ctypes.CDLL(None, use_errno=True)

    def look() -> tuple[list[tuple[str, int]], list[int], list[int]]:
        private = 1 << 18 | 1 << 14
        assert libc.mount(b"none", b"/", None, private, None) == 0
        assert libc.mount(b"proc", b"/proc", b"proc", 0, None) == 0
        with Ksock() as inner:
            inner.bind("$.Inner")
            seen = [(line.name, line.pid) for line in bindings()]
            pids = [line.numbers["pid"] for line in stats_lines() if line.key[0] == "ksock"]
            return seen, pids, [raw.peer_info(inner, one.ksock_id())[1] for one in (outer, inner)]

    seen, pids, peers = in_namespaces(CLONE_NEWPID | CLONE_NEWNS, look)
    assert seen == [("$.Inner", 1), ("$.Outer", 0)]
    assert pids == [0, 1]
    assert peers == [0, 1]


@pytest.mark.rule(35, 36)
def test_pids_seen_from_outside_and_between_containers(ksock: OpenKsock) -> None:
    outer = ksock()

    def seen_by(asker: Ksock) -> tuple[int, int]:
        pid = raw.peer_info(asker, asker.ksock_id())[1]
        assert ksock_stats(asker)["pid"] == pid
        return os.getpid(), pid

    def look() -> tuple[tuple[int, int], tuple[int, int]]:
        with Ksock() as inner:
            return seen_by(inner), in_namespaces(CLONE_NEWPID, lambda: seen_by(inner))

    # The inner of two namespaces does not see into the outer one.
    assert in_namespaces(CLONE_NEWPID, look) == ((1, 1), (1, 0))
    assert seen_by(outer) == (os.getpid(), os.getpid())


@pytest.mark.rule(35, 36)
def test_users_in_stats_are_those_of_the_reader(ksock: OpenKsock, open_to_all: None) -> None:
    by_root = ksock()

    def look() -> list[tuple[int, int]]:
        unshare(CLONE_NEWUSER, SOMEBODY)
        with Ksock() as mine:
            before = owners(mine)
            map_ids(7, SOMEBODY)
            return [*before, *owners(mine)]

    def owners(mine: Ksock) -> list[tuple[int, int]]:
        found = []
        for one in (by_root, mine):
            numbers = ksock_stats(one)
            found.append((numbers["uid"], numbers["gid"]))
            assert raw.peer_info(mine, one.ksock_id())[2:] == found[-1]
        return found

    unmapped = (OVERFLOW, OVERFLOW)
    assert in_child(look) == [unmapped, unmapped, unmapped, (7, 7)]


@pytest.mark.rule(33, 36)
def test_root_of_a_user_namespace_is_nobody_special(open_to_all: None) -> None:
    """Capabilities there do not count here, and limits are those of the user outside."""

    def try_it() -> None:
        unshare(CLONE_NEWUSER, SOMEBODY)
        map_ids(0, SOMEBODY)
        assert os.getuid() == 0
        with Ksock() as one:
            with fails(errno.EPERM):
                one.new_device()
            assert raw.peer_info(one, one.ksock_id())[2:] == (0, 0)

    in_child(try_it)


# Limits of users.

SUB_UID = 100_000
"""Outside, what user and group 1 in the namespace of `with_more_users` are; 2 is the next."""


def with_more_users(body: Callable[[], Result], owner: int = SOMEBODY) -> Result:
    """Run `body` as root of a new user namespace of `owner`, who is 0 there, with 1 to 9 as other users."""

    def enter() -> Result:
        here = os.getpid()
        reader, writer = os.pipe()
        mapper = os.fork()
        if mapper == 0:
            # Only somebody privileged outside may map more than one.
            os.read(reader, 1)
            for file in ("uid_map", "gid_map"):
                Path(f"/proc/{here}", file).write_text(f"0 {owner} 1\n1 {SUB_UID} 9\n")
            os._exit(0)
        unshare(CLONE_NEWUSER, owner)
        os.write(writer, b"+")
        assert os.waitpid(mapper, 0)[1] == 0
        assert os.getuid() == 0
        return body()

    return in_child(enter)


@contextmanager
def being(uid: int) -> Iterator[None]:
    """Root of a namespace is another user for a while."""
    os.setresuid(uid, uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def opened_by(uid: int) -> Ksock:
    with being(uid):
        return Ksock()


@pytest.mark.rule(33, 48)
@pytest.mark.axiom("isolation")
def test_users_of_a_namespace_have_one_quota(open_to_all: None, child: StartChild) -> None:
    """That of the namespace's owner, with whatever else the owner has."""

    def open_outside() -> Ksock:
        become(SOMEBODY)
        return Ksock()

    def try_it() -> None:
        first = opened_by(0)
        second = opened_by(1)
        for uid in (0, 1, 2):
            with fails(errno.EMFILE):
                opened_by(uid)
        first.close()
        opened_by(2).close()
        second.close()

    def open_three() -> None:
        kept = [opened_by(uid) for uid in (0, 1, 2)]
        for one in kept:
            one.close()

    outside = child(open_outside)
    with parameter("max_user_ksocks", 3):
        with_more_users(try_it)
        outside.kill()
        # All of it is given back, and the numbers outside are not concerned.
        with_more_users(open_three)
    with parameter("max_user_ksocks", 1):
        with_more_users(lambda: has_one_left([0, 1]))


def has_one_left(uids: list[int]) -> None:
    """Whoever opens the last KSock, the others get none."""
    with opened_by(uids[0]):
        for uid in uids:
            with fails(errno.EMFILE):
                opened_by(uid)


@pytest.mark.rule(33, 48)
def test_users_who_are_outside_have_their_own(open_to_all: None, child: StartChild) -> None:
    """Also the user whose number one of the namespace's has."""

    def open_outside() -> Ksock:
        become(SUB_UID)
        return Ksock()

    def open_inside() -> None:
        with opened_by(1) as one:
            assert raw.peer_info(one, one.ksock_id())[2:] == (1, 0)

    with parameter("max_user_ksocks", 1):
        child(open_outside)
        with_more_users(open_inside)


@pytest.mark.rule(33, 48)
def test_namespaces_in_namespaces(open_to_all: None) -> None:
    """They count for the owner of the outermost one, whoever owns the inner ones."""

    libc = ctypes.CDLL(None, use_errno=True)

    def as_another_in_another(body: Callable[[], None]) -> None:
        """Run `body` as the owner of a namespace in this one."""

        def enter() -> None:
            os.setresuid(2, 2, 2)
            assert libc.unshare(CLONE_NEWUSER) == 0, os.strerror(ctypes.get_errno())
            body()

        in_child(enter)

    def cannot_open() -> None:
        with fails(errno.EMFILE):
            Ksock()

    def nested() -> None:
        with opened_by(1):
            as_another_in_another(cannot_open)
        as_another_in_another(lambda: Ksock().close())

    with parameter("max_user_ksocks", 1):
        with_more_users(nested)


@pytest.mark.rule(11, 33, 48)
def test_bindings_and_bytes_count_for_the_owner_too(open_to_all: None) -> None:
    def bind() -> None:
        with opened_by(1) as one, opened_by(2) as other:
            for ksock in (one, other):
                ksock.bind("$.A")
            with fails(errno.ENOSPC):
                other.bind("$.B")
            one.unbind("$.A")
            other.bind("$.B")

    def write() -> None:
        half = raw.message(b"$.A", bytes(60_000))
        with opened_by(1) as one, opened_by(2) as other:
            one.write_data(half)
            with fails(errno.ENOBUFS):
                other.write_data(half)
            one.discard()
            other.write_data(half)

    with parameter("max_user_bindings", 2):
        with_more_users(bind)
    with parameter("max_user_bytes", 100_000):
        with_more_users(write)


@pytest.mark.rule(33, 48)
def test_users_of_a_namespace_of_roots_have_their_own(ksock: OpenKsock, open_to_all: None) -> None:
    """Root, which gives whom it likes numbers of the machine, has not made more of them."""
    ksock()

    def open_each() -> None:
        kept = [opened_by(uid) for uid in (1, 2)]
        for one, uid in zip(kept, (1, 2)):
            with fails(errno.EMFILE):
                opened_by(uid)
            one.close()

    with parameter("max_user_ksocks", 1):
        with_more_users(open_each, owner=0)


@pytest.mark.rule(36, 48)
def test_who_a_peer_is_does_not_depend_on_who_pays(ksock: OpenKsock, open_to_all: None) -> None:
    asker = ksock()

    def open_two() -> list[tuple[int, int]]:
        with opened_by(0) as one, opened_by(1) as other:
            return [(raw.peer_info(asker, it.ksock_id())[2], ksock_stats(it)["uid"]) for it in (one, other)]

    # Whoever asks sees the numbers of its own namespace.
    assert with_more_users(open_two) == [(0, 0), (1, 1)]
