# SPDX-License-Identifier: MIT
"""Matching requests with their answers: all those of a task at once, with numpy.

The id of a request is a number that comes again: serial numbers wrap, and start anew when the module is
loaded; ids with a network id are their sender's. So an answer belongs to a request of the same session, id
and requester, not later than the time bound after the message before it of that id; and of several that wait,
to the oldest, as KBUS does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kbus._failed import FAILED

from ..decode.columns import Column
from ..tables import schemas
from ..tables.buckets import bucket_of

#: What ``match`` takes: the message ids as one number, the network id above the serial number
ROWS = (
    Column("session", "bigint", "as in messages"),
    Column("id", "bigint", "id of the request, also for its answer: network_id << 32 | serial_num"),
    Column("requester", "bigint", "KSock id of who asked"),
    Column("is_answer", "boolean", "whether this is the answer"),
    Column("mono_ns", "bigint", "as in messages"),
    Column("rec_seq", "bigint", "likewise"),
    Column("ts", "timestamp", "likewise"),
    Column("name", "string", "likewise"),
    Column("synthetic", "boolean", "likewise"),
    Column("sender", "bigint", "KSock id, `from` in messages"),
    Column("bytes", "bigint", "bytes of data"),
)
CONVERSATIONS = (*schemas.CONVERSATIONS, *schemas.PARTITIONS)

_OUTCOMES = ("reply", "failed", "status", "unanswered", "incomplete", "orphan")
_REPLY, _FAILED, _STATUS, _UNANSWERED, _INCOMPLETE, _ORPHAN = range(len(_OUTCOMES))
_NEVER = (1 << 63) - 1
_DAY_US = 86_400 * 1_000_000

Integers = NDArray[np.int64]


class Session(NamedTuple):
    """Of a session, its columns, its bucket, and the holes of its recording, from the one that ends first on.

    ``until`` is where each hole ends, ``begin`` where it or any later one begins, in ns of CLOCK_MONOTONIC.
    """

    device: str
    boot: str
    load: str
    bus: int
    bucket: int
    until: Integers
    begin: Integers

    def has_hole(self, begin: Integers, end: Integers) -> NDArray[np.bool_]:
        """Return whether there is a hole somewhere after ``begin`` and before ``end``."""
        first = np.searchsorted(self.until, begin, "right")
        return np.asarray(self.begin[np.minimum(first, len(self.begin) - 1)] < end, bool) & (
            first < len(self.begin)
        )


def sessions(holes: Iterable[Mapping[str, Any]], buckets: int) -> dict[int, Session]:
    """Return the sessions by number. Each has a hole at least, after its end."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for each in holes:
        found.setdefault(each["session"], []).append(each)
    return {number: _session(members, buckets) for number, members in found.items()}


def _session(holes: list[Mapping[str, Any]], buckets: int) -> Session:
    spans = sorted(
        (_NEVER if each["until_ns"] is None else each["until_ns"], each["from_ns"]) for each in holes
    )
    until, begin = np.array(spans, np.int64).T
    one = holes[0]
    return Session(
        one["device"],
        one["boot"],
        one["load"],
        one["bus"],
        bucket_of(one["device"], buckets),
        until,
        np.minimum.accumulate(begin[::-1])[::-1],
    )


