# SPDX-License-Identifier: MIT
"""The data source ``kbus``, streaming: the files of a directory to which captures are uploaded.

What has been read of a file is a number of bytes, up to which it is whole blocks. A file may grow; it may
also be renamed from ``X.part`` to ``X``. What is not whole at its end waits, and so does all of a file of
gzip that is not whole; when the file has not been written to for ``settle`` seconds, its end is damage. It is
read all the same if the file grows after all. A file that is replaced by one that begins differently is read
from its beginning.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Optional

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from kbus.capture.blocks import Damage
from kbus.capture.input import open_file
from kbus.capture.sections import NO_CAPTURE

from ..decode.batches import source_batch
from ..decode.beginning import MOST, Beginning, beginning, open_upload
from ..decode.paths import PART, Upload, is_gzip, uploads
from ..decode.scan import End, Piece, Range, scan
from ..decode.sections import SectionHead
from .reading import Options, Task, read_range

#: The damage that such an end is
FORGOTTEN = "a file ends inside a block, and nothing more has come"


class Position(NamedTuple):
    """How far a file has been read.

    ``offset`` is where the next block begins, ``section`` where its section does (-1: none yet, or gzip);
    both count bytes as they are without gzip. ``told`` is the size of the file, as it is, of which nothing
    more was expected. ``gone`` is 1 when the file was missing the last time. ``torn`` is where the damage
    ends that begins at ``offset`` then; -1 if there was none. ``turn`` counts how often the file was replaced
    by another. ``digest`` tells how what has been read begins; -1 if nothing has, or by an earlier version,
    whose checkpoints have the first five.
    """

    offset: int = 0
    section: int = -1
    told: int = -1
    gone: int = 0
    torn: int = -1
    turn: int = 0
    digest: int = -1

    def text(self) -> str:
        """Return it as it is in Spark's log of offsets."""
        return ",".join(map(str, self))

    @property
    def begins(self) -> Optional[Beginning]:
        """How the file begins; None if that is not known."""
        return Beginning(self._compared(), self.digest) if self.digest >= 0 else None

    def with_digest(self, file: BinaryIO) -> Position:
        """Return it with the digest of the file, of which so much has been read."""
        length = self._compared()
        return self._replace(digest=beginning(file, length).digest) if length else self

    def at(self, offset: int, section: Optional[SectionHead]) -> Position:
        """Return it further on in the same file, with no damage behind it."""
        return self._replace(offset=offset, section=section.begin if section else -1, torn=-1)

    def _compared(self) -> int:
        return min(max(self.offset, self.torn), MOST)


#: In the offset, files by their path, without PART; but with it if both are there
Positions = dict[str, Position]


def _positions(offset: dict[str, Any]) -> Positions:
    return {path: Position(*map(int, text.split(","))) for path, text in offset.items()}


@dataclass(frozen=True)
class Tail:
    """The end of a file that is not to grow: from ``begin`` to ``end``; the file ``begins`` so."""

    path: str
    begin: int
    end: int
    begins: Optional[Beginning]


@dataclass(frozen=True)
class StreamTask(Task):
    """What one task reads, and what it says of the ends of files."""

    tails: tuple[Tail, ...] = ()


class KbusStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is new in a directory. ``columns`` are None for a row a range instead of a message."""

    def __init__(self, settings: Options, columns: pa.Schema, gives_ranges: bool) -> None:
        self._settings = settings
        self._columns = columns
        self._gives_ranges = gives_ranges
        self._frozen: Optional[dict[str, int]] = None
        #: Files as they were when they were opened last
        self._opened: dict[str, Upload] = {}

    def initialOffset(self) -> dict[str, str]:
        """Begin with nothing read."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the option ``maxBytes`` asks for."""
        return ReadMaxBytes(self._settings.max_bytes) if self._settings.max_bytes else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what is there now, and no more."""
        self._frozen = {key: each.size for key, each in self._listed().items()}

    def _listed(self) -> dict[str, Upload]:
        listed: dict[str, Upload] = {}
        # X is before X.part, which may be another upload that is to replace it.
        for each in uploads(self._settings.path):
            key = each.path.removesuffix(PART)
            listed[each.path if key in listed else key] = each
        return listed

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """Return how far the files can be read, but not much further than the limit from ``start``."""
        before = _positions(start)
        now = dict(before)
        listed = self._listed()
        for path in before.keys() - listed.keys():
            # It may be between two names; the second time it is not.
            if before[path].gone:
                del now[path]
                self._opened.pop(path, None)
            else:
                now[path] = before[path]._replace(gone=1)
        room: Optional[int] = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        for path, upload in listed.items():
            if self._frozen is not None and path not in self._frozen:
                continue
            position = before.get(path, Position())._replace(gone=0)
            if path in now:
                now[path] = position
            is_all = upload.size in (position.offset, position.told)
            if is_all and position.begins and upload == self._opened.get(path):
                continue
            try:
                after = self._advance(upload.path, (self._frozen or {}).get(path), position, room)
            except OSError:
                # It is tried again; the command tells it.
                continue
            self._opened[path] = upload
            if after != Position():
                now[path] = after
            if room is not None:
                room -= after.offset - (position.offset if after.turn == position.turn else 0)
                if room <= 0:
                    break
        return {path: position.text() for path, position in now.items()}

    def _advance(self, path: str, most: Optional[int], position: Position, room: Optional[int]) -> Position:
        """Return how far the file can be read, up to ``most`` bytes of it if that is given."""
        with open_file(path) as file:
            # It may be another one than when the directory was listed.
            status = os.fstat(file.fileno())
            size = status.st_size if most is None else min(status.st_size, most)
            # An empty file may be about to be uploaded anew.
            if size and position.begins and not position.begins.is_of(file):
                position = Position(turn=position.turn + 1)
            after = position
            if size > position.told:
                # A time in the future is of a clock that was wrong.
                settled = abs(time.time() - status.st_mtime) > self._settings.settle
                if is_gzip(file):
                    after = self._advance_gzip(file, size, position, settled)
                else:
                    after = self._advance_plain(file, size, position, settled, room)
            return after if after == position and position.begins else after.with_digest(file)

    def _advance_plain(
        self, file: BinaryIO, size: int, position: Position, settled: bool, room: Optional[int]
    ) -> Position:
        """Return how far the file can be read; if there is no ``room`` left behind a piece, that far."""
        if position.offset >= max(size, 1):
            return position
        known = section_at(file, position.section, position.offset)
        for found in scan(file, position.offset, size, known, may_grow=True):
            if isinstance(found, Piece):
                end = found.offset + int(found.run.ends[-1]) * 4
                if room is not None and end - position.offset >= room:
                    return position.at(end, found.section)
            elif isinstance(found, End):
                # Whoever appends while this is read has not made the file longer than it was then.
                offset = min(found.offset, size) if found.section is None else found.offset
                after = position.at(offset, found.section)
                is_left = settled and (offset < size or not size)
                return after._replace(told=size, torn=size) if is_left else after
        return position

    def _advance_gzip(self, file: BinaryIO, size: int, position: Position, settled: bool) -> Position:
        """Return the whole of a file of gzip, if it is whole, or nothing more is expected."""
        end = 0
        torn: Optional[Damage] = None
        for found in scan(file):
            if isinstance(found, Damage) and "gzip" in found.reason:
                torn = found
            elif isinstance(found, End):
                end = found.offset
        if torn is None:
            return position.at(max(end, position.offset), None)._replace(told=size)
        if not settled:
            return position
        return position.at(max(torn.offset, position.offset), None)._replace(told=size, torn=end)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """Return a task for files that are together up to the option ``split``."""
        before, after = _positions(start), _positions(end)
        tasks: list[InputPartition] = []
        parts: list[tuple[str, Range]] = []
        tails: list[Tail] = []
        room = self._settings.split
        for path in sorted(after):
            first, last = before.get(path, Position()), after[path]
            if last.turn != first.turn:
                first = Position()
            if last.offset > first.offset:
                if parts and last.offset - first.offset > room:
                    tasks.append(StreamTask(tuple(parts), tuple(tails)))
                    parts, tails, room = [], [], self._settings.split
                parts.append((path, self._range(path, first, last)))
                room -= last.offset - first.offset
            if last.told > first.told and last.torn >= 0:
                tails.append(Tail(path, last.offset, last.torn, last.begins))
        return [*tasks, StreamTask(tuple(parts), tuple(tails))] if parts or tails else tasks

    def _range(self, path: str, first: Position, last: Position) -> Range:
        section = None
        # Reading it will tell.
        with suppress(OSError), open_upload(path, last.begins) as file:
            section = section_at(file, first.section, first.offset)
        return Range(first.offset, last.offset, section, last.begins)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a task."""
        assert isinstance(partition, StreamTask)
        if self._gives_ranges:
            rows: list[tuple[Any, ...]] = [
                (path, each.begin, each.end, each.section.begin if each.section else -1, each.begins)
                for path, each in partition.parts
            ]
            rows += [(each.path, each.begin, each.end, None, each.begins) for each in partition.tails]
            yield pa.RecordBatch.from_pylist(
                [dict(zip(self._columns.names, (*row, *(begins or (None, None))))) for *row, begins in rows],
                self._columns,
            )
            return
        for path, each in partition.parts:
            yield from read_range(path, each, self._settings, self._columns)
        if self._settings.mode == "PERMISSIVE":
            for tail in partition.tails:
                try:
                    with open_upload(tail.path, tail.begins) as file:
                        reason = reason_at(file, tail.begin)
                except OSError as error:
                    reason = error.strerror or str(error)
                damage = Damage(tail.begin, tail.end - tail.begin, reason)
                yield source_batch(damage, tail.path, self._columns)


def reason_at(file: BinaryIO, begin: int) -> str:
    """Return why the rest of a file is damage, of which nothing more is expected."""
    found = [] if begin else scan(file, 0, 1)
    reasons = (each.reason for each in found if isinstance(each, Damage))
    return next((reason for reason in reasons if reason in NO_CAPTURE), FORGOTTEN)


def section_at(file: Any, begin: int, end: int) -> Optional[SectionHead]:
    """Return the section that begins there, with all that is said before its first packet and before ``end``;
    None for -1, and for gzip, of which what is before has to be read in any case.
    """
    if begin < 0 or is_gzip(file):
        return None
    for found in scan(file, begin, end):
        if isinstance(found, Piece):
            return found.section
        if isinstance(found, End):
            return found.section
    return None


#: Columns of a row a range; ``section`` is null for the end of a file of which nothing more is expected. The
#: last two tell how the file begins, if that is known.
RANGES = pa.schema(
    [
        ("path", pa.string()),
        ("begin", pa.int64()),
        ("end", pa.int64()),
        ("section", pa.int64()),
        ("length", pa.int64()),
        ("digest", pa.int64()),
    ]
)
