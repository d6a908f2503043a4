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

from . import schemas

SESSION = [each.name for each in schemas.SESSION]
#: What happened in the hole: the recorder's KSock was full, or there is no recording
LOST, GAP = "recorder_lost", "recording_gap"
#: A row of the table
Stretch = dict[str, Any]
#: What ``holes`` finds
Hole = dict[str, Any]
_COLUMNS = (
    *schemas.SESSION,
    schemas.Column("kind", "string", "LOST or GAP"),
    schemas.Column("from_ns", "bigint", "CLOCK_MONOTONIC of the last message before it"),
    schemas.Column("until_ns", "bigint", "of the first one after it; null after the end of a recording"),
    schemas.Column("ts", "timestamp", "when it begins"),
    schemas.Column("count", "bigint", "messages that are missing, as far as that is known"),
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
    order = itemgetter("session", "first_mono_ns", "first_lost", "begin")
    ordered = sorted(stretches, key=order)
    return [list(members) for _, members in groupby(ordered, itemgetter("session"))]


def holes(stretches: Iterable[Stretch]) -> list[Hole]:
    """Return the holes, with the columns of ``frame``.

    ``until_ns`` is None for the one after the end of a recording, of which nothing is known. ``count`` is how
    many messages the recorder says that it lost (LOST), or how many of its sequence numbers are missing
    (GAP), as far as that is known.
    """
    sessions = in_order(stretches)
    chains = _chains(each for session in sessions for each in session)
    found = []
    for session in sessions:
        for before, after in zip(session, session[1:]):
            lost = max(after["first_lost"] - before["last_lost"], 0)
            is_same = chains[_piece(before)] == chains[_piece(after)]
            if is_same and not lost:
                continue
            missing = max(after["first_seq"] - before["last_seq"] - 1, 0)
            kind, count = (LOST, lost) if is_same else (GAP, missing)
            found.append(_hole(before, kind, after["first_mono_ns"], count))
        found.append(_hole(session[-1], GAP, None, 0))
    return found


def _piece(stretch: Stretch) -> _Piece:
    return _Piece(*(stretch[name] for name in _Piece._fields))


def _chains(stretches: Iterable[Stretch]) -> dict[_Piece, int]:
    """Return numbers, the same for pieces that follow on one another.

    A recorder numbers the messages of all its buses together; so whether files follow on one another shows
    only in all of them.
    """
    begins: dict[_Piece, int] = defaultdict(lambda: 1 << 63)
    for each in stretches:
        begins[_piece(each)] = min(begins[_piece(each)], each["first_mono_ns"])
    ordered = sorted(begins, key=lambda piece: (piece.device, piece.boot, begins[piece], piece.first_seq))
    chains = {}
    number = 0
    before: Optional[_Piece] = None
    for piece in ordered:
        if not (before and before[:2] == piece[:2] and before.last_seq + 1 == piece.first_seq):
            number += 1
        chains[piece] = number
        before = piece
    return chains


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