def match(known: Mapping[int, Session], bound: int, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return the conversations, with CONVERSATIONS for columns, of ``batches`` with the columns of ROWS.

    All rows of an id must be among them. ``bound`` is the time bound in ns. Of columns that say the same of
    many rows, the type is a dictionary.
    """
    # Spark says of some columns that they have no nulls, so the schema is not quite that of ROWS.
    together = [each for each in batches if len(each)]
    if not together:
        return schemas.arrow_schema(CONVERSATIONS).empty_table()
    return _conversations(_Rows(pa.Table.from_batches(together).combine_chunks()), known, bound)


class _Rows:
    """Rows in the order of session, id, requester and time."""

    def __init__(self, rows: pa.Table) -> None:
        columns = ("rec_seq", "mono_ns", "requester", "id", "session")
        order = np.lexsort([rows[name].to_numpy() for name in columns])
        self._rows = rows
        self._order = order
        self.session, self.id, self.requester, self.mono = (
            self.numbers(name) for name in ("session", "id", "requester", "mono_ns")
        )
        self.is_answer = np.asarray(rows["is_answer"].to_numpy()[order], bool)

    def numbers(self, name: str) -> Integers:
        """Return a column without nulls."""
        found: Integers = self._rows[name].to_numpy()[self._order]
        return found

    def are_called(self, name: str) -> NDArray[np.bool_]:
        """Return which rows have this name."""
        found = pc.equal(self._rows["name"], name).to_numpy()
        return np.asarray(found[self._order], bool)

    def take(self, name: str, which: Integers) -> pa.Array:
        """Return a column of these rows, null where ``which`` is negative."""
        indices = pa.array(self._order[np.maximum(which, 0)], mask=which < 0)
        return self._rows[name].take(indices).combine_chunks()


def _pairs(rows: _Rows, bound: int) -> tuple[Integers, Integers]:
    """Return which rows are a request and its answer, -1 where there is none."""
    # A round begins with another id, or when nothing of this one was heard for so long that nothing is
    # waited for any more.
    begins = rows.mono[1:] - rows.mono[:-1] > bound
    for key in (rows.session, rows.id, rows.requester):
        begins |= key[1:] != key[:-1]
    number = np.concatenate([[0], np.cumsum(begins)])
    first = np.concatenate([[0], np.flatnonzero(begins) + 1])
    answers, requests = np.cumsum(rows.is_answer), np.cumsum(~rows.is_answer)
    # How many there were before the round.
    answers_before = (answers - rows.is_answer)[first][number]
    requests_before = (requests - ~rows.is_answer)[first][number]
    # An answer for which there was no request makes the surplus of answers higher than it ever was in the
    # round.
    surplus = (answers - answers_before) - (requests - requests_before)
    step = len(number) + 1
    highest = np.maximum.accumulate(surplus + number * 2 * step) - number * 2 * step
    orphans = np.maximum(highest, 0)
    before = np.concatenate([[0], orphans[:-1]])
    before[first] = 0
    is_orphan = orphans > before
    asked = np.flatnonzero(~rows.is_answer)
    answered = np.flatnonzero(rows.is_answer & ~is_orphan)
    answer = np.full(len(asked), -1)
    # Those that are no orphans answer the requests of the round in turn.
    answer[(requests_before + answers - answers_before - orphans - 1)[answered]] = answered
    alone = np.flatnonzero(is_orphan)
    nothing = np.full(len(alone), -1)
    return np.concatenate([asked, nothing]), np.concatenate([answer, alone])


def _conversations(rows: _Rows, known: Mapping[int, Session], bound: int) -> pa.Table:
    asked, answer = _pairs(rows, bound)
    either = np.where(asked < 0, answer, asked)
    session, mono, number = rows.session[either], rows.mono[either], rows.id[either]
    of_session = _OfSessions(session, known)
    name, ts = rows.take("name", either), rows.take("ts", either)
    outcome = np.full(len(either), _REPLY)
    is_answered = answer >= 0
    answered = np.flatnonzero(is_answered)
    outcome[answered[rows.are_called(FAILED)[answer[is_answered]]]] = _FAILED
    # What KBUS itself answers may have any name.
    outcome[answered[rows.numbers("synthetic")[answer[is_answered]]]] = _STATUS
    outcome[asked < 0] = _ORPHAN
    is_open = np.flatnonzero(answer < 0)
    missed = of_session.have_holes(is_open, mono[is_open], mono[is_open] + bound)
    outcome[is_open] = np.where(missed, _INCOMPLETE, _UNANSWERED)
    is_pair = (asked >= 0) & (answer >= 0)
    columns = {
        "session": session,
        **of_session.columns(),
        "network": number >> 32 & 0xFFFFFFFF,
        "serial": number & 0xFFFFFFFF,
        "name": name,
        "requester": rows.requester[either],
        "replier": rows.take("sender", answer),
        "ts": ts,
        "mono_ns": mono,
        "latency_ns": pa.array(rows.mono[answer] - mono, mask=~is_pair),
        "outcome": _taken(_OUTCOMES, outcome),
        "status": rows.take("name", np.where(outcome == _STATUS, answer, -1)),
        "request_bytes": rows.take("bytes", asked),
        "answer_bytes": rows.take("bytes", answer),
        "date": pa.array((ts.cast(pa.int64()).to_numpy() // _DAY_US).astype(np.int32)).cast(pa.date32()),
    }
    return pa.table(
        {each.name: _as(columns[each.name], each.type) for each in schemas.arrow_schema(CONVERSATIONS)}
    )


class _OfSessions:
    """What is known of the session of each row."""

    def __init__(self, session: Integers, known: Mapping[int, Session]) -> None:
        numbers, self._which = np.unique(session, return_inverse=True)
        self._known = [known[number] for number in numbers.tolist()]

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns of a conversation that its session tells."""
        names = ("device", "boot", "load", "bus", "bucket")
        return {name: _taken([getattr(each, name) for each in self._known], self._which) for name in names}

    def have_holes(self, rows: Integers, begin: Integers, end: Integers) -> NDArray[np.bool_]:
        """Return for each of these rows whether its session has a hole after ``begin`` and before ``end``."""
        found = np.zeros(len(rows), bool)
        which = self._which[rows]
        for index in np.unique(which).tolist():
            mine = which == index
            found[mine] = self._known[index].has_hole(begin[mine], end[mine])
        return found


def _taken(values: Sequence[Any], which: NDArray[Any]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), pa.array(values))


def _as(column: Any, kind: pa.DataType) -> pa.Array:
    array = pa.array(column)
    return array.cast(pa.dictionary(pa.int32(), kind) if pa.types.is_dictionary(array.type) else kind)
