# SPDX-License-Identifier: MIT
"""Devices that are fakes, and a recorder of them."""

from __future__ import annotations

import errno
import math
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kbus import Announcement, Batch, Message
from kbus.capture.files import Files, Policy
from kbus.capture.recorder import Recorder
from kbus.capture.source import Source

from .captures import INFO


class FakeBus:
    """What ``Source`` opens in place of /dev/kbusN."""

    def __init__(self) -> None:
        self.failing: set[int] = set()
        self.opened: dict[int, FakeKsock] = {}

    def open(self, which: int, mode: str) -> FakeKsock:
        """What ``Ksock`` does."""
        assert mode == "r"
        self.opened[which] = FakeKsock(self, which)
        return self.opened[which]

    def send(self, which: int, name: str, count: int = 1, at: int | None = None) -> None:
        """Let messages come on a device."""
        self.opened[which].put([Message.from_message(Announcement(name)).to_bytes()] * count, at)


class FakeKsock:
    """A KSock that a recorder reads; ``queue`` is what it has not read, with its times."""

    def __init__(self, bus: FakeBus, which: int) -> None:
        self._bus = bus
        self._which = which
        self.queue: deque[tuple[int, bytes]] = deque()
        self._reader, self._writer = os.pipe()

    def put(self, messages: list[bytes], at: int | None = None) -> None:
        """Queue these, at this time of CLOCK_MONOTONIC (ns) in place of now."""
        if not self.queue:
            os.write(self._writer, b"\0")
        now = time.monotonic_ns() if at is None else at
        self.queue.extend((now, message) for message in messages)

    def set_max_messages(self, count: int) -> None:
        """It has no limit."""

    def want_messages_once(self, just_once: bool) -> None:
        """They come once."""

    def report_lost_messages(self, report: bool) -> None:
        """None are lost."""

    def bind(self, name: str, *, observer: bool) -> None:
        """Everything comes."""
        assert observer

    def fileno(self) -> int:
        """Readable when something is queued."""
        return self._reader

    def num_messages(self) -> int:
        """How many are queued."""
        return len(self.queue)

    def receive_bytes(self, room: int) -> Batch:
        """Some of them, and that none was lost."""
        if self._which in self._bus.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        found = [self.queue.popleft() for _ in range(min(len(self.queue), room // 64))]
        if found and not self.queue:
            os.read(self._reader, 1)
        messages, times = [each for _, each in found], [at for at, _ in found]
        return Batch(messages, times, 0, len(self.queue))

    def __enter__(self) -> FakeKsock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is queued any more."""
        if self._bus.opened.pop(self._which, None):
            os.close(self._reader)
            os.close(self._writer)


class Recording:
    """A recorder of two devices, and what it says."""

    def __init__(
        self, bus: FakeBus, directory: Path, sync: float | None = math.inf, flush: float = 0.2, **options: Any
    ) -> None:
        self.said: list[str] = []
        self._idle = os.pipe()
        info = {**INFO, "bus": [0, 1]}
        self.files = Files(Policy(directory, sync=sync), "lathe", [0, 1], info, self.said.append)
        self._bus = bus
        sources = [Source(0, ["$.*"]), Source(1, ["$.*"])]
        self.recorder = Recorder(sources, self.files, self.said.append, flush=flush, **options)

    def fileno(self) -> int:
        """Never readable."""
        return self._idle[0]

    def until(self, is_so: Callable[[], bool]) -> None:
        """Let it record until that is so."""
        end = time.monotonic() + 20
        while not is_so():
            assert time.monotonic() < end, self.said
            self.recorder.step(self.fileno(), 0.05)

    def has_read(self) -> bool:
        """Whether nothing is queued."""
        return all(not ksock.queue for ksock in self._bus.opened.values())

    def close(self) -> None:
        """End it, however far it has come."""
        self.recorder.close()
        for fd in self._idle:
            os.close(fd)
