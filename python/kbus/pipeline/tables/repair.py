# SPDX-License-Identifier: MIT
"""Making tables whole that have lost files, as far as the recordings or other tables can bring back the rows.

What is lost of tables that are made of others is made again by the steps that make them. What is lost of
``messages`` becomes a hole: ``stretches`` tells then only of what is left, and ``files`` of no file that had
it, so that ``ingest`` of the recordings takes in what is missing, and nothing twice.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from . import schemas
from .buckets import bucket_of
from .check import check
from .parquet import read_table, write_rows
from .parts import Part, Partition, WarehouseError
from .steps import STEPS, Entry
from .stores import Store, store
from .warehouse import Snapshot, Warehouse

_LEFT = ("capture", "session", "rec_seq", "mono_ns", "lost", "ts", "offset", "length")


@dataclass
class Repaired:
    """What was mended: files that the tables do without now, and entries of logs that were torn."""

    lost: list[Part] = field(default_factory=list)
    torn: list[Path] = field(default_factory=list)


def repair(root: str) -> Repaired:
    """Have the tables in ``root`` do without files that are of no use. Raises WarehouseError."""
    where = store(root, "tables")
    done = Repaired(torn=[path for table in (*schemas.TABLES, STEPS) for path in _mend_log(where / table)])
    warehouse = Warehouse.open(root)
    snapshot = warehouse.snapshot()
    done.lost = check(warehouse, snapshot).lost
    tables = {part.table for part in done.lost}
    if "stretches" in tables:
        raise WarehouseError("files of `stretches` are lost: only new tables, made from the recordings, help")
    if not done.lost:
        return done
    entry = Entry("repair", remove=list(done.lost))
    if tables & {"messages", "conversations", "events"}:
        entry.forget.append("conversations")
    if tables - {"messages", "conversations", "events", "files"}:
        entry.forget.append("aggregate")
    lost = [part for part in done.lost if part.table == "messages"]
    if lost:
        _make_holes(warehouse, snapshot, lost, entry)
    warehouse.commit(entry, snapshot)
    return done


def _mend_log(table: Store) -> Iterator[Path]:
    """Remove the last entry of a table's log if it is not whole, and yield its path.

    A power cut can leave it so before it is on the disk; what it says has not been relied on by then. In S3
    there is all of an object or nothing.
    """
    if not isinstance(table, Path):
        return
    last = max((path for path in (table / "_delta_log").glob("*.json") if path.stem.isdigit()), default=None)
    if last is None:
        return
    try:
        for line in last.read_text().splitlines():
            json.loads(line)
    except ValueError:
        last.unlink()
        yield last


def _make_holes(warehouse: Warehouse, snapshot: Snapshot, lost: list[Part], entry: Entry) -> None:
    """Have ``entry`` change ``stretches`` and ``files`` so that they do not tell of files that are lost."""
    places = {part.partition for part in lost}

    def partitions(row: dict[str, Any]) -> set[Partition]:
        bucket = bucket_of(row["device"], snapshot.buckets)
        return {Partition(date.isoformat(), bucket) for date in row["dates"]}

    stretches = warehouse.rows(snapshot.of("stretches"))
    captures = {row["capture"] for row in stretches if not places.isdisjoint(partitions(row))}
    concerned = [row for row in stretches if row["capture"] in captures]
    read = snapshot.of("messages", {each for row in concerned for each in partitions(row)})
    left = _left(warehouse, [part for part in read if part not in lost], captures)
    kept = [row for row in stretches if row["capture"] not in captures]
    entry.remove += snapshot.of("stretches")
    cut = [each for piece in _pieces(concerned) for each in _cut(piece, left)]
    entry.add += write_rows(warehouse.root, "stretches", [*kept, *cut])
    gone = {part.path for part in entry.remove}
    files = [part for part in snapshot.of("files") if part.path not in gone]
    rows = [row for row in warehouse.rows(files) if captures.isdisjoint(row["captures"])]
    entry.remove += files
    entry.add += write_rows(warehouse.root, "files", rows)


#: By name: what is left of the messages of a capture, in the order of their numbers
_Left = dict[str, dict[str, NDArray[Any]]]


def _left(warehouse: Warehouse, parts: Iterable[Part], captures: set[str]) -> _Left:
    tables = [
        read_table(warehouse.root / part.path, list(_LEFT), [("capture", "in", captures)]) for part in parts
    ]
    if not tables:
        return {}
    together = pa.concat_tables(tables, promote_options="permissive")
    found = {}
    for capture in together["capture"].unique().to_pylist():
        rows = together.filter(pc.equal(together["capture"], capture)).sort_by("rec_seq")
        columns = {name: rows[name] for name in _LEFT[1:]}
        columns["ts"] = columns["ts"].cast(pa.int64())
        found[capture] = {name: column.to_numpy() for name, column in columns.items()}
    return found


def _pieces(stretches: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return stretches such that those of several buses that have numbers together are together."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in stretches:
        found[row["capture"], row["first_seq"], row["last_seq"]].append(row)
    return list(found.values())


def _cut(piece: list[dict[str, Any]], left: _Left) -> Iterator[dict[str, Any]]:
    """Yield what is left of stretches with the same numbers: rows for each series of these without a hole."""
    of_capture = left.get(piece[0]["capture"])
    if of_capture is None:
        return
    inside = of_capture["rec_seq"] >= piece[0]["first_seq"]
    inside &= of_capture["rec_seq"] <= piece[0]["last_seq"]
    inside &= of_capture["mono_ns"] >= min(row["first_mono_ns"] for row in piece)
    inside &= of_capture["mono_ns"] <= max(row["last_mono_ns"] for row in piece)
    found = {name: column[inside] for name, column in of_capture.items()}
    if len(found["rec_seq"]) == sum(row["messages"] for row in piece):
        yield from piece
        return
    numbers = found["rec_seq"]
    for run in np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(numbers) > 1) + 1):
        for row in piece:
            mine = run[found["session"][run] == row["session"]]
            mine = mine[found["lost"][mine] >= row["first_lost"]]
            mine = mine[found["lost"][mine] <= row["last_lost"]]
            if len(mine):
                yield {
                    **_of(found, mine, row),
                    "first_seq": int(numbers[run[0]]),
                    "last_seq": int(numbers[run[-1]]),
                }


def _of(found: dict[str, NDArray[Any]], mine: NDArray[np.int64], row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for these messages, which were in ``row``."""
    first, last = mine[0], mine[-1]
    times = found["ts"][mine].astype("datetime64[us]")
    times = (times if row["recorder"] else np.sort(times)).tolist()
    return {
        **row,
        "begin": int(found["offset"][mine].min()),
        "end": int((found["offset"] + found["length"])[mine].max()),
        "first_lost": int(found["lost"][first]),
        "last_lost": int(found["lost"][last]),
        "first_mono_ns": int(found["mono_ns"][first]),
        "last_mono_ns": int(found["mono_ns"][last]),
        "first_ts": times[0],
        "last_ts": times[-1],
        "messages": len(mine),
        "dates": sorted({each.date() for each in times}),
    }
