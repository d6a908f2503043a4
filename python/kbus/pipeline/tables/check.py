# SPDX-License-Identifier: MIT
"""Whether the tables are whole, and what can be done if they are not."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from . import schemas
from .footers import footer_of
from .parts import Part, WarehouseError, problem_of
from .warehouse import Snapshot, Warehouse

#: Files that are looked at at the same time
_AT_ONCE = 8
#: What `repair` does about a file of a table, and what is to be done after it
_MADE_AGAIN = "`kbus-pipeline repair`, then `conversations` and `aggregate`, make it again"
_READ_AGAIN = "`kbus-pipeline repair`, then `ingest` of the recordings, bring back what was in it"
_LOST = "only new tables, made from the recordings, have what was in it"
_REMEDIES = {"messages": _READ_AGAIN, "files": _READ_AGAIN, "stretches": _LOST}


@dataclass
class Checked:
    """What was looked at, what is wrong with it, in words, and which files are of no use."""

    files: int = 0
    rows: int = 0
    bytes: int = 0
    problems: list[str] = field(default_factory=list)
    lost: list[Part] = field(default_factory=list)


def check(warehouse: Warehouse, snapshot: Snapshot) -> Checked:
    """Return how the tables are. Each file must be there, as long as it was, and end with its footer."""
    done = Checked()
    parts = [part for table in schemas.TABLES for part in snapshot.of(table)]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for part, problem in zip(parts, threads.map(lambda each: _look(warehouse, each), parts)):
            done.files += 1
            done.rows += part.rows
            done.bytes += part.bytes
            if problem:
                done.problems.append(f"{problem}: {_REMEDIES.get(part.table, _MADE_AGAIN)}")
                done.lost.append(part)
    done.problems += _disagreements(warehouse, snapshot, {part.table for part in done.lost})
    return done


def _look(warehouse: Warehouse, part: Part) -> str:
    """Return what is wrong with a file; empty if nothing is."""
    problem = problem_of(warehouse.root, part)
    if not problem:
        try:
            footer_of(warehouse.root, part)
        except WarehouseError as error:
            problem = str(error)
    return problem


def _disagreements(warehouse: Warehouse, snapshot: Snapshot, broken: set[str]) -> Iterator[str]:
    """Yield where tables tell different things of the same messages."""
    if not broken.isdisjoint(("messages", "stretches")):
        return
    messages = sum(part.rows for part in snapshot.of("messages"))
    told = sum(row["messages"] for row in warehouse.rows(snapshot.of("stretches"), ["messages"]))
    if messages != told:
        yield f"`messages` has {messages:,} rows, and `stretches` tells of {told:,} messages: {_LOST}"
