# SPDX-License-Identifier: MIT
"""``ingest``: captures become rows of ``messages``, ``files`` and ``stretches``, each message once.

A message is identified by the section that it is in (``capture``) and its number there, see ``known``. So it
does not matter whether a file comes twice, under two names, first cut and then whole, damaged and recovered,
or put together with others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Optional

from pyspark.sql import SparkSession

from kbus.capture.sections import EMPTY

from ..decode.paths import uploads
from ..source.session import suit
from ..source.streaming import FORGOTTEN
from ..tables import tasks
from ..tables.buckets import bucket_of
from ..tables.parquet import all_or_none, write_rows
from ..tables.parts import Part
from ..tables.steps import Entry
from ..tables.warehouse import Snapshot, Warehouse
from .known import Covered, covered_by
from .loading import Damages, Health, Inspected, Loaded, inspect, load
from .stretches import to_datetime

#: Bytes of captures for one task
SPLIT = 128 << 20
_TORN = (FORGOTTEN, "the file ends inside a block", "the file ends inside its gzip data")
_UNREADABLE = "unreadable"
#: Of what nothing is to be said
HEALTHY = ("ok", "copy")


class NotHealthy(Exception):
    """A file is damaged, or no capture, and that is not allowed."""


@dataclass
class Ingested:
    """What ``ingest`` did: files and bytes that were read, files that were known, rows, and how healthy the
    files were. ``said`` is what ``stream`` has to say of files, a line each.
    """

    files: int = 0
    known_files: int = 0
    bytes: int = 0
    messages: int = 0
    known_messages: int = 0
    written_bytes: int = 0
    damaged: int = 0
    skipped: int = 0
    health: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    said: list[str] = field(default_factory=list)


def ingest(
    spark: SparkSession, warehouse: Warehouse, where: Iterable[str], strict: bool = False, split: int = SPLIT
) -> Ingested:
    """Take the captures that ``where`` names into the tables, as far as they are not there yet.

    Raises FileNotFoundError, NotHealthy if ``strict`` and a file is not ok, and WarehouseError.
    """
    done = Ingested()
    found = sorted({each for one in where for each in uploads(one)})
    snapshot = warehouse.snapshot()
    known = warehouse.rows(snapshot.of("files"), ["path", "size", "mtime_ns", "sha256", "health"])
    seen = {(row["path"], row["size"], row["mtime_ns"]) for row in known if row["health"] != _UNREADABLE}
    told = {(row["path"], row["size"], row["mtime_ns"]) for row in known if row["health"] == _UNREADABLE}
    digests = {row["sha256"] for row in known if row["sha256"]}
    fresh = [each for each in found if tuple(each) not in seen]
    done.known_files = len(found) - len(fresh)
    groups = tasks.grouped(fresh, lambda each: each.size, split)
    inspected_groups, _ = tasks.together(
        spark,
        lambda: tasks.run(spark, partial(inspect, split=split), groups, "looking at files"),
        # Spark sets up SQL meanwhile.
        lambda: suit(spark, 0),
    )
    inspected = [each for group in inspected_groups for each in group]
    todo = []
    # Of two uploads of the same recording the longer one goes first.
    for each in sorted(inspected, key=lambda each: -each.upload.size):
        if each.sha256 in digests:
            done.known_files += 1
        elif each.error and tuple(each.upload) in told and not strict:
            done.files += 1
            done.health[_UNREADABLE] += 1
        else:
            digests.update({each.sha256} - {""})
            todo.append(each)
    for some in rounds(todo):
        snapshot = take(spark, warehouse, snapshot, some, split, done, strict)
    return done


def rounds(todo: Sequence[Inspected]) -> list[list[Inspected]]:
    """Return the files such that no two with the same section are in one round."""
    found: list[tuple[set[str], list[Inspected]]] = []
    for each in todo:
        fitting = next((one for one in found if one[0].isdisjoint(each.captures)), None)
        if fitting is None:
            fitting = set(), []
            found.append(fitting)
        fitting[0].update(each.captures)
        fitting[1].append(each)
    return [members for _, members in found]


def take(
    spark: SparkSession,
    warehouse: Warehouse,
    snapshot: Snapshot,
    some: list[Inspected],
    split: int,
    done: Ingested,
    strict: bool = False,
    note: Optional[dict[str, Any]] = None,
) -> Snapshot:
    """Take files into the tables, of which no two have a section in common, and return the tables as they are
    then.

    With a ``note`` this is a step of ``stream``.
    """
    known = covered(warehouse, snapshot, {capture for each in some for capture in each.captures})
    # Files of a bucket go to one task, or few, so that not every task writes to every bucket.
    in_order = sorted(some, key=lambda each: (bucket_of(each.device, snapshot.buckets), each.upload.path))
    work = [
        (each.upload.path, part, (part.end or each.upload.size) - part.begin)
        for each in in_order
        for part in each.ranges
    ]
    groups = tasks.grouped(work, lambda item: item[2], split)
    items = [[(path, part) for path, part, _ in group] for group in groups]
    function = partial(load, warehouse.root, snapshot.buckets, covered=known)
    entry = Entry("ingest" if note is None else "stream", note=note or {})
    with all_or_none(spark, warehouse.root):
        loaded = tasks.run(spark, function, items, "writing messages")
        health = merged_health(loaded)
        rows = [file_row(each, health.get(each.upload.path)) for each in some]
        if strict:
            _check(rows, health)
        for row in rows:
            done.messages += row["messages"]
            done.known_messages += row["known"]
            done.damaged += row["damaged"]
            done.skipped += row["skipped"]
        entry.add += [part for each in loaded for part in each.parts]
        stretches = [row for each in loaded for row in each.stretches]
        entry.add += write_rows(warehouse.root, "stretches", stretches)
        others: list[dict[str, Any]] = []
        if note is not None:
            entry.remove, earlier, others = _earlier_rows(warehouse, snapshot, {row["path"] for row in rows})
            rows = [reduce(_both, reversed(earlier[row["path"]]), row) for row in rows]
            done.said += [text for row in rows for text in _complaint(row, earlier[row["path"]])]
        entry.add += write_rows(warehouse.root, "files", [*rows, *others])
    snapshot = warehouse.commit(entry, snapshot)
    done.files += len(some)
    done.bytes += sum((part.end or each.upload.size) - part.begin for each in some for part in each.ranges)
    done.written_bytes += sum(part.bytes for part in entry.add)
    for row in rows:
        done.health[row["health"]] += 1
    return snapshot


def _earlier_rows(
    warehouse: Warehouse, snapshot: Snapshot, paths: set[str]
) -> tuple[list[Part], dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return which files of the table ``files`` tell of these files already, these rows by path, and the
    other rows that are there.

    A file that grows is read bit by bit, and has one row all the same, also if another takes its place.
    """
    removed: list[Part] = []
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    others: list[dict[str, Any]] = []
    for part in snapshot.of("files"):
        rows = warehouse.rows([part])
        if any(row["path"] in paths for row in rows):
            removed.append(part)
            for row in rows:
                (found[row["path"]] if row["path"] in paths else others).append(row)
    return removed, found, others


