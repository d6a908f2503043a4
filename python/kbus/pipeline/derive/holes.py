# SPDX-License-Identifier: MIT
"""Holes in recordings: between stretches that do not follow on one another, and after the last.

There is a row of ``stretches`` a file or a little more, so this is done by the driver, and not by Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, Optional

from pyspark.sql import DataFrame, SparkSession

from ..decode import columns
from ..tables import schemas

SESSION = [each.name for each in columns.SESSION]
#: What happened in the hole: the recorder's KSock was full, or there is no recording
LOST, GAP = "recorder_lost", "recording_gap"
#: A row of the table
Stretch = dict[str, Any]
#: What ``holes`` finds
Hole = dict[str, Any]
_COLUMNS = (
    *columns.SESSION,
    columns.Column("kind", "string", "LOST or GAP"),
    columns.Column("from_ns", "bigint", "CLOCK_MONOTONIC of the last message before it"),
    columns.Column("until_ns", "bigint", "of the first one after it; null after the end of a recording"),
    columns.Column("ts", "timestamp", "when it begins"),
    columns.Column("count", "bigint", "messages that are missing, as far as that is known"),
)


class _Piece(NamedTuple):
    """Sequence numbers that follow on one another, of all buses of a recorder."""

    device: str
    boot: str
    capture: str
    first_seq: int
    last_seq: int


def in_order(stretches: Iterable[Stretch]) -> list[list[Stretch]]:
    """Return the stretches of each session, those of a session in the order in which they were recorded."""
    # Many messages may have the same time, so a stretch may begin when the one before it does.
    order = itemgetter("session", "first_mono_ns", "first_seq", "first_lost", "begin")
    ordered = sorted(stretches, key=order)
    return [list(members) for _, members in groupby(ordered, itemgetter("session"))]


def holes(stretches: Iterable[Stretch]) -> list[Hole]:
    """Return the holes, with the columns of ``frame``.

    ``until_ns`` is None for the one after the end of a recording, of which nothing is known. ``count`` is how
    many messages the recorder says that it lost (LOST), or how many of its sequence numbers are missing
    (GAP), as far as that is known. Where one of two recorders goes on there is no hole, whatever the other
    one does.
    """
    sessions = in_order(stretches)
    places = _places(each for session in sessions for each in session)
    found = []
    for session in sessions:
        before = session[0]
        for after in session[1:]:
            this, that = places[_piece(before)], places[_piece(after)]
            lost = after["first_lost"] - before["last_lost"]
            is_later = after["first_mono_ns"] >= before["last_mono_ns"]
            if this.chain != that.chain and is_later:
                found.append(_hole(before, GAP, after["first_mono_ns"], that.missing - this.missing))
            elif this.chain == that.chain and is_later and lost > 0:
                found.append(_hole(before, LOST, after["first_mono_ns"], lost))
            if after["last_mono_ns"] >= before["last_mono_ns"]:
                before = after
        found.append(_hole(before, GAP, None, 0))
    return found


def _piece(stretch: Stretch) -> _Piece:
    return _Piece(*(stretch[name] for name in _Piece._fields))


class _Place(NamedTuple):
    """Where a piece is: pieces of the same ``chain`` follow on one another.

    ``missing`` counts the sequence numbers that are missing before it.
    """

    chain: int
    missing: int


def _places(stretches: Iterable[Stretch]) -> dict[_Piece, _Place]:
    """Return where each piece is.

    A recorder numbers the messages of all its buses together; so whether files follow on one another, and
    what is missing between them, shows only in all of them.
    """
    begins: dict[_Piece, int] = defaultdict(lambda: 1 << 63)
    for each in stretches:
        begins[_piece(each)] = min(begins[_piece(each)], each["first_mono_ns"])
    ordered = sorted(begins, key=lambda piece: (piece.device, piece.boot, begins[piece], piece.first_seq))
    places = {}
    place = _Place(0, 0)
    before: Optional[_Piece] = None
    for piece in ordered:
        is_same_boot = before and before[:2] == piece[:2]
        missing = piece.first_seq - before.last_seq - 1 if before and is_same_boot else -1
        if missing:
            # A number that is not higher is another recorder's.
            place = _Place(place.chain + 1, place.missing + max(missing, 0))
        places[piece] = place
        before = piece
    return places


def _hole(before: Stretch, kind: str, until_ns: Any, count: int) -> Hole:
    return {
        **{name: before[name] for name in SESSION},
        "kind": kind,
        "from_ns": before["last_mono_ns"],
        "until_ns": until_ns,
        "ts": before["last_ts"],
        "count": count,
    }


def frame(spark: SparkSession, found: list[Hole]) -> DataFrame:
    """Return holes as a DataFrame."""
    rows = [tuple(each[column.name] for column in _COLUMNS) for each in found]
    return spark.createDataFrame(rows, schemas.spark_schema(_COLUMNS))
