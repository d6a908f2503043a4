# SPDX-License-Identifier: MIT
"""How the work on conversations is divided into tasks."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kbus.pipeline.derive.conversations import _PAYS, _TOGETHER, places

AT_ONCE = 3


@given(st.lists(st.integers(0, 3 * _TOGETHER), min_size=1, max_size=40))
def test_places(rows: list[int]) -> None:
    """Each task can hold what it gets, and none of them is left out."""
    most = min(max(-(-sum(rows) // AT_ONCE), _PAYS), _TOGETHER)
    held: Counter[int] = Counter()
    found = places(rows, AT_ONCE)
    for count, place in zip(rows, found, strict=True):
        for task in range(place.first, place.first + place.tasks):
            held[task] += -(-count // place.tasks)
        assert place.tasks == 1 or count > most
    assert max(held.values()) <= most
    assert sorted(held) == list(range(len(held)))
    assert len(held) <= len(rows) + sum(rows) // most


def test_a_few_messages_are_one_task() -> None:
    assert set(places([300, 0, 0, 400, 300], AT_ONCE)) == {(0, 1)}


def test_a_single_device_is_for_all_processors() -> None:
    assert places([0, 9_000, 0], AT_ONCE)[1] == (0, 3)