def _complaint(row: dict[str, Any], earlier: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with a file, unless its earlier rows tell the same."""
    is_said = any(one["health"] == row["health"] and one["reasons"] == row["reasons"] for one in earlier)
    if row["health"] not in HEALTHY and not is_said:
        yield f"{row['path']}: {': '.join([row['health'], *row['reasons']])}"


def _both(later: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a file of which two parts have been read."""
    if earlier["health"] in ("empty", "not a capture"):
        return later

    def known(values: Iterable[Any], choose: Any) -> Any:
        there = [value for value in values if value is not None]
        return choose(there) if there else None

    row = dict(later)
    for name in ("messages", "known", "damaged", "skipped", "received", "dropped"):
        row[name] = known((earlier[name], later[name]), sum)
    for name in ("captures", "reasons"):
        row[name] = list(dict.fromkeys([*earlier[name], *later[name]]))
    row["device"], row["recorder"] = (earlier[name] or later[name] for name in ("device", "recorder"))
    row["first_ts"] = known((earlier["first_ts"], later["first_ts"]), min)
    row["last_ts"] = known((earlier["last_ts"], later["last_ts"]), max)
    row["health"] = _UNREADABLE if later["health"] == _UNREADABLE else health_of(row)
    return row


def covered(warehouse: Warehouse, snapshot: Snapshot, captures: set[str]) -> Covered:
    """Return what of these sections is in the tables."""
    columns = ["capture", "first_seq", "last_seq", "first_mono_ns", "last_mono_ns"]
    columns += ["first_ts", "last_ts", "messages"]
    rows = warehouse.rows(snapshot.of("stretches"), columns)
    return covered_by(row for row in rows if row["capture"] in captures)


def merged_health(loaded: Iterable[Loaded]) -> dict[str, Health]:
    """Return what was found in each file, by path, whatever parts it was read in."""
    merged: dict[str, Health] = {}
    for each in (health for one in loaded for health in one.health):
        total = merged.setdefault(each.path, Health(each.path))
        total.device, total.recorder = total.device or each.device, total.recorder or each.recorder
        total.sections += each.sections
        total.messages += each.messages
        total.known += each.known
        total.damage.add_all(each.damage)
        total.counts += each.counts
        total.error = total.error or each.error
        total.first_ns, total.last_ns = min(total.first_ns, each.first_ns), max(total.last_ns, each.last_ns)
    return merged


def file_row(each: Inspected, health: Optional[Health]) -> dict[str, Any]:
    """Return the row of ``files`` for a file; ``health`` is None for one of which nothing was read."""
    found = health or Health(each.upload.path)
    damage = Damages()
    for one in (found.damage, each.damage):
        damage.add_all(one)
    error = each.error or found.error
    row = {
        **each.upload._asdict(),
        # What could not be read is tried again.
        "sha256": None if error else each.sha256 or None,
        "device": found.device,
        "recorder": found.recorder,
        "captures": each.captures,
        "messages": found.messages,
        "known": found.known,
        "damaged": damage.count,
        "skipped": damage.bytes,
        "reasons": [error] if error else damage.reasons(),
        "received": sum(count.received for count in found.counts) if found.counts else None,
        "dropped": sum(count.dropped for count in found.counts) if found.counts else None,
        "first_ts": to_datetime(found.first_ns) if found.messages else None,
        "last_ts": to_datetime(found.last_ns) if found.messages else None,
    }
    return {**row, "health": _UNREADABLE if error else health_of(row)}


def health_of(row: dict[str, Any]) -> str:
    """Return how a file is that could be read, from the other columns of ``files``."""
    if row["reasons"] == [EMPTY]:
        return "empty"
    if row["damaged"]:
        if not row["captures"] and not row["device"] and not row["recorder"]:
            return "not a capture"
        return "torn" if set(row["reasons"]) <= set(_TORN) else "damaged"
    if (row["received"] or 0) > row["messages"] + row["known"]:
        return "incomplete"
    return "copy" if row["known"] and not row["messages"] else "ok"


def _check(rows: Iterable[dict[str, Any]], health: dict[str, Health]) -> None:
    for row in rows:
        if row["health"] not in HEALTHY:
            damage = health[row["path"]].damage.first if row["path"] in health else []
            has_place = damage and damage[0].reason != EMPTY
            where = f" at byte {damage[0].offset}: {damage[0].reason}" if has_place else ""
            raise NotHealthy(f"{row['path']} is {row['health']}{where}; nothing was taken in")
