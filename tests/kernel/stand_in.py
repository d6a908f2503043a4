# SPDX-License-Identifier: MIT
"""The tests of this folder on the stand-in of kbus.testing, with KBUS_STAND_IN set: which, and how."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from enum import Enum
from typing import Any
from unittest import mock

import pytest

from kbus._device import TEST_BUS
from kbus._stand_in import StandInFile
from kbus._test_bus import RemoteBus
from kbus.testing import Bus
from kbus.testing.server import serving

IS_WANTED = "KBUS_STAND_IN" in os.environ

MODULES = (
    *("aio", "aio_serve", "aio_service", "answers_bounded", "binding", "call_and_serve", "cli_bench"),
    *("cli_call", "cli_listen", "cli_look", "cli_play", "cli_proc", "cli_record", "cli_send", "cli_top"),
    *("devices", "eagain", "end_of_serving", "events", "inspect", "ksock_api", "ksock_transfer"),
    *("long_messages", "names", "nothing_told", "observers", "order", "porting", "procfs", "queues"),
    *("reading", "receive_bytes", "refusals", "requests", "send", "service", "sharing", "statuses"),
    *("transfer", "waiting", "writing"),
)
"""The modules ``test_NAME.py`` that are about what the stand-in has; the others are about the kernel."""


class Lacks(Enum):
    """What the stand-in does not have, in the words that a line of docs/howto/test.rst begins with."""

    ADDRESSES = "addresses at which there is no memory"
    CALLS = "system calls on its descriptors"
    CHANGES = "limits that change while somebody waits"
    FILES = "files in ``/dev``, ``/sys`` and ``/proc``"
    FORKS = "descriptors that a fork inherits, or that are duplicated"
    HINTS = "hints to those who poll for room"
    LOG = "the kernel's log"
    MACHINE = "a machine of its own"
    NAMESPACES = "namespaces"
    PARAMETERS = "parameters of the module"
    POLL = "``POLLPRI``, ``POLLRDNORM``, ``POLLWRNORM`` and edges of ``epoll``"
    SIGNALS = "calls that a signal ends"
    SPEED = "the speed of the module"
    THREADS = "several threads in one call"
    USERS = "users and their rights"


LEFT_OUT = {
    "test_a_duplicate_is_the_same_ksock": Lacks.FORKS,
    "test_a_full_disk_stops_it_until_there_is_room": Lacks.MACHINE,
    "test_a_forked_descriptor_is_the_same_ksock": Lacks.FORKS,
    "test_a_clock_that_jumps": Lacks.MACHINE,
    "test_a_killed_replier_answers_by_its_statuses": Lacks.FORKS,
    "test_a_ksock_lives_until_its_last_descriptor_is_closed": Lacks.FORKS,
    "test_a_message_behind_the_line_is_told_when_that_has_gone": Lacks.HINTS,
    "test_a_new_device": Lacks.FILES,
    "test_a_poll_that_sleeps_for_pollpri_alone_is_woken": Lacks.POLL,
    "test_a_raised_limit_on_bytes_wakes_on_each_device": Lacks.CHANGES,
    "test_a_reader_sees_one_moment": Lacks.FILES,
    "test_a_replier_that_another_process_has_inherited": Lacks.FORKS,
    "test_a_signal_ends_a_long_call": Lacks.SIGNALS,
    "test_a_signal_ends_the_wait_or_is_not_noticed": Lacks.SIGNALS,
    "test_a_signal_interrupts": Lacks.SIGNALS,
    "test_an_interrupted_message_can_be_discarded": Lacks.SIGNALS,
    "test_bind_refused": Lacks.PARAMETERS,
    "test_devices_as_a_table": Lacks.FILES,
    "test_devices_as_json": Lacks.FILES,
    "test_epoll_tells_of_each_edge": Lacks.POLL,
    "test_interrupted": Lacks.SIGNALS,
    "test_it_measures": Lacks.SPEED,
    "test_newdevice_makes_the_next_device": Lacks.FILES,
    "test_newdevice_needs_cap_sys_admin": Lacks.USERS,
    "test_nextmsg_to_a_bad_address_loses_nothing": Lacks.ADDRESSES,
    "test_nothing_survives_a_killed_owner": Lacks.FORKS,
    "test_one_system_call_each": Lacks.CALLS,
    "test_only_a_group_may_open_it": Lacks.USERS,
    "test_only_root_may_open_it": Lacks.USERS,
    "test_only_those_are_woken_whose_message_a_binding_brings": Lacks.THREADS,
    "test_pids_are_those_of_the_reader": Lacks.NAMESPACES,
    "test_poll_of_a_quiet_ksock": Lacks.POLL,
    "test_pollin_while_something_is_queued": Lacks.POLL,
    "test_pollpri_while_the_next_is_urgent": Lacks.POLL,
    "test_send_to_a_bad_address_sends_nothing": Lacks.ADDRESSES,
    "test_the_place_is_kept_after_a_signal": Lacks.SIGNALS,
    "test_two_threads_wait_for_one_message": Lacks.THREADS,
    "test_verbose_tells_the_kernel_log": Lacks.LOG,
    "test_what_another_thread_discards_is_not_at_send": Lacks.THREADS,
    "test_what_one_process_reads_another_may_answer": Lacks.FORKS,
    "test_who_was_told_eagain_holds_up_nobody": Lacks.HINTS,
}
"""Tests in these that the stand-in cannot pass, and why. What else is left out skips itself: see `cannot`."""


def cannot(what: Lacks) -> None:
    """Skip the test that is running, if it is on the stand-in, which cannot do this."""
    if IS_WANTED:
        pytest.skip(f"the stand-in lacks {what.value}")


_NODE = re.compile(r"/dev/kbus(\d+)")
_MODES = {os.O_RDONLY: "r", os.O_WRONLY: "w", os.O_RDWR: "rw"}


class Descriptors(Bus):
    """A bus whose KSocks are reached by their descriptors too, with the calls of ``os`` and ``fcntl``.

    Forks of this process reach it by a socket.
    """

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self._pid = os.getpid()
        self._files: dict[tuple[int, object], StandInFile] = {}
        """By process and descriptor."""

    def is_elsewhere(self) -> bool:
        """Whether this process is a fork."""
        return os.getpid() != self._pid

    def open(self, number: int, mode: str, nonblocking: bool) -> StandInFile:
        if self.is_elsewhere():
            file = RemoteBus(os.environ[TEST_BUS]).open(number, mode, nonblocking)
        else:
            file = super().open(number, mode, nonblocking)
        self._files[os.getpid(), file.fileno()] = file
        return file

    def proc_text(self, name: str) -> str:
        return (
            RemoteBus(os.environ[TEST_BUS]).proc_text(name)
            if self.is_elsewhere()
            else super().proc_text(name)
        )

    def _file(self, fd: object) -> StandInFile | None:
        file = self._files.get((os.getpid(), fd))
        return None if file is None or file.closed else file

    @contextmanager
    def patched(self) -> Iterator[None]:
        """In the block, ``open``, ``read``, ``write``, ``close`` and ``ioctl`` know these descriptors."""
        real_open, real_read, real_write, real_close = os.open, os.read, os.write, os.close
        real_readv, real_writev, real_ioctl = os.readv, os.writev, fcntl.ioctl

        def open(path: Any, flags: int, *rest: Any, **named: Any) -> int:
            node = _NODE.fullmatch(path) if isinstance(path, str) else None
            if node is None:
                return real_open(path, flags, *rest, **named)
            if flags & os.O_PATH:
                cannot(Lacks.FILES)
            return self.open(int(node[1]), _MODES[flags & os.O_ACCMODE], bool(flags & os.O_NONBLOCK)).fileno()

        def read(fd: int, count: int) -> bytes:
            file = self._file(fd)
            return file.read_piece(count) if file else real_read(fd, count)

        def write(fd: int, data: Any) -> int:
            file = self._file(fd)
            return file.write_piece(data) if file else real_write(fd, data)

        def readv(fd: int, buffers: Any) -> int:
            file = self._file(fd)
            if not file:
                return real_readv(fd, buffers)
            content = file.read_piece(sum(map(len, buffers)))
            length = len(content)
            for buffer in buffers:
                piece, content = content[: len(buffer)], content[len(buffer) :]
                buffer[: len(piece)] = piece
            return length

        def writev(fd: int, buffers: Any) -> int:
            file = self._file(fd)
            return file.write_piece(b"".join(buffers)) if file else real_writev(fd, buffers)

        def close(fd: int) -> None:
            file = self._file(fd)
            return file.close() if file else real_close(fd)

        def ioctl(fd: Any, number: int, *rest: Any) -> Any:
            file = self._file(fd)
            return file.ioctl(file, number, *rest) if file else real_ioctl(fd, number, *rest)

        patches = (open, read, write, readv, writev, close)
        with ExitStack() as stack:
            for name, function in ((function.__name__, function) for function in patches):
                stack.enter_context(mock.patch.object(os, name, function))
            stack.enter_context(mock.patch.object(fcntl, "ioctl", ioctl))
            yield


_LIMITS = {
    "default_queue_length": "queue_length",
    "max_queue_length": "max_queue_length",
    "max_queue_bytes": "queue_bytes",
    "default_message_size": "message_size",
    "max_message_size": "max_message_size",
}
"""Parameters of the module that the model has too, and what they are called there."""


@contextmanager
def parameter(name: str, value: int) -> Iterator[None]:
    """In the block, the parameter has this value."""
    if name not in _LIMITS:
        cannot(Lacks.PARAMETERS)
    core = _in_place[-1].core
    before = core.limits
    core.set_limits(replace(before, **{_LIMITS[name]: value}))
    yield
    core.set_limits(before)


def is_waiting() -> bool:
    """Whether a call waits; a fork cannot tell, and it is True there."""
    bus = _in_place[-1]
    return bus.is_elsewhere() or bus.core.is_waiting()


_in_place: list[Descriptors] = []


@contextmanager
def in_place() -> Iterator[None]:
    """In the block there is a bus of its own."""
    with (
        Descriptors() as bus,
        serving(core=bus.core) as path,
        bus.patched(),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(TEST_BUS, path)
        _in_place.append(bus)
        yield
        _in_place.pop()
