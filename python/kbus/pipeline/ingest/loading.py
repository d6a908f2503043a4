# SPDX-License-Identifier: MIT
"""What a task of ``ingest`` does: first find out what files are, then write their messages to Parquet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Optional

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbus.capture.blocks import MOST_DAMAGE, Damage
from kbus.capture.input import open_file

from ..decode.batches import Messages, messages
from ..decode.beginning import open_upload
from ..decode.paths import Upload, is_gzip
from ..decode.scan import Counts, End, Range, outline, scan_part
from ..tables.buckets import bucket_of
from ..tables.parquet import Parts
from ..tables.parts import Part, Partition
from ..tables.stores import Store
from .known import Covered, Known
from .stretches import Stretches

_READ = 1 << 20
_DAY_NS = 86_400 * 1_000_000_000


@dataclass
class Damages:
    """The damage of a file: how much in all, and the ``first`` of it, of which ``reasons`` are taken."""

    first: list[Damage] = field(default_factory=list)
    count: int = 0
    bytes: int = 0

    def add(self, damage: Damage) -> None:
        """Count what comes next in the file."""
        self.count += 1
        self.bytes += damage.length
        if len(self.first) < MOST_DAMAGE:
            self.first.append(damage)

    def add_all(self, others: Damages) -> None:
        """Count what is in the next part of the file."""
        self.count += others.count
        self.bytes += others.bytes
        self.first = [*self.first, *others.first][:MOST_DAMAGE]

    def reasons(self) -> list[str]:
        """Return what is said of it, each once."""
        more = {f"and more, after {MOST_DAMAGE} places"} if self.count > len(self.first) else set()
        return sorted({each.reason for each in self.first} | more)


@dataclass
class Inspected:
    """What a file is: its digest, its first device, the ``capture`` of its sections, and ranges that can be
    read apart.

    ``damage`` is what is known to be no use before it is read, ``error`` why it can't be read.
    """

    upload: Upload
    sha256: str = ""
    device: str = ""
    captures: list[str] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    damage: Damages = field(default_factory=Damages)
    error: Optional[str] = None


def inspect(uploads: list[Upload], split: int) -> list[Inspected]:
    """Return what these files are."""
    return [_inspect(each, split) for each in uploads]


def _inspect(upload: Upload, split: int) -> Inspected:
    try:
        with open_file(upload.path) as file:
            digest = hashlib.sha256()
            while data := file.read(_READ):
                digest.update(data)
            captures, ranges, device = outline(file, None if is_gzip(file) else split)
    except OSError as error:
        return Inspected(upload, error=error.strerror or str(error))
    return Inspected(upload, digest.hexdigest(), device, captures, ranges)


@dataclass
class Health:
    """What was found in a file, or a part of it, beside its messages; ``error`` is why it can't be read."""

    path: str
    device: str = ""
    recorder: str = ""
    sections: int = 0
    messages: int = 0
    known: int = 0
    damage: Damages = field(default_factory=Damages)
    counts: list[Counts] = field(default_factory=list)
    first_ns: int = 1 << 63
    last_ns: int = -1
    error: Optional[str] = None


@dataclass
class Loaded:
    """What a task has written, and what it has to say of the files that it read."""

    parts: list[Part]
    health: list[Health]
    stretches: list[dict[str, Any]]


def load(root: Store, buckets: int, todo: list[tuple[str, Range]], covered: Covered) -> Loaded:
    """Write the messages of these parts of files to ``messages``, but those that are ``covered``.

    A file may have a section several times. All of it must be one part then.
    """
    with Parts(root, "messages") as parts:
        return _load(parts, buckets, todo, covered)


def _load(parts: Parts, buckets: int, todo: list[tuple[str, Range]], covered: Covered) -> Loaded:
    stretches = Stretches()
    healths = []
    known: dict[str, tuple[int, Known]] = {}
    for path, part in todo:
        health = Health(path)
        healths.append(health)
        section_begin = -1
        try:
            file = open_upload(path, part.begins)
        except OSError as error:
            health.error = error.strerror or str(error)
            continue
        with file:
            for found in messages(scan_part(file, part)):
                if isinstance(found, Messages):
                    if found.section.begin != section_begin:
                        section_begin, capture = found.section.begin, found.section.capture
                        stretches.finish()
                        count = stretches.count(capture)
                        # A file may have a section very often.
                        if capture not in known or known[capture][0] != count:
                            numbers = [*covered.get(capture, []), *stretches.covered(capture)]
                            known[capture] = count, Known(numbers)
                    _take(found, health, stretches, parts, known[capture][1], buckets)
                elif isinstance(found, Damage):
                    health.damage.add(found)
                elif isinstance(found, Counts):
                    health.counts.append(found)
                elif isinstance(found, End) and found.section:
                    health.device = health.device or found.section.device
                    health.recorder = health.recorder or found.section.recorder
                    health.sections += 1
        stretches.finish()
    return Loaded(parts.close(), healths, stretches.rows)


def _take(
    found: Messages, health: Health, stretches: Stretches, parts: Parts, known: Known, buckets: int
) -> None:
    if not health.device:
        health.device, health.recorder = found.section.device, found.section.recorder
    keep = known.lacks(found)
    count = len(found) if keep is None else int(keep.sum())
    health.known += len(found) - count
    if not count:
        return
    health.messages += count
    times = found.parsed.ts_ns
    kept = times if keep is None else times[keep]
    health.first_ns = min(health.first_ns, int(kept.min()))
    health.last_ns = max(health.last_ns, int(kept.max()))
    stretches.add(found, keep)
    bucket = bucket_of(found.section.device, buckets)
    for day, columns in by_day(found, keep):
        parts.add(Partition(day.isoformat(), bucket), columns)


def by_day(found: Messages, keep: Optional[NDArray[np.bool_]]) -> Iterator[tuple[date, dict[str, pa.Array]]]:
    """Yield the columns of the messages to keep, a UTC day at a time."""
    days = found.parsed.ts_ns // _DAY_NS
    for day in np.unique(days if keep is None else days[keep]).tolist():
        rows = (days == day) if keep is None else (days == day) & keep
        columns = found.columns
        if not rows.all():
            mask = pa.array(rows)
            columns = {name: column.filter(mask) for name, column in columns.items()}
        yield date(1970, 1, 1) + timedelta(days=day), columns
