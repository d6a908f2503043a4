# SPDX-License-Identifier: MIT
"""Who may set what belongs to a whole device, and who may look at /proc/kbus: rules 32, 34 and 47."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbus import Ksock
from kbus.cli import main
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PROC, fails
from tests.kernel.module import parameter, reloaded
from tests.kernel.processes import CLONE_NEWUSER, NOBODY, as_nobody, become, in_child, unshare

NODE = "/dev/kbus0"
SOMEBODY, GROUP = 1234, 4242
DEFAULT_SIZE, SIZE = 1 << 20, 5000
FILES = ("bindings", "stats")

SETTINGS = {
    "VERBOSE": (raw.OFF, raw.ON),
    "REPORTREPLIERBINDS": (raw.OFF, raw.ON),
    "MAXMSGSIZE": (DEFAULT_SIZE, SIZE),
}
"""What belongs to a whole device: its value as it is, and another one."""
ASK = {"VERBOSE": raw.ASK, "REPORTREPLIERBINDS": raw.ASK, "MAXMSGSIZE": 0}
every_setting = pytest.mark.parametrize("which", SETTINGS)

pytestmark = pytest.mark.usefixtures("open_to_all")


@pytest.fixture(autouse=True)
def settings_as_they_were() -> Iterator[None]:
    yield
    with Ksock() as ksock:
        for which, (before, _) in SETTINGS.items():
            raw.number(ksock, which, before)


@contextmanager
def owned_by(uid: int) -> Iterator[None]:
    """The first node belongs to this user."""
    os.chown(NODE, uid, 0)
    try:
        yield
    finally:
        os.chown(NODE, 0, 0)


def asked(ksock: raw.HasFileno, which: str) -> int:
    return raw.number(ksock, which, ASK[which])


def set_it(ksock: raw.HasFileno, which: str) -> None:
    """Set another value; it must be in force."""
    raw.number(ksock, which, SETTINGS[which][1])
    assert asked(ksock, which) == SETTINGS[which][1]


def must_not_set(ksock: raw.HasFileno, which: str, error: int = errno.EPERM) -> None:
    """Setting is refused, changes nothing, and asking is not refused."""
    with fails(error):
        raw.number(ksock, which, SETTINGS[which][1])
    assert asked(ksock, which) == SETTINGS[which][0]


@pytest.mark.rule(32, 34)
@pytest.mark.abi("VERBOSE", "REPORTREPLIERBINDS", "MAXMSGSIZE")
@every_setting
def test_a_writer_is_no_administrator(which: str) -> None:
    def try_it() -> None:
        with Ksock() as ksock:
            must_not_set(ksock, which)

    as_nobody(try_it)


@pytest.mark.rule(32, 34)
@every_setting
def test_which_error_comes_first(which: str) -> None:
    """A value that is not allowed, a descriptor that is not open for writing, a user who may not."""

    def try_it() -> None:
        with Ksock() as ksock, fails(errno.EINVAL):
            raw.number(ksock, which, 99)
        with Ksock(mode="r") as reader:
            must_not_set(reader, which, errno.EBADF)

    as_nobody(try_it)


@pytest.mark.rule(32, 34)
@every_setting
def test_the_owner_of_the_node_is_one(which: str) -> None:
    def try_it() -> None:
        with Ksock() as ksock:
            set_it(ksock, which)

    with owned_by(NOBODY):
        as_nobody(try_it)


@pytest.mark.rule(32, 34)
@every_setting
def test_another_user_is_not(which: str) -> None:
    def try_it() -> None:
        become(SOMEBODY)
        with Ksock() as ksock:
            must_not_set(ksock, which)

    with owned_by(NOBODY):
        in_child(try_it)


@pytest.mark.rule(32, 34, 48)
@every_setting
def test_root_of_a_namespace_of_its_own_is_not(which: str) -> None:
    def try_it() -> None:
        unshare(CLONE_NEWUSER, NOBODY)
        with Ksock() as ksock:
            must_not_set(ksock, which)

    in_child(try_it)


@pytest.mark.rule(32, 34)
@every_setting
def test_root_is_one_whoever_owns_the_node(ksock: OpenKsock, which: str) -> None:
    with owned_by(NOBODY):
        set_it(ksock(), which)


@pytest.mark.rule(31, 32, 34)
@every_setting
def test_it_is_the_opener_that_counts(ksock: OpenKsock, which: str) -> None:
    """A descriptor that root has opened stays what it is, in whatever process."""
    opened = ksock()
    as_nobody(lambda: set_it(opened, which))


@pytest.mark.rule(32, 34)
@every_setting
def test_the_original_let_all_writers(which: str) -> None:
    def try_it() -> None:
        with Ksock(mode="r") as reader:
            must_not_set(reader, which, errno.EBADF)
        with Ksock() as ksock:
            set_it(ksock, which)

    with parameter("writers_configure", 1):
        as_nobody(try_it)


@pytest.mark.rule(32, 34)
def test_what_is_a_ksocks_own_is_for_all(ksock: OpenKsock) -> None:
    def try_it() -> None:
        with Ksock() as ksock:
            assert raw.number(ksock, "MSGONLYONCE", raw.ON) == raw.OFF
            assert raw.number(ksock, "REPORTLOST", raw.ON) == raw.OFF
            assert raw.number(ksock, "MAXMSGS", 7) == 7

    as_nobody(try_it)


# /proc/kbus.


def access(path: Path) -> tuple[int, int, int]:
    """Mode, user and group."""
    status = path.stat()
    return stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid


def look(groups: list[int]) -> Callable[[], bool]:
    """As a user with these groups: whether the files can be read. It must be all of them or none."""

    def try_it() -> bool:
        os.setgroups(groups)
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        seen = []
        for name in FILES:
            try:
                seen.append(bool((PROC / name).read_text()))
            except PermissionError as error:
                assert error.errno == errno.EACCES
                seen.append(False)
            with fails(errno.EACCES):
                os.open(PROC / name, os.O_WRONLY)
        assert len(set(seen)) == 1
        return seen[0]

    return try_it


@pytest.mark.rule(35, 47)
def test_only_root_may_look() -> None:
    with reloaded():
        assert sorted(os.listdir(PROC)) == sorted(FILES)
        assert access(PROC) == (0o550, 0, 0)
        assert [access(PROC / name) for name in FILES] == [(0o440, 0, 0)] * 2
        assert not in_child(look([]))
        assert all((PROC / name).read_text() for name in FILES)


@pytest.mark.rule(33, 47)
def test_a_group_may_look() -> None:
    with reloaded(proc_gid=GROUP):
        assert Path("/sys/module/kbus/parameters/proc_gid").read_text() == f"{GROUP}\n"
        assert access(PROC) == (0o550, 0, GROUP)
        assert [access(PROC / name) for name in FILES] == [(0o440, 0, GROUP)] * 2
        assert in_child(look([GROUP]))
        assert not in_child(look([GROUP + 1]))


@pytest.mark.rule(47)
def test_a_group_that_there_is_not() -> None:
    with fails(errno.EINVAL), reloaded(proc_gid="-1"):
        pass


@pytest.mark.rule(47)
def test_the_command_says_who_may_look(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats"]) == 0
    assert capsys.readouterr().out.startswith("kbus0: ")

    def run() -> tuple[int, str]:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            return main(["stats"]), said.getvalue()

    with reloaded():
        status, said = as_nobody(run)
    assert status == 1
    assert said == (
        "kbus stats: /proc/kbus/stats may not be read: /proc/kbus belongs to root alone;"
        " be root, or load the module with proc_gid= the id of a group such as kbus\n"
    )
