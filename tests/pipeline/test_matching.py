# SPDX-License-Identifier: MIT
"""Matching requests and answers against the obvious way to do it, one message after the other."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timezone
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kbus._failed import FAILED
from kbus.pipeline.derive import matching
from kbus.pipeline.tables import schemas
from kbus.pipeline.tables.buckets import bucket_of
from kbus.pipeline.tables.parquet import by_partition

BOUND = 10
BUCKETS = 4
#: Number of a request, number of its answer, and the outcome
Conversation = tuple[int | None, int | None, str]


class Heard(NamedTuple):
    """A request or an answer."""

    session: int
    id: int
    requester: int
    is_answer: bool
    synthetic: bool
    mono_ns: int
    failed: bool

    def name(self, number: int) -> str:
        """What it is called, as the one of this number."""
        return FAILED if self.failed else f"$.{number}"


def holes(draw: st.DrawFn, session: int) -> list[dict[str, Any]]:
    about = {"session": session, "device": f"device{session}", "boot": "boot", "load": "load", "bus": session}
    # They overlap where two recorders were at it.
    times = draw(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 100)), max_size=3))
    spans: list[tuple[int, int | None]] = [*((begin, begin + length) for begin, length in times), (200, None)]
    return [{**about, "from_ns": begin, "until_ns": until} for begin, until in spans]


@st.composite
def recordings(draw: st.DrawFn) -> tuple[list[Heard], list[dict[str, Any]]]:
    """Messages in the order in which they were recorded, and the holes of two sessions."""
    heard = []
    now = 0
    for _ in range(draw(st.integers(1, 40))):
        now += draw(st.sampled_from([0, 1, 1, 1, 2, 2, BOUND, BOUND + 1]))
        is_answer = draw(st.booleans())
        heard.append(
            Heard(
                # Few of these, so that something happens with each.
                draw(st.sampled_from([0, 0, 0, 1])),
                draw(st.sampled_from([1, 1, (1 << 32) + 1, -1])),
                draw(st.sampled_from([1, 1, 1, 2])),
                is_answer,
                is_answer and draw(st.booleans()),
                now,
                is_answer and draw(st.booleans()),
            )
        )
    return heard, holes(draw, 0) + holes(draw, 1)


def obvious(heard: list[Heard], holes: list[dict[str, Any]]) -> list[Conversation]:
    """Return the conversations among these messages."""
    waiting: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    last: dict[tuple[int, int, int], int] = {}
    found: list[Conversation] = []

    def give_up(numbers: list[int]) -> None:
        for number in numbers:
            one = heard[number]
            missed = any(
                each["session"] == one.session
                and each["from_ns"] < one.mono_ns + BOUND
                and (each["until_ns"] is None or each["until_ns"] > one.mono_ns)
                for each in holes
            )
            found.append((number, None, "incomplete" if missed else "unanswered"))

    for number, each in enumerate(heard):
        key = each[:3]
        if each.mono_ns - last.get(key, each.mono_ns) > BOUND:
            give_up(waiting.pop(key, []))
        last[key] = each.mono_ns
        if not each.is_answer:
            waiting[key].append(number)
        elif waiting[key]:
            outcome = "status" if each.synthetic else "failed" if each.failed else "reply"
            found.append((waiting[key].pop(0), number, outcome))
        else:
            found.append((None, number, "orphan"))
    for numbers in waiting.values():
        give_up(numbers)
    return sorted(found, key=str)


@settings(max_examples=150, deadline=None)
@given(recordings(), st.randoms(use_true_random=False))
def test_it_is_what_is_obvious(recorded: tuple[list[Heard], list[dict[str, Any]]], random: Any) -> None:
    heard, holes = recorded
    rows = [
        {
            **each._asdict(),
            "rec_seq": number,
            "ts": datetime.fromtimestamp(number, timezone.utc),
            "name": each.name(number),
            "sender": 100 + number,
            "bytes": 1000 + number,
        }
        for number, each in enumerate(heard)
    ]
    random.shuffle(rows)
    schema = schemas.arrow_schema(matching.ROWS)
    batches = pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=7)
    found = matching.match(matching.sessions(holes, BUCKETS), BOUND, batches).to_pylist()
    expected = []
    for asked, answer, outcome in obvious(heard, holes):
        first = answer if asked is None else asked
        assert first is not None
        one = heard[first]
        then = None if answer is None else heard[answer].mono_ns
        expected.append(
            {
                "session": one.session,
                "device": f"device{one.session}",
                "boot": "boot",
                "load": "load",
                "bus": one.session,
                "network": one.id >> 32 & 0xFFFFFFFF,
                "serial": one.id & 0xFFFFFFFF,
                "name": one.name(first),
                "requester": one.requester,
                "replier": None if answer is None else 100 + answer,
                "ts": datetime.fromtimestamp(first, timezone.utc),
                "mono_ns": one.mono_ns,
                "latency_ns": None if asked is None or then is None else then - one.mono_ns,
                "outcome": outcome,
                "status": heard[answer].name(answer) if answer is not None and outcome == "status" else None,
                "request_bytes": None if asked is None else 1000 + first,
                "answer_bytes": None if answer is None else 1000 + answer,
                "date": datetime.fromtimestamp(first, timezone.utc).date(),
                "bucket": bucket_of(f"device{one.session}", BUCKETS),
            }
        )
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_nothing_is_nothing() -> None:
    empty = pa.RecordBatch.from_pylist([], schemas.arrow_schema(matching.ROWS))
    for batches in ([], [empty]):
        made = matching.match({}, BOUND, batches)
        assert made.to_pylist() == list(by_partition(made)) == []
