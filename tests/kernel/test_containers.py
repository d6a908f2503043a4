# SPDX-License-Identifier: MIT
"""What is seen from inside namespaces, as containers have them: rules 35 and 36."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from kbus import Ksock
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PROC, bindings, fails, ksock_stats, stats_lines
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


@pytest.mark.rule(35)
def test_the_files_may_be_read_by_all_and_written_by_nobody() -> None:
    for name in ("stats", "bindings"):
        status = os.stat(PROC / name)
        assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o444, 0, 0)
    assert sorted(os.listdir(PROC)) == ["bindings", "stats"]

    def try_it() -> None:
        become(NOBODY)
        for name in ("stats", "bindings"):
            assert (PROC / name).read_text()
            with fails(errno.EACCES):
                os.open(PROC / name, os.O_WRONLY)

    in_child(try_it)


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
