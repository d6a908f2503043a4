# SPDX-License-Identifier: MIT
"""The last messages in memory, and the snapshots that are made of them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

from kbus.capture import Reader
from kbus.capture.files import Policy
from kbus.capture.ring import Ring

from .captures import INFO, read
from .test_files import blocks, files, sequences


def test_a_ring_keeps_the_newest(tmp_path: Path) -> None:
    one, ring = files(Policy(tmp_path)), Ring(20_000, lambda: INFO)
    for first in range(1, 1001, 10):
        ring.append(blocks(first, 10), [10], [0])
    ((path, count),) = ring.write_out(one)
    assert [path] == list(tmp_path.iterdir())
    found = sequences(path)
    assert len(found) == count
    assert found == list(range(found[0], 1001))
    assert 15_000 < path.stat().st_size < 20_500
    ring.append(blocks(1001, 1), [1], [0])
    ((path, count),) = ring.write_out(one)
    assert (sequences(path), count) == ([1001], 1)


def test_an_empty_ring_makes_an_empty_file(tmp_path: Path) -> None:
    ((path, count),) = Ring(20_000, lambda: INFO).write_out(files(Policy(tmp_path)))
    assert (sequences(path), count) == ([], 0)


def test_each_load_of_the_module_has_a_file_of_its_own(tmp_path: Path) -> None:
    """An id is unique within a load, so messages of two must not be in one section."""
    info: dict[str, Any] = {**INFO, "load_id": 7}
    ring = Ring(20_000, lambda: dict(info))
    for first in (1, 2):
        ring.append(blocks(first, 1), [1], [0])
    info["load_id"] = 8
    ring.append(blocks(3, 1), [1], [0])
    made = list(ring.write_out(files(Policy(tmp_path))))
    found = [each.facts for path, _ in made for each in read(path)[0]]
    assert [(each.section.info["load_id"], each.sequence) for each in found] == [(7, 1), (7, 2), (8, 3)]
    assert [count for _, count in made] == [2, 1]


def test_what_was_lost_before_a_snapshot_is_not_lost_in_it(tmp_path: Path) -> None:
    ring = Ring(1000, lambda: INFO)
    dropped = []
    for first, lost in ((1, 5), (101, 5), (201, 7)):
        ring.append(blocks(first, 10), [10], [lost])
    for lost in (8, 8):
        for path, _ in ring.write_out(files(Policy(tmp_path))):
            with Reader(path) as reader:
                list(reader)
            dropped += [each.dropped for each in reader.statistics]
        ring.append(blocks(301, 1), [1], [lost])
    assert dropped == [2, 1]


def test_after_a_snapshot_there_is_room_for_as_much_again(tmp_path: Path) -> None:
    one, ring = files(Policy(tmp_path)), Ring(20_000, lambda: INFO)
    for first in (1, 1001):
        for count in range(0, 100, 10):
            ring.append(blocks(first + count, 10), [10], [0])
        ((path, count),) = ring.write_out(one)
        assert (sequences(path), count) == (list(range(first, first + 100)), 100)


def test_what_is_lost_while_a_chunk_is_filled_is_lost_in_it(tmp_path: Path) -> None:
    """Also if nothing of it is left in the ring but this chunk."""
    ring = Ring(1 << 20, lambda: INFO)
    for first, lost in ((1, 0), (11, 4), (21, 9)):
        ring.append(blocks(first, 10), [10], [lost])
    ((path, count),) = ring.write_out(files(Policy(tmp_path)))
    with Reader(path) as reader:
        assert len(list(reader)) == count == 30
    assert [each.dropped for each in reader.statistics] == [9]


def test_a_ring_takes_little_more_memory_than_its_size() -> None:
    """Also on a bus where messages come one by one."""
    tracemalloc.start()
    try:
        ring = Ring(1 << 20, lambda: dict(INFO))
        for first in range(20_000):
            ring.append(blocks(first, 1), [1], [0])
        assert tracemalloc.get_traced_memory()[0] < 1.25 * (1 << 20)
    finally:
        tracemalloc.stop()
