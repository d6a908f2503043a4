# SPDX-License-Identifier: MIT
"""The table ``steps``: what has been done, in which order, to which tables.

Delta has no transaction over several tables, and a step changes several. A step has happened when its row is
here. The row says which files come and go; putting that into the logs of the tables is what whoever comes
next does, if the step has died before it did. So a table may for a moment lack what the last step did, but
has no part of it.

A row also says which step changed each table last, and what each kind of step wants to remember, so that only
the last one need be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from . import schemas
from .delta import Table
from .footers import seen
from .parquet import read_rows, write_rows
from .parts import Part, WarehouseError, part_from
from .stores import Store

STEPS = "steps"
#: How long rows are kept that nothing needs any more: a step that takes longer can't be published.
_KEPT = timedelta(days=7)


@dataclass
class Entry:
    """A step: what it did, which files come and go, and what it wants to remember (``note``).

    ``is_data`` is False if the same rows are only in other files, ``forget`` are kinds of steps whose notes
    hold no more, ``version`` is its number.
    """

    step: str
    add: list[Part] = field(default_factory=list)
    remove: list[Part] = field(default_factory=list)
    note: dict[str, Any] = field(default_factory=dict)
    is_data: bool = True
    forget: list[str] = field(default_factory=list)
    version: int = -1

    def tables(self) -> set[str]:
        """Return the tables whose files it adds or removes."""
        return {part.table for part in (*self.add, *self.remove)}

    def is_same(self, other: Entry) -> bool:
        """Whether this is the other one, as files have names at random."""
        return bool(self.add) and [part.path for part in self.add] == [part.path for part in other.add]

    def collides_with(self, other: Entry) -> bool:
        """Return whether only one of the two can be done, both having been made from the same tables."""
        if self.is_data and other.is_data:
            return not self.tables().isdisjoint(other.tables())
        return not {part.path for part in self.remove}.isdisjoint(part.path for part in other.remove)


@dataclass(frozen=True)
class State:
    """After step ``version``: the last note of each kind of step, and the last step for each table."""

    version: int = -1
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=dict)

    def after(self, entry: Entry) -> State:
        """Return what there is after one more step."""
        version = self.version + 1
        latest = {**self.latest, **dict.fromkeys(entry.tables(), version)}
        notes = {step: note for step, note in self.notes.items() if step not in entry.forget}
        return State(version, {**notes, entry.step: entry.note}, latest)


class Steps:
    """The rows of ``steps`` as they are now."""

    def __init__(self, root: Store) -> None:
        self._root = root
        self._table = Table(root, STEPS)
        found = self._table.actions()
        self._files = sorted(zip(found["max.step"].to_pylist(), found["path"].to_pylist()))
        self.state = State()
        if self._files:
            row = max(self._rows(self._files[-1:]), key=lambda each: int(each["step"]))
            self.state = State(row["step"], **json.loads(row["state"]))

    @property
    def settings(self) -> dict[str, str]:
        """What the tables were made with."""
        return self._table.settings

    def since(self, version: int) -> list[Entry]:
        """Return the steps later than ``version``. Raises WarehouseError if not all are known any more."""
        entries = self.known_since(version)
        if len(entries) != self.state.version - version:
            raise WarehouseError(f"what step {version + 1} did to the tables in {self._root} is forgotten")
        return entries

    def known_since(self, version: int) -> list[Entry]:
        """Return those of the steps later than ``version`` that are not forgotten, in their order.

        What is forgotten, all tables have.
        """
        rows = self._rows([each for each in self._files if each[0] > version])
        entries = [_entry(row) for row in rows if row["step"] > version]
        return sorted(entries, key=lambda each: each.version)

    def publish(self, entry: Entry) -> bool:
        """Have the step happen as the next one; False if another one has come before it."""
        row = _row(entry, self.state.after(entry))
        return self._table.commit(row["step"], [_write(self._root, [row])], (), what=entry.step)

    def begin_with(self, entries: Iterable[Entry]) -> None:
        """Have these steps as the first ones, if there are none. All tables have what the last one did."""
        if self._files:
            return
        rows, state = [], State()
        for entry in entries:
            state = state.after(entry)
            rows.append(_row(entry, state))
        last = replace(state, latest=dict.fromkeys(schemas.TABLES, state.version))
        rows[-1] = _row(entry, last)
        self._table.commit(last.version, [_write(self._root, rows)], (), what="upgrade")

    def shorten(self, needed: int) -> None:
        """Put all rows into one file, without those up to step ``needed``, if they are old."""
        old = self._table.parts()
        now = datetime.now(timezone.utc)
        rows = [
            row
            for row in self._rows(self._files)
            if row["step"] > needed or now - row["time"] < _KEPT or row["step"] == self.state.version
        ]
        if len(old) > 1:
            self._table.rearrange([_write(self._root, rows)], old)

    def _rows(self, files: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
        return [row for _, path in files for row in read_rows(self._root / STEPS / path)]


def _row(entry: Entry, state: State) -> dict[str, Any]:
    """Return the row for a step, given the state after it."""
    changes = {
        "add": [asdict(each) for each in entry.add],
        "remove": [asdict(each) for each in entry.remove],
        "is_data": entry.is_data,
    }
    return {
        "step": state.version,
        "name": entry.step,
        "time": datetime.now(timezone.utc),
        "tables": sorted(entry.tables()),
        "changes": json.dumps(changes),
        "state": json.dumps({"notes": state.notes, "latest": state.latest}),
    }


def _write(root: Store, rows: list[dict[str, Any]]) -> Part:
    (part,) = write_rows(root, STEPS, rows)
    return seen(root, part)


def _entry(row: dict[str, Any]) -> Entry:
    said = json.loads(row["changes"])
    note = json.loads(row["state"])["notes"][row["name"]]
    add, remove = ([part_from(each) for each in said[key]] for key in ("add", "remove"))
    return Entry(row["name"], add, remove, note, said["is_data"], version=row["step"])
