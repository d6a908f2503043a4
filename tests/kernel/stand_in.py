# SPDX-License-Identifier: MIT
"""The tests of this folder on the stand-in of kbus.testing, with KBUS_STAND_IN set: which, and how."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from kbus._stand_in import StandInFile
from kbus.testing import Bus

IS_WANTED = "KBUS_STAND_IN" in os.environ

MODULES = (
    *("aio", "aio_serve", "aio_service", "answers_bounded", "binding", "call_and_serve", "eagain"),
    *("end_of_serving", "events", "inspect", "ksock_api", "ksock_transfer", "names"),
    *("observers", "order", "queues", "reading", "receive_bytes", "refusals", "requests", "send", "service"),
    *("sharing", "statuses", "transfer", "waiting", "waiting_for_bytes", "writing"),
)
"""The modules ``test_NAME.py`` that are about what the stand-in has; the others are about the kernel."""

_SIGNALS = "system calls that a signal ends"
_THREADS = "threads that sleep in one system call"
_HINTS = "hints to those who poll for room"
LEFT_OUT = {
    "test_a_duplicate_is_the_same_ksock": "duplicates of descriptors",
    "test_a_message_behind_the_line_is_told_when_that_has_gone": _HINTS,
    "test_a_new_device": "nodes in /dev",
    "test_a_poll_that_sleeps_for_pollpri_alone_is_woken": "POLLPRI",
    "test_epoll_tells_of_each_edge": "edges",
    "test_nextmsg_to_a_bad_address_loses_nothing": "bad addresses",
    "test_poll_of_a_quiet_ksock": "bits of poll that sockets have not",
    "test_pollin_while_something_is_queued": "bits of poll that sockets have not",
    "test_send_to_a_bad_address_sends_nothing": "bad addresses",
    "test_one_system_call_each": "system calls",
    "test_pollpri_while_the_next_is_urgent": "POLLPRI",
    "test_a_raised_limit_on_bytes_wakes_on_each_device": "limits that change while somebody waits",
    "test_a_signal_ends_a_long_call": _SIGNALS,
    "test_a_signal_ends_the_wait_or_is_not_noticed": _SIGNALS,
    "test_a_signal_interrupts": _SIGNALS,
    "test_an_interrupted_message_can_be_discarded": _SIGNALS,
    "test_the_place_is_kept_after_a_signal": _SIGNALS,
    "test_only_those_are_woken_whose_message_a_binding_brings": _THREADS,
    "test_two_threads_wait_for_one_message": _THREADS,
    "test_what_another_thread_discards_is_not_at_send": _THREADS,
    "test_who_does_not_try_again_is_told_once_more": _HINTS,
    "test_who_was_told_eagain_holds_up_nobody": _HINTS,
}
"""Tests in these that the stand-in cannot pass, and why. What else is left out skips itself: see `cannot`."""


def cannot(what: str) -> None:
    """Skip the test that is running, if it is on the stand-in, which cannot do this."""
    if IS_WANTED:
        pytest.skip(f"the stand-in has no {what}")


_NODE = re.compile(r"/dev/kbus(\d+)")
_MODES = {os.O_RDONLY: "r", os.O_WRONLY: "w", os.O_RDWR: "rw"}


class Descriptors(Bus):
    """A bus whose KSocks are reached by their descriptors too, with the calls of ``os`` and ``fcntl``."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self._files: dict[int, StandInFile] = {}

    def open(self, number: int, mode: str, nonblocking: bool) -> StandInFile:
        file = super().open(number, mode, nonblocking)
        self._files[file.fileno()] = file
        return file

    def _file(self, fd: object) -> StandInFile | None:
        file = self._files.get(fd) if isinstance(fd, int) else None
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
                cannot("O_PATH")
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
        cannot(f"parameter {name}")
    core = _in_place[-1].core
    before = core.limits
    core.set_limits(replace(before, **{_LIMITS[name]: value}))
    yield
    core.set_limits(before)


def is_waiting() -> bool:
    """Whether a call waits."""
    return _in_place[-1].core.is_waiting()


_in_place: list[Descriptors] = []


@contextmanager
def in_place() -> Iterator[None]:
    """In the block there is a bus of its own."""
    with Descriptors() as bus, bus.patched():
        _in_place.append(bus)
        yield
        _in_place.pop()
