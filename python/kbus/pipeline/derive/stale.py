# SPDX-License-Identifier: MIT
"""Which partitions must be made again because of what is new."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..tables.buckets import bucket_of
from ..tables.parts import Part, Partition
from ..tables.steps import Entry
from ..tables.warehouse import Snapshot, Warehouse
from .aggregates import AGGREGATES
from .holes import Stretch, in_order

#: Of which tables steps make others
_SOURCES = {"conversations": {"stretches"}, "aggregate": {each.source for each in AGGREGATES}}


class Stale(NamedTuple):
    """Partitions to make again, and those that must be read for it."""

    make: frozenset[Partition]
    read: frozenset[Partition]


def stale_conversations(
    stretches: Iterable[Stretch], new: Iterable[Stretch], within: int, buckets: int
) -> Stale:
    """Return what new stretches change in conversations and events, given all stretches.

    A request may be answered in a stretch that begins ``within`` seconds after its own ends, and a hole
    lies between a stretch and the next one of the session. Which dates that concerns is what the stretches
    say, and not what follows from these times: a clock may have been set in between.
    """
    bound = within * 1_000_000_000
    sessions = in_order(stretches)
    fresh = {_identity(each) for each in new}
    make = frozenset(
        partition
        for session in sessions
        for each in _near(session, [_identity(one) in fresh for one in session], bound)
        for partition in _partitions(each, buckets)
    )
    read = frozenset(
        partition
        for session in sessions
        for each in _near(session, [not make.isdisjoint(_partitions(one, buckets)) for one in session], bound)
        for partition in _partitions(each, buckets)
    )
    return Stale(make, make | read)


def _identity(stretch: Stretch) -> tuple[object, ...]:
    return stretch["session"], stretch["capture"], stretch["begin"]


def _near(session: list[Stretch], chosen: list[bool], bound: int) -> list[Stretch]:
    """Return the stretches of a session that are chosen, near in time to one that is, or just before it."""
    near = list(chosen)
    # Both ways through those that are in order: how far the chosen ones behind, or before, reach.
    reach = -1
    for index, each in enumerate(session):
        near[index] |= each["first_mono_ns"] <= reach
        if chosen[index]:
            reach = max(reach, each["last_mono_ns"] + bound)
    start = 1 << 63
    for index in range(len(session) - 1, -1, -1):
        each = session[index]
        near[index] |= each["last_mono_ns"] >= start or (index + 1 < len(session) and chosen[index + 1])
        if chosen[index]:
            start = min(start, each["first_mono_ns"] - bound)
    return [each for each, is_near in zip(session, near) if is_near]


def _partitions(stretch: Stretch, buckets: int) -> list[Partition]:
    bucket = bucket_of(stretch["device"], buckets)
    return [Partition(date.isoformat(), bucket) for date in stretch["dates"]]


def added(entries: Iterable[Entry], table: str) -> list[Part]:
    """Return the files with new rows that these steps have added to a table."""
    return [part for entry in entries if entry.is_data for part in entry.add if part.table == table]


def changed(entries: Iterable[Entry], table: str) -> frozenset[Partition]:
    """Return the partitions of a table in which these steps have added or removed rows."""
    return frozenset(
        part.partition
        for entry in entries
        if entry.is_data
        for part in (*entry.add, *entry.remove)
        if part.table == table and part.partition
    )


def behind(warehouse: Warehouse, snapshot: Snapshot) -> list[str]:
    """Return which steps have something to do, ``conversations`` and ``aggregate`` of them."""
    return [step for step, tables in _SOURCES.items() if _has_new(warehouse, snapshot, step, tables)]


def _has_new(warehouse: Warehouse, snapshot: Snapshot, step: str, tables: Iterable[str]) -> bool:
    note = snapshot.notes.get(step)
    if not note:
        return any(snapshot.of(table) for table in tables)
    entries = warehouse.entries(note["upto"])
    return any(added(entries, table) or changed(entries, table) for table in tables)
