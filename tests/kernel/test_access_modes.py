# SPDX-License-Identifier: MIT
"""What a descriptor may do that is open for reading, writing, both or neither: "Access" in decisions.rst."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple, Optional

import pytest

from tests.kernel import raw, transfer
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import device_stats, refused
from tests.kernel.module import parameter
from tests.kernel.processes import NOBODY, as_nobody, become, in_child

# Whoever may not look at /proc/kbus cannot see that nothing has changed.

NEITHER = 3
"""The access mode that Linux has for descriptors on which there is only ioctl."""
MODES = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR, "neither": NEITHER}
READING, WRITING, BOTH, ANY = {"r", "rw"}, {"w", "rw"}, {"rw"}, set(MODES)

SIZE = 1 << 20
"""MAXMSGSIZE, which stays as it is."""


@contextmanager
def opened(mode: str, path: str = "/dev/kbus0") -> Iterator[raw.Descriptor]:
    """A new KSock with one of MODES."""
    fd = os.open(path, MODES[mode] | os.O_CLOEXEC)
    try:
        yield raw.Descriptor(fd)
    finally:
        os.close(fd)


class Action(NamedTuple):
    """What descriptors of some modes may do, with `otherwise` for an outcome, and all others not: EBADF."""

    do: Callable[[raw.Descriptor], object]
    modes: set[str]
    otherwise: Optional[int] = None
    """An errno that has nothing to do with access; None for success."""


def number(name: str, value: int = 0) -> Callable[[raw.Descriptor], object]:
    return lambda fd: raw.number(fd, name, value)


def bind(which: str, is_replier: int) -> Callable[[raw.Descriptor], object]:
    return lambda fd: raw.bind_request(fd, which, b"$.A", is_replier=is_replier)


ACTIONS = {
    "RESET": Action(lambda fd: raw.command(fd, "RESET"), ANY),
    "BIND L": Action(bind("BIND", 0), READING),
    "BIND R": Action(bind("BIND", 1), BOTH),
    "UNBIND L": Action(bind("UNBIND", 0), READING, errno.EINVAL),
    "UNBIND R": Action(bind("UNBIND", 1), BOTH, errno.EINVAL),
    "KSOCKID": Action(number("KSOCKID"), ANY),
    "REPLIER": Action(lambda fd: raw.replier_query(fd, "REPLIER", b"$.A"), ANY),
    "RESOLVE": Action(lambda fd: raw.replier_query(fd, "RESOLVE", b"$.A"), ANY),
    "NEXTMSG": Action(number("NEXTMSG"), READING),
    "LENLEFT": Action(number("LENLEFT"), ANY),
    "SEND": Action(lambda fd: raw.msg_id(fd, "SEND"), WRITING, errno.ENOMSG),
    "DISCARD": Action(lambda fd: raw.command(fd, "DISCARD"), ANY),
    "LASTSENT": Action(lambda fd: raw.msg_id(fd, "LASTSENT"), ANY),
    "ABANDON": Action(lambda fd: raw.abandon(fd, (0, 1)), ANY, errno.ENOENT),
    "MAXMSGS ask": Action(number("MAXMSGS", 0), ANY),
    "MAXMSGS set": Action(number("MAXMSGS", 5), ANY),
    "NUMMSGS": Action(number("NUMMSGS"), ANY),
    "UNREPLIEDTO": Action(number("UNREPLIEDTO"), ANY),
    "LOSTMSGS": Action(number("LOSTMSGS"), ANY),
    "MSGONLYONCE ask": Action(number("MSGONLYONCE", raw.ASK), ANY),
    "MSGONLYONCE set": Action(number("MSGONLYONCE", raw.ON), ANY),
    "REPORTLOST ask": Action(number("REPORTLOST", raw.ASK), ANY),
    "REPORTLOST set": Action(number("REPORTLOST", raw.ON), ANY),
    "VERBOSE ask": Action(number("VERBOSE", raw.ASK), ANY),
    "VERBOSE set": Action(number("VERBOSE", raw.OFF), WRITING),
    "REPORTREPLIERBINDS ask": Action(number("REPORTREPLIERBINDS", raw.ASK), ANY),
    "REPORTREPLIERBINDS set": Action(number("REPORTREPLIERBINDS", raw.OFF), WRITING),
    "MAXMSGSIZE ask": Action(number("MAXMSGSIZE", 0), ANY),
    "MAXMSGSIZE ask for the highest": Action(number("MAXMSGSIZE", 1), ANY),
    "MAXMSGSIZE set": Action(number("MAXMSGSIZE", SIZE), WRITING),
    "NEWDEVICE": Action(number("NEWDEVICE"), ANY, errno.EPERM),
    "PEERINFO": Action(lambda fd: raw.peer_info(fd, 0), ANY, errno.ESRCH),
    "TRANSFER sending": Action(lambda fd: transfer.send(fd, raw.message(b"$.A")), WRITING),
    "TRANSFER receiving": Action(transfer.receive, READING),
    "TRANSFER both": Action(lambda fd: transfer.Transfer(raw.message(b"$.A")).call(fd), BOTH),
    "TRANSFER neither": Action(lambda fd: transfer.Transfer(room=0).call(fd), ANY),
    "read": Action(lambda fd: os.read(fd.fd, 10), READING),
    "write": Action(lambda fd: os.write(fd.fd, raw.message(b"$.A")), WRITING),
}


@pytest.mark.rule(8)
@pytest.mark.abi("every ioctl")
@pytest.mark.parametrize("mode", MODES)
def test_access(open_to_all: None, mode: str) -> None:
    def try_it(action: Action) -> None:
        expected = action.otherwise if mode in action.modes else errno.EBADF
        with opened(mode) as fd, nullcontext() if expected is None else refused(expected):
            action.do(fd)

    def try_all() -> None:
        for what, action in ACTIONS.items():
            try:
                try_it(action)
            except Exception as error:
                raise AssertionError(what) from error

    # As nobody, who has no capability that could stand in for the mode, but may set what belongs to the
    # device; and in one process, as it takes a debug kernel a second to make one.
    with parameter("writers_configure", 1):
        as_nobody(try_all)


CONFIGURES = {"VERBOSE": raw.ON, "REPORTREPLIERBINDS": raw.ON, "MAXMSGSIZE": SIZE - 4}
"""What concerns the whole device, and a value that it does not have."""


def set_and_restore(fd: raw.Descriptor, which: str) -> None:
    """Set it, see that it is set, and set it back."""
    ask, usual = (0, SIZE) if which == "MAXMSGSIZE" else (raw.ASK, raw.OFF)
    raw.number(fd, which, CONFIGURES[which])
    assert raw.number(fd, which, ask) == CONFIGURES[which]
    raw.number(fd, which, usual)
    assert raw.number(fd, which, ask) == usual


@contextmanager
def owned_by(uid: int) -> Iterator[None]:
    """/dev/kbus0 belongs to another user."""
    os.chown("/dev/kbus0", uid, -1)
    try:
        yield
    finally:
        os.chown("/dev/kbus0", 0, -1)


@pytest.mark.rule(32, 34)
@pytest.mark.abi("VERBOSE", "REPORTREPLIERBINDS", "MAXMSGSIZE")
@pytest.mark.parametrize("which", CONFIGURES)
def test_who_may_configure_the_device(open_to_all: None, which: str) -> None:
    def as_writer() -> None:
        with opened("rw") as fd:
            set_and_restore(fd, which)

    def as_another() -> None:
        with opened("rw") as fd, refused(errno.EPERM):
            raw.number(fd, which, CONFIGURES[which])

    def as_root_of_another_opener() -> None:
        with opened("rw") as fd:
            become(NOBODY)
            with refused(errno.EPERM):
                raw.number(fd, which, CONFIGURES[which])

    as_writer()
    as_nobody(as_another)
    with owned_by(NOBODY):
        as_nobody(as_writer)
        # A capability counts when the call is made, the owner is who opened the file.
        as_writer()
        in_child(as_root_of_another_opener)
    as_nobody(as_another)
    with parameter("writers_configure", 1):
        as_nobody(as_writer)
    as_nobody(as_another)


@pytest.mark.rule(32, 34)
@pytest.mark.abi("VERBOSE", "REPORTREPLIERBINDS", "MAXMSGSIZE")
@pytest.mark.parametrize("which", CONFIGURES)
def test_errors_come_in_this_order(open_to_all: None, which: str) -> None:
    def try_it() -> None:
        for mode in MODES:
            with opened(mode) as fd:
                with refused(errno.EINVAL):
                    raw.number(fd, which, 2)
                with refused(errno.EPERM if mode in WRITING else errno.EBADF):
                    raw.number(fd, which, CONFIGURES[which])

    as_nobody(try_it)
    with parameter("writers_configure", 1), opened("r") as fd, refused(errno.EBADF):
        raw.number(fd, which, CONFIGURES[which])


def test_every_ioctl_is_among_them() -> None:
    assert {what.split()[0] for what in ACTIONS} - {"read", "write"} == set(raw.IOCTLS)


@pytest.mark.rule(30)
@pytest.mark.parametrize("mode", MODES)
def test_what_poll_tells(ksock: OpenKsock, mode: str) -> None:
    """POLLOUT only to those who may write; POLLIN to all, of whom only readers can have anything queued."""
    sender = ksock()
    with opened(mode) as fd:
        if mode in READING:
            raw.bind_request(fd, "BIND", b"$.A")
        raw.send(sender, raw.message(b"$.A"))
        poll = select.poll()
        poll.register(fd.fd)
        expected = select.POLLIN | select.POLLRDNORM if mode in READING else 0
        expected |= select.POLLOUT | select.POLLWRNORM if mode in WRITING else 0
        assert poll.poll(0) == ([(fd.fd, expected & (select.POLLIN | select.POLLOUT))] if expected else [])


# The same file opened in other ways.


@contextmanager
def node_mode(mode: int) -> Iterator[None]:
    """/dev/kbus0 with other permissions."""
    before = stat.S_IMODE(os.stat("/dev/kbus0").st_mode)
    os.chmod("/dev/kbus0", mode)
    try:
        yield
    finally:
        os.chmod("/dev/kbus0", before)


def test_opening_a_descriptor_again_makes_another_ksock() -> None:
    with opened("r") as first, opened("rw", f"/proc/self/fd/{first.fd}") as second:
        assert raw.number(second, "KSOCKID") == raw.number(first, "KSOCKID") + 1
        raw.bind_request(second, "BIND", b"$.A", is_replier=1)
        with refused(errno.EBADF):
            raw.bind_request(first, "BIND", b"$.B", is_replier=1)


@pytest.mark.rule(33)
def test_opening_a_descriptor_again_gives_no_more_than_the_node() -> None:
    def try_it() -> None:
        become(NOBODY)
        with opened("r") as reader:
            path = f"/proc/self/fd/{reader.fd}"
            for mode in ("w", "rw", "neither"):
                with refused(errno.EACCES):
                    os.open(path, MODES[mode])
            with opened("r", path) as again:
                assert raw.number(again, "KSOCKID") != raw.number(reader, "KSOCKID")

    with node_mode(0o644):
        in_child(try_it)


@pytest.mark.rule(8)
def test_a_descriptor_keeps_its_mode_wherever_it_goes() -> None:
    with opened("r") as reader:
        flags = fcntl.fcntl(reader.fd, fcntl.F_GETFL)
        fcntl.fcntl(reader.fd, fcntl.F_SETFL, flags | os.O_RDWR | os.O_NONBLOCK)
        copy = raw.Descriptor(os.dup(reader.fd))
        with refused(errno.EBADF):
            os.write(copy.fd, raw.message(b"$.A"))
        with refused(errno.EBADF):
            raw.msg_id(copy, "SEND")
        os.close(copy.fd)

        def as_root() -> None:
            with refused(errno.EBADF):
                raw.bind_request(reader, "BIND", b"$.A", is_replier=1)

        in_child(as_root)


def test_o_path_is_no_ksock() -> None:
    def try_it() -> None:
        become(NOBODY)
        path = raw.Descriptor(os.open("/dev/kbus0", os.O_PATH))
        assert device_stats()["ksocks"] == 0
        with refused(errno.EBADF):
            raw.number(path, "KSOCKID")
        with refused(errno.EBADF):
            os.read(path.fd, 1)
        for mode in MODES:
            with refused(errno.EACCES):
                os.open(f"/proc/self/fd/{path.fd}", MODES[mode])

    in_child(try_it)


@pytest.mark.rule(33)
@pytest.mark.parametrize(
    ("mode", "group", "may"),
    [
        (0o660, 0, set()),
        (0o660, NOBODY, ANY),
        (0o640, NOBODY, {"r"}),
        (0o620, NOBODY, {"w"}),
        (0o606, NOBODY, set()),
        (0o604, 0, {"r"}),
        (0o666, 0, ANY),
    ],
)
def test_the_nodes_mode_and_group_decide(mode: int, group: int, may: set[str]) -> None:
    def try_it() -> set[str]:
        become(NOBODY)
        opened_as = set()
        for how in MODES:
            try:
                with opened(how):
                    opened_as.add(how)
            except PermissionError:
                pass
        return opened_as

    before = os.stat("/dev/kbus0").st_gid
    os.chown("/dev/kbus0", -1, group)
    try:
        with node_mode(mode):
            assert in_child(try_it) == may
    finally:
        os.chown("/dev/kbus0", -1, before)
