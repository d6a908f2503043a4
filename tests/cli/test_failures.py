# SPDX-License-Identifier: MIT
"""What failures say to do. Those that need a KSock to be asked are tested with a device."""

from __future__ import annotations

import errno
import grp
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from kbus import _refusals as refusals
from kbus import inspect
from kbus.terminal.failures import Failure, bind_failure, open_failure, proc_failure, send_failure


def failed(number: int, filename: str = "") -> OSError:
    return OSError(number, os.strerror(number), filename)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (
            errno.EMFILE,
            "can't open /dev/kbus0: this user has too many KSocks (module parameter max_user_ksocks),"
            " or this process too many open files (ulimit -n)",
        ),
        (errno.ENOMEM, "can't open /dev/kbus0: Cannot allocate memory"),
    ],
)
def test_open(number: int, said: str) -> None:
    assert str(open_failure(refusals.opening(failed(number), "/dev/kbus0", 0))) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (
            errno.ENOENT,
            "/proc/kbus/stats is not there: the kbus module is not loaded;"
            " load it with `modprobe kbus`, or with `insmod kbus.ko` where it was built",
        ),
        (errno.ENOMEM, "can't read /proc/kbus/stats: Cannot allocate memory"),
    ],
)
def test_proc(number: int, said: str) -> None:
    assert str(proc_failure(refusals.reading_proc(failed(number, "/proc/kbus/stats")))) == said


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of /proc/kbus."""
    monkeypatch.setattr(inspect, "STATS", tmp_path / "stats")
    return tmp_path


def owned_by(gid: int) -> Callable[[str], os.stat_result]:
    """In the place of os.stat."""
    return lambda _path: os.stat_result((0o40550, 0, 0, 2, 0, gid, 0, 0, 0, 0))


def test_proc_is_for_root_alone(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "stat", owned_by(0))
    assert str(proc_failure(refusals.reading_proc(failed(errno.EACCES, "/proc/kbus/stats")))) == (
        f"/proc/kbus/stats may not be read: {directory} belongs to root alone;"
        " be root, or load the module with proc_gid= the id of a group such as kbus"
    )


def test_proc_is_for_a_group(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = next(entry for entry in grp.getgrall() if entry.gr_gid)
    user = pwd.getpwuid(os.geteuid()).pw_name
    monkeypatch.setattr(os, "stat", owned_by(group.gr_gid))
    assert str(proc_failure(refusals.reading_proc(failed(errno.EACCES, "/proc/kbus/stats")))) == (
        f"/proc/kbus/stats may not be read: {directory} belongs to the group {group.gr_name};"
        f" `sudo adduser {user} {group.gr_name}`, then log in again"
    )


def test_proc_is_hidden(directory: Path) -> None:
    directory.rmdir()
    assert str(proc_failure(refusals.reading_proc(failed(errno.EACCES, "/proc/kbus/stats")))) == (
        "/proc/kbus/stats may not be read: not every user may read this /proc"
    )


def test_a_device_that_is_not_there_for_who_may_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[int]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/proc/kbus/stats")

    monkeypatch.setattr(inspect, "devices", refuse)
    assert str(open_failure(refusals.opening(failed(errno.ENOENT), "/dev/kbus7", 7))) == (
        "there is no device /dev/kbus7: the module has not made it;"
        " its parameter num_kbus_devices and the ioctl NEWDEVICE make more"
    )


def test_a_failure_without_a_file() -> None:
    """As when a test bus has gone."""
    error = OSError(errno.ECONNREFUSED, "there is no bus")
    assert str(proc_failure(error)) == str(open_failure(error)) == "there is no bus"
    assert str(send_failure(error)) == str(bind_failure(error)) == "there is no bus"


def test_statuses() -> None:
    assert Failure("why").status == 1
    assert Failure.usage("why").status == 2
    assert Failure.timed_out("why").status == 124
