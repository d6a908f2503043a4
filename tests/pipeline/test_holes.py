# SPDX-License-Identifier: MIT
"""Where a recording has holes, and what must be made again because of what is new."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

import pytest

from kbus.pipeline.derive.holes import GAP, LOST, holes
from kbus.pipeline.derive.stale import stale_conversations
from kbus.pipeline.tables.buckets import bucket_of
from kbus.pipeline.tables.parts import Partition

SECOND = 10**9
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def stretch(capture: str, seqs: tuple[int, int], monos: tuple[int, int], **more: Any) -> dict[str, Any]:
    """Sequence numbers, and CLOCK_MONOTONIC in seconds, of the first and last message."""
    return {
        "session": 1, "device": "pump", "boot": "boot", "load": "load", "bus": 0, "recorder": "1",
        "capture": capture, "begin": 100, "end": 200, "first_seq": seqs[0], "last_seq": seqs[1],
        "first_lost": 0, "last_lost": 0,
        "first_mono_ns": monos[0] * SECOND, "last_mono_ns": monos[1] * SECOND,
        "first_ts": NOON, "last_ts": NOON,
        "messages": seqs[1] - seqs[0] + 1, "dates": [date(2026, 3, 1)], "catches_all": True, **more,
    }  # fmt: skip


def found(*stretches: dict[str, Any]) -> list[tuple[str, int, int | None, int]]:
    return [
        (
            each["kind"],
            each["from_ns"] // SECOND,
            each["until_ns"] and each["until_ns"] // SECOND,
            each["count"],
        )
        for each in holes(stretches)
    ]


END = (GAP, 20, None, 0)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (stretch("b", (11, 20), (11, 20)), []),
        (stretch("b", (14, 20), (13, 20)), [(GAP, 10, 13, 3)]),
        (stretch("b", (11, 20), (11, 20), first_lost=5, last_lost=5), [(LOST, 10, 11, 5)]),
        (stretch("b", (1, 10), (15, 20)), [(GAP, 10, 15, 0)]),
        (stretch("b", (14, 20), (13, 20), first_lost=5, last_lost=5), [(GAP, 10, 13, 3)]),
    ],
    ids=["none", "a file is missing", "the recorder lost some", "another recorder", "both"],
)
def test_between_two_stretches(later: dict[str, Any], expected: list[Any]) -> None:
    first = stretch("a", (1, 10), (1, 10))
    assert found(first, later) == [*expected, END]
    assert found(later, first) == [*expected, END]


def test_a_bus_that_is_quiet_for_a_whole_file_has_no_hole() -> None:
    quiet = [
        stretch("a", (1, 10), (1, 9)),
        stretch("a", (1, 10), (2, 10), session=2, bus=1),
        stretch("b", (11, 20), (11, 15), session=2, bus=1),
        stretch("c", (21, 30), (16, 20)),
    ]
    assert found(*quiet) == [END, (GAP, 15, None, 0)]


def test_of_many_messages_at_the_same_time_the_number_tells_the_order() -> None:
    """In the next file, offsets begin anew."""
    tied = [stretch("a", (6, 6), (5, 5), begin=9000), stretch("b", (7, 9), (5, 5), begin=100)]
    rest = [stretch("a", (1, 4), (1, 4), begin=100), stretch("b", (10, 20), (5, 20), begin=200)]
    assert found(*rest, *tied) == [(GAP, 4, 5, 1), END]
    apart = [tied[0], stretch("b", (8, 9), (5, 5), begin=100)]
    assert found(*rest, *apart) == [(GAP, 4, 5, 1), (GAP, 5, 5, 1), END]
    other_bus = stretch("b", (7, 9), (5, 5), session=2, bus=1)
    assert found(other_bus, tied[0], stretch("c", (10, 20), (5, 20))) == [END, (GAP, 5, None, 0)]
    lost = [stretch("a", (1, 9), (5, 5)), stretch("a", (1, 9), (5, 20), first_lost=3, last_lost=3, begin=50)]
    assert found(*lost) == [(LOST, 5, 5, 3), END]


def test_where_one_of_two_recorders_goes_on_there_is_no_hole() -> None:
    one = [stretch("a", (1, 10), (0, 10)), stretch("a", (15, 20), (16, 20))]
    other = [stretch("b", (1, 30), (5, 18)), stretch("b", (41, 50), (25, 30))]
    assert found(*one, *other) == [(GAP, 20, 25, 20), (GAP, 30, None, 0)]
    quiet = [stretch("c", (1, 10), (0, 30)), stretch("d", (1, 10), (5, 18))]
    assert found(*quiet) == [(GAP, 30, None, 0)]


def on(day: int) -> dict[str, Any]:
    return {"dates": [date(2026, 3, day)]}


def test_what_is_near_is_made_again() -> None:
    old = [
        stretch("a", (1, 10), (0, 1000), **on(1)),
        stretch("b", (11, 20), (1010, 2000), **on(2)),
        stretch("c", (21, 30), (2010, 3000), **on(3)),
        stretch("d", (41, 50), (9000, 9900), **on(4)),
        stretch("x", (1, 9), (0, 9000), session=2, device="valve", **on(5)),
    ]
    new = stretch("n", (31, 40), (3010, 4000), **on(6))
    stale = stale_conversations([*old, new], [new], 60, 16)
    bucket = bucket_of("pump", 16)
    # The last message before it may be asked in c; the hole after n is n's own.
    assert stale.make == {Partition(f"2026-03-0{day}", bucket) for day in (3, 6)}
    assert stale.read == {Partition(f"2026-03-0{day}", bucket) for day in (2, 3, 6)}


def test_far_in_time_but_just_before() -> None:
    old = stretch("a", (1, 10), (0, 10), **on(1))
    new = stretch("b", (11, 20), (5000, 5010), **on(2))
    stale = stale_conversations([old, new], [new], 60, 1)
    assert stale.make == {Partition("2026-03-01", 0), Partition("2026-03-02", 0)}
