# SPDX-License-Identifier: MIT
"""The files of a recorder: one after the other, each of them whole."""

from __future__ import annotations

import errno
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from . import pcapng
from .header import LOST_BEFORE
from .identity import file_prefix
from .part import PartFile, compress, sync_directory
from .series import SUFFIX, SUFFIXES, sealed, stem
from .writer import section_start


@dataclass(frozen=True)
class Policy:
    """Where captures go, and what becomes of them. Sizes are in bytes, times in seconds; None is no limit.

    A file is sealed when it is longer than ``rotate_size``, or older than ``rotate_time``. All of the same
    series that are sealed take no more than ``keep`` with the one that is written: the oldest go, but never
    the one that was sealed last. The disk must have what was written after ``sync``, ``inf`` is when the file
    is sealed, and None never.
    """

    directory: Path
    rotate_size: Optional[int] = None
    rotate_time: Optional[float] = None
    keep: Optional[int] = None
    compress: bool = False
    sync: Optional[float] = math.inf


class Files:
    """The captures of one recorder, of which one at most is being written.

    ``info`` are the facts of their sections' headers. ``say`` gets what the user should know.
    All methods raise OSError if the disk is full or fails; nothing is torn by that, and they can be called
    again with the same. A file that could not be finished is said, counted in ``unfinished``, and the next
    one is another.
    """

    def __init__(
        self,
        policy: Policy,
        device: str,
        buses: Sequence[int],
        info: Mapping[str, Any],
        say: Callable[[str], None],
    ) -> None:
        self._policy = policy
        self._buses = buses
        self.info = info
        self._say = say
        self._prefix = file_prefix(device, list(buses))
        self._compressor = ThreadPoolExecutor(1, "compressor", _be_nice)
        self._file: Optional[PartFile] = None
        self._received = [0] * len(buses)
        self._lost_before = [0] * len(buses)
        self._lost = [0] * len(buses)
        self._began = 0.0
        self._unsynced_since = math.inf
        self._number = 0
        #: Which of this run's files it is, by its name without suffixes
        self._own: dict[str, int] = {}
        self.sealed = 0
        self.unfinished = 0
        self.last: Optional[Path] = None
        self.written = 0

    @property
    def messages(self) -> int:
        """How many messages are in the file that is being written."""
        return sum(self._received)

    @property
    def name(self) -> Optional[Path]:
        """What the file is called that is being written, if one is."""
        return self._file.name if self._file else None

    def begin(self, lost_before: Optional[Sequence[int]] = None) -> None:
        """Begin a new file, unless one is being written.

        Each device had ``lost_before`` so many, or else as many as by now.
        """
        if self._file is not None:
            return
        before = list(lost_before or self._lost)
        self._make_room(self._policy.rotate_size or 0)
        file = self._new_file()
        try:
            said = {**self.info, LOST_BEFORE: before}
            file.append(section_start(pcapng.NATIVE, said, self._buses))
            if self._policy.sync is not None and self._policy.sync < math.inf:
                # Else the disk would have all its bytes, and not the file.
                sync_directory(self._policy.directory)
        except OSError:
            file.discard()
            raise
        self._file = file
        self._received = [0] * len(self._buses)
        self._lost = self._lost_before = before
        self._began, self._unsynced_since = time.monotonic(), math.inf

    def _new_file(self) -> PartFile:
        while True:
            self._number += 1
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            path = self._policy.directory / f"{self._prefix}{stamp}-{self._number:04d}"
            # The clock has been set back, or another recorder has begun in this second.
            if any(path.with_name(path.name + suffix).exists() for suffix in SUFFIXES):
                continue
            with suppress(FileExistsError):
                return PartFile(path.with_name(path.name + SUFFIX))

    def append(self, data: bytes, received: Sequence[int], lost: Sequence[int]) -> None:
        """Append whole blocks, with so many messages of each device, which has lost so many by now.

        Where no file may be so long, they are the first of the next one.
        """
        self.begin()
        assert self._file is not None
        try:
            self._file.append(data)
        except OSError as error:
            if self._file.is_torn:
                self._give_up(self._file, error)
            elif error.errno == errno.EFBIG and any(self._received):
                self._say(f"{self._file.path.name} is as long as a file may be: {self.messages} messages")
                self.seal()
                self.append(data, received, lost)
                return
            raise
        self.written += len(data)
        self._received = [before + more for before, more in zip(self._received, received)]
        self._lost = list(lost)
        self._unsynced_since = min(self._unsynced_since, time.monotonic())

    def due(self) -> float:
        """Return when ``tick`` has something to do next, by time.monotonic(), if nothing is appended."""
        return min(self._sync_due(), self._seal_due())

    def _sync_due(self) -> float:
        every = self._policy.sync
        return math.inf if self._file is None or every is None else self._unsynced_since + every

    def _seal_due(self) -> float:
        size, age = self._policy.rotate_size, self._policy.rotate_time
        if self._file is None or not any(self._received):
            return math.inf
        if size is not None and self._file.size >= size:
            return -math.inf
        return math.inf if age is None else self._began + age

    def tick(self) -> None:
        """Do what it is time for: have the disk keep it, seal the file. To be called after ``append``."""
        now = time.monotonic()
        if self._file is not None and now >= self._sync_due():
            try:
                self._file.sync()
            except OSError as error:
                # The kernel reports it once, and what it could not write it may have dropped.
                self._give_up(self._file, error)
                raise
            self._unsynced_since = math.inf
        if now >= self._seal_due():
            self.seal()

    def seal(self, lost: Optional[Sequence[int]] = None) -> None:
        """End the file that is being written: statistics, and its name.

        Each device has ``lost`` so many by now, or else as many as ``append`` was given last.
        """
        if self._file is None:
            return
        file = self._file
        self._lost = list(lost or self._lost)
        try:
            self._append_statistics(file)
            self.last = file.seal(self._policy.sync is not None)
        except OSError as error:
            # The disk may have dropped what it refused once: a second try would prove nothing.
            self._give_up(file, error)
            raise
        self._file = None
        self.sealed += 1
        self._own[stem(self.last.name)] = self.sealed
        if self._policy.compress:
            self._compressor.submit(self._compress, self.last)
        self._make_room(0)

    def _give_up(self, file: PartFile, why: OSError) -> None:
        self._file = None
        self.unfinished += 1
        # The disk has failed already.
        with suppress(OSError):
            file.close()
        self._say(f"can't finish {file.name.name}: {why.strerror}")

    def _append_statistics(self, file: PartFile) -> None:
        now = time.time_ns()
        counts = zip(self._received, self._lost, self._lost_before)
        blocks = [
            pcapng.interface_statistics(pcapng.NATIVE, index, now, received, lost - before)
            for index, (received, lost, before) in enumerate(counts)
        ]
        try:
            file.append(b"".join(blocks))
        except OSError as error:
            if file.is_torn:
                raise
            self._say(f"{file.path.name} has no statistics: {error.strerror}")

    def _make_room(self, coming: int) -> None:
        """Delete the oldest files until the rest is within the limit, with ``coming`` bytes more."""
        keep = self._policy.keep
        if keep is None:
            return
        # The clock, by which names ascend, may have been set back: what is of this run is the newest.
        sizes = sealed(self._policy.directory, self._prefix)
        found = sorted(sizes, key=lambda path: self._own.get(stem(path.name), 0))
        self._own = {name: self._own[name] for name in {stem(path.name) for path in found} & set(self._own)}
        excess = sum(sizes.values()) + coming - keep
        for path in found:
            if excess <= 0 or self._own.get(stem(path.name)) == self.sealed:
                return
            # What can't be deleted does not count, then: else the others had to make room for it.
            excess -= sizes[path]
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                self._say(f"can't delete {path.name}: {error.strerror}")
            else:
                self._say(f"{path.name} is deleted, {sizes[path]} bytes, to stay within --keep {keep}")

    def _compress(self, path: Path) -> None:
        try:
            # There may have been no room for it meanwhile.
            with suppress(FileNotFoundError):
                compress(path)
        except OSError as error:
            self._say(f"can't compress {path}: {error.strerror}; it stays as it is")

    def finish(self, lost: Optional[Sequence[int]] = None) -> None:
        """Seal the last file, see there, and wait until all is compressed."""
        try:
            self.seal(lost)
        finally:
            self._compressor.shutdown()


def _be_nice() -> None:
    """Let this thread run when the processor is idle: Linux has a nice value for each."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
