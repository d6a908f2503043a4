# SPDX-License-Identifier: MIT
"""The data source ``kbus``, streaming: the files of a directory to which captures are uploaded.

What has been read of a file is a number of bytes, up to which it is whole blocks. A file may grow; it may
also be renamed from ``X.part`` to ``X``. What is not whole at its end waits, and so does all of a file of
gzip that is not whole; when the file has not been written to for ``settle`` seconds, its end is damage. It is
read all the same if the file grows after all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
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

from ..decode.batches import source_batch
from ..decode.paths import PART, Upload, existing, is_gzip, uploads
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
    ends that begins at ``offset`` then; -1 if there was none.
    """

    offset: int = 0
    section: int = -1
    told: int = 0
    gone: int = 0
    torn: int = -1

    def text(self) -> str:
        """Return it as it is in Spark's log of offsets."""
        return ",".join(map(str, self))


#: In the offset, files by their path, without PART
Positions = dict[str, Position]


def _positions(offset: dict[str, Any]) -> Positions:
    return {path: Position(*map(int, text.split(","))) for path, text in offset.items()}


@dataclass(frozen=True)
class Tail:
    """The end of a file of which nothing more is expected: from ``begin`` to ``end``."""

    path: str
    begin: int
    end: int


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

    def initialOffset(self) -> dict[str, str]:
        """Begin with nothing read."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the option ``maxBytes`` asks for."""
        return ReadMaxBytes(self._settings.max_bytes) if self._settings.max_bytes else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what is there now, and no more."""
        self._frozen = {_key(each.path): each.size for each in uploads(self._settings.path)}

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """Return how far the files can be read, but not much further than the limit from ``start``."""
        before = _positions(start)
        now = dict(before)
        listed = {_key(each.path): each for each in uploads(self._settings.path)}
        for path in before.keys() - listed.keys():
            # It may be between two names; the second time it is not.
            if before[path].gone:
                del now[path]
            else:
                now[path] = before[path]._replace(gone=1)
        room: Optional[int] = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        for path, upload in listed.items():
            if self._frozen is not None:
                if path not in self._frozen:
                    continue
                upload = upload._replace(size=min(upload.size, self._frozen[path]))
            position = before.get(path, Position())._replace(gone=0)
            if path in now:
                now[path] = position
            try:
                after = self._advance(upload, position, room)
            except OSError:
                # It is tried again; the command tells it.
                continue
            if after != Position():
                now[path] = after
            if room is not None:
                room -= after.offset - position.offset
                if room <= 0:
                    break
        return {path: position.text() for path, position in now.items()}

    def _advance(self, upload: Upload, position: Position, room: Optional[int]) -> Position:
        """Return how far the file can be read; if there is no ``room`` left behind a piece, that far."""
        if upload.size <= position.told:
            return position
        settled = time.time() - upload.mtime_ns / 1e9 > self._settings.settle
        with open_file(upload.path) as file:
            if is_gzip(file):
                return self._advance_gzip(file, upload.size, position, settled)
            if upload.size <= position.offset:
                return position
            known = section_at(file, position.section, position.offset)
            for found in scan(file, position.offset, upload.size, known, may_grow=True):
                if isinstance(found, Piece):
                    end = found.offset + int(found.run.ends[-1]) * 4
                    if room is not None and end - position.offset >= room:
                        return Position(end, found.section.begin, position.told)
                elif isinstance(found, End):
                    # Whoever appends while this is read has not made the file longer than it was listed with.
                    section = found.section.begin if found.section else -1
                    offset = min(found.offset, upload.size) if found.section is None else found.offset
                    is_left = settled and offset < upload.size
                    if is_left:
                        position = Position(offset, section, upload.size, torn=upload.size)
                    else:
                        position = Position(offset, section, position.told)
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
            return Position(max(end, position.offset), -1, size)
        return Position(max(torn.offset, position.offset), -1, size, torn=end) if settled else position

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """Return a task for files that are together up to the option ``split``."""
        before, after = _positions(start), _positions(end)
        tasks: list[InputPartition] = []
        parts: list[tuple[str, Range]] = []
        tails: list[Tail] = []
        room = self._settings.split
        for path in sorted(after):
            first, last = before.get(path, Position()), after[path]
            if last.offset > first.offset:
                if parts and last.offset - first.offset > room:
                    tasks.append(StreamTask(tuple(parts), tuple(tails)))
                    parts, tails, room = [], [], self._settings.split
                parts.append((path, self._range(path, first, last)))
                room -= last.offset - first.offset
            if last.told > first.told and last.torn >= 0:
                tails.append(Tail(path, last.offset, last.torn))
        return [*tasks, StreamTask(tuple(parts), tuple(tails))] if parts or tails else tasks

    def _range(self, path: str, first: Position, last: Position) -> Range:
        try:
            with open_file(existing(path)) as file:
                return Range(first.offset, last.offset, section_at(file, first.section, first.offset))
        except OSError:
            # Reading it will tell.
            return Range(first.offset, last.offset, None)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a task."""
        assert isinstance(partition, StreamTask)
        if self._gives_ranges:
            rows = [
                {
                    "path": path,
                    "begin": each.begin,
                    "end": each.end,
                    "section": each.section.begin if each.section else -1,
                }
                for path, each in partition.parts
            ]
            tails = [{"path": each.path, "begin": each.begin, "end": each.end} for each in partition.tails]
            yield pa.RecordBatch.from_pylist([*rows, *tails], self._columns)
            return
        for path, each in partition.parts:
            yield from read_range(path, each, self._settings, self._columns)
        if self._settings.mode == "PERMISSIVE":
            for tail in partition.tails:
                damage = Damage(tail.begin, tail.end - tail.begin, FORGOTTEN)
                yield source_batch(damage, tail.path, self._columns)


def _key(path: str) -> str:
    return path.removesuffix(PART)


def section_at(file: Any, begin: int, end: int) -> Optional[SectionHead]:
    """Return the section that begins there, with all that is said before its first packet and before ``end``;
    None for -1.
    """
    if begin < 0:
        return None
    for found in scan(file, begin, end):
        if isinstance(found, Piece):
            return found.section
        if isinstance(found, End):
            return found.section
    return None


#: Columns of a row a range; ``section`` is null for the end of a file of which nothing more is expected
RANGES = pa.schema(
    [("path", pa.string()), ("begin", pa.int64()), ("end", pa.int64()), ("section", pa.int64())]
)
