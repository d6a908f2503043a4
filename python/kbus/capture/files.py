# SPDX-License-Identifier: MIT
"""The files of a recorder: one after the other, each of them whole."""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from . import pcapng
from .compress import Compressor
from .header import LOST_BEFORE
from .part import PART, PartFile, sync_directory
from .series import SUFFIX, SUFFIXES, Series, stem
from .writer import section_start


@dataclass(frozen=True)
class Policy:
    """Where captures go, and what becomes of them. Sizes are in bytes, times in seconds; None is no limit.

    A file is sealed when it is longer than ``rotate_size``, or older than ``rotate_time``. All of the same
    series that are sealed take no more than ``keep`` with the one that is written: the oldest go, but never
    the one that was sealed last. ``sync`` says when the disk
    must have what was written: ``never``, ``seal``, ``always``, or every so many seconds.
    """

    directory: Path
    rotate_size: Optional[int] = None
    rotate_time: Optional[float] = None
    keep: Optional[int] = None
    compress: bool = False
    sync: str = "seal"

    def sync_seconds(self) -> Optional[float]:
        """Return how often the disk must have it all, 0.0 for whenever something is written, or None."""
        if self.sync in ("never", "seal"):
            return None
        return 0.0 if self.sync == "always" else float(self.sync)


class Files:
    """The captures of one recorder, of which one at most is being written.

    ``info`` gives the facts of a section's header that begins now. ``say`` is told what the user should know.
    All methods raise OSError if the disk is full or fails; nothing is torn by that, and they can be called
    again with the same.
    """

    def __init__(
        self,
        policy: Policy,
        device: str,
        buses: Sequence[int],
        info: Callable[[], dict[str, Any]],
        say: Callable[[str], None],
    ) -> None:
        self._policy = policy
        self._buses = buses
        self.info = info
        self._say = say
        self._series = Series(policy.directory, device, buses)
        with suppress(OSError):
            self._series.tidy(say)
        self._compressor = self._begin_compressing() if policy.compress else None
        self._file: Optional[PartFile] = None
        self._section: dict[str, Any] = {}
        self._received = [0] * len(buses)
        self._lost_before = [0] * len(buses)
        self._lost = [0] * len(buses)
        self._began = 0.0
        self._synced = 0.0
        self._is_synced = True
        self._number = 0
        self._own: dict[str, int] = {}
        self._undeletable: set[str] = set()
        self.sealed = 0
        self.unfinished = 0
        self.last: Optional[Path] = None
        self.written = 0

    @property
    def messages(self) -> int:
        """How many messages are in the file that is being written."""
        return sum(self._received)

    def _begin_compressing(self) -> Compressor:
        compressor = Compressor(self._say)
        # A crash may have come before an earlier recorder had done it.
        for path in self._series.sealed():
            if path.name.endswith(SUFFIX):
                compressor.add(path)
        return compressor

    def begin(
        self, info: Optional[dict[str, Any]] = None, lost_before: Optional[Sequence[int]] = None
    ) -> None:
        """Begin a new file, unless one is being written.

        It is of now, or, if these are given, has ``info`` and what each device had lost before it.
        """
        if self._file is not None:
            if info in (None, self._section):
                return
            self.seal()
        self._section = info or self.info()
        before = list(lost_before or self._lost)
        file = self._new_file()
        try:
            said = {**self._section, LOST_BEFORE: before}
            file.append(section_start(pcapng.NATIVE, said, self._buses))
            if self._policy.sync_seconds() is not None:
                # Else the disk would have all its bytes, and not the file.
                sync_directory(self._policy.directory)
        except OSError:
            file.discard()
            raise
        self._file = file
        self._received = [0] * len(self._buses)
        self._lost = self._lost_before = before
        self._began = self._synced = time.monotonic()

    def _new_file(self) -> PartFile:
        while True:
            self._number += 1
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            path = self._policy.directory / f"{self._series.prefix}{stamp}-{self._number:04d}"
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
        try:
            self._append(data)
        except OSError as error:
            if error.errno != errno.EFBIG or self._file is None or not any(self._received):
                raise
            self._say(f"{self._file.path.name} is as long as a file may be: {self.messages} messages")
            self.seal()
            self.begin()
            self._append(data)
        self.written += len(data)
        self._received = [before + more for before, more in zip(self._received, received)]
        self._lost = list(lost)
        self._is_synced = False

    def _append(self, data: bytes) -> None:
        assert self._file is not None
        try:
            self._file.append(data)
        except OSError:
            if self._file.is_torn:
                self._give_up(self._file)
            raise

    def due(self) -> float:
        """Return when ``tick`` has something to do next, by time.monotonic(), if nothing is appended."""
        return min(self._sync_due(), self._seal_due())

    def _sync_due(self) -> float:
        every = self._policy.sync_seconds()
        return math.inf if self._file is None or every is None or self._is_synced else self._synced + every

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
            except OSError:
                # The kernel tells once, and what it could not write it may have dropped.
                self._say(f"{self._file.path.name}{PART} may lack what was written to it last")
                self._give_up(self._file)
                raise
            self._synced, self._is_synced = now, True
        if now >= self._seal_due():
            self.seal()

    def seal(self, lost: Optional[Sequence[int]] = None) -> None:
        """End the file that is being written: statistics, and its name.

        Each device has ``lost`` so many by now, or else as many as ``append`` was told last. If that fails,
        the file is left as it is, counted in ``unfinished``, and the next one is another.
        """
        if self._file is None:
            return
        file, self._file = self._file, None
        self._lost = list(lost or self._lost)
        try:
            self._append_statistics(file)
            self.last = file.seal(self._policy.sync != "never")
        except OSError:
            # What the disk refused once it may have dropped: trying again would be no promise.
            self._give_up(file)
            raise
        self.sealed += 1
        if self._compressor:
            self._compressor.add(self.last)
        self._make_room(self.last)

    def _give_up(self, file: PartFile) -> None:
        self._file = None
        self.unfinished += 1
        # It is no news that the disk fails.
        with suppress(OSError):
            file.close()

    def _append_statistics(self, file: PartFile) -> None:
        now = time.time_ns()
        blocks = [
            pcapng.interface_statistics(pcapng.NATIVE, index, now, self._received[index], lost)
            for index, lost in enumerate(self._lost_since())
        ]
        try:
            file.append(b"".join(blocks))
        except OSError as error:
            if file.is_torn:
                raise
            self._say(f"{file.path.name} has no statistics: {error.strerror}")

    def _lost_since(self) -> list[int]:
        return [lost - before for lost, before in zip(self._lost, self._lost_before)]

    def _make_room(self, last: Path) -> None:
        """Delete the oldest files until the rest is within the limit, one file more included."""
        keep = self._policy.keep
        if keep is None:
            return
        # The clock, by which names ascend, may have been set back: what is of this run is the newest.
        self._own[stem(last.name)] = self.sealed
        found = sorted(self._series.sealed(), key=lambda path: self._own.get(stem(path.name), 0))
        self._own = {name: self._own[name] for name in {stem(path.name) for path in found} & set(self._own)}
        sizes = [_size(path) for path in found]
        excess = sum(sizes) + (self._policy.rotate_size or 0) - keep
        for path, size in zip(found, sizes):
            if excess <= 0 or stem(path.name) == stem(last.name):
                return
            excess -= size
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                # It does not count, then: else those that can be deleted had to make room for it.
                if path.name not in self._undeletable:
                    self._say(f"can't delete {path.name}: {error.strerror}")
                self._undeletable.add(path.name)
                continue
            self._say(f"{path.name} is deleted, {size} bytes: there are to be {keep} in all")

    def finish(self, lost: Optional[Sequence[int]] = None) -> None:
        """Seal the last file, see there, and wait until all is compressed."""
        try:
            self.seal(lost)
        finally:
            if self._compressor:
                self._compressor.finish()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
