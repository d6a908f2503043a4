# SPDX-License-Identifier: MIT
"""The last messages in memory, and the snapshots that are made of them."""

from __future__ import annotations

import errno
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kbus.capture import Reader
from kbus.capture.files import Files, Policy
from kbus.capture.ring import Ring
from tests.kernel.helpers import fails

from .captures import INFO, read, statistics_in
from .test_disk import failing, limited_files
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


def test_where_no_file_may_be_so_long_a_snapshot_goes_on_in_the_next(tmp_path: Path) -> None:
    one, ring = files(Policy(tmp_path)), Ring(1 << 20, lambda: INFO)
    one.begin()
    (part,) = tmp_path.iterdir()
    for first in range(1, 101, 50):
        ring.append(blocks(first, 50, data=bytes(300)), [50], [0])
    with limited_files(part.stat().st_size + 30_000):
        ((path, count),) = ring.write_out(one)
    assert [sequences(each) for each in sorted(tmp_path.iterdir())] == [
        list(range(1, 51)),
        list(range(51, 101)),
    ]
    assert (sequences(path), count) == (list(range(51, 101)), 50)


def test_each_load_of_the_module_has_a_file_of_its_own(tmp_path: Path) -> None:
    """An id is unique within a load, so messages of two must not be in one section."""
    info: dict[str, Any] = {**INFO, "load_id": 7}
    ring = Ring(20_000, lambda: dict(info))
    for first in (1, 2):
        ring.append(blocks(first, 1), [1], [0])
    info["load_id"] = 8
    ring.append(blocks(3, 1, info=info), [1], [0])
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
            dropped += [each.dropped for each in statistics_in(path)]
        ring.append(blocks(301, 1), [1], [lost])
    assert dropped == [2, 1]


def test_after_a_snapshot_there_is_room_for_as_much_again(tmp_path: Path) -> None:
    one, ring = files(Policy(tmp_path)), Ring(20_000, lambda: INFO)
    for first in (1, 1001):
        for count in range(0, 100, 10):
            ring.append(blocks(first + count, 10), [10], [0])
        ((path, count),) = ring.write_out(one)
        assert (sequences(path), count) == (list(range(first, first + 100)), 100)


def test_a_snapshot_that_goes_on_is_told_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, ring = files(Policy(tmp_path)), Ring(20_000, lambda: INFO)
    for first in range(1, 101, 10):
        ring.append(blocks(first, 10), [10], [0])
    append, calls = Files.append, []

    def full_once(self: Files, *given: Any) -> None:
        calls.append(given)
        if len(calls) == 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(self, *given)

    monkeypatch.setattr(Files, "append", full_once)
    with fails(errno.ENOSPC):
        list(ring.write_out(one))
    ((path, count),) = ring.write_out(one)
    assert (sequences(path), count) == (list(range(1, 101)), 100)


def test_a_snapshot_that_failed_counts_for_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk has not kept is in a file of its own, which is not finished."""
    one, ring = files(Policy(tmp_path)), Ring(20_000, lambda: INFO)
    ring.append(blocks(1, 10), [10], [0])
    with monkeypatch.context() as patched, fails(errno.EIO):
        patched.setattr("os.fsync", failing)
        list(ring.write_out(one))
    ring.append(blocks(11, 5), [5], [0])
    ((path, count),) = ring.write_out(one)
    assert (sequences(path), count, one.unfinished) == ([11, 12, 13, 14, 15], 5, 1)


def test_what_is_lost_while_a_chunk_is_filled_is_lost_in_it(tmp_path: Path) -> None:
    """Also if nothing of it is left in the ring but this chunk."""
    ring = Ring(1 << 20, lambda: INFO)
    for first, lost in ((1, 0), (11, 4), (21, 9)):
        ring.append(blocks(first, 10), [10], [lost])
    ((path, count),) = ring.write_out(files(Policy(tmp_path)))
    with Reader(path) as reader:
        assert len(list(reader)) == count == 30
    assert [each.dropped for each in statistics_in(path)] == [9]


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


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def test_a_ring_keeps_the_last_seconds(tmp_path: Path) -> None:
    """All of them, and no more than a small part of that time besides."""
    clock = Clock()
    ring = Ring(1 << 20, lambda: INFO, 64.0, clock)
    for number in range(1, 2001):
        ring.append(blocks(number, 1), [1], [0])
        clock.time += 0.1
    # The last was added 0.1 s ago.
    ((path, count),) = ring.write_out(files(Policy(tmp_path)))
    found = sequences(path)
    assert len(found) == count
    assert found[-1] == 2000
    assert 640 <= count <= 652


def test_a_ring_of_a_bus_that_has_fallen_silent_is_empty(tmp_path: Path) -> None:
    clock = Clock()
    ring = Ring(1 << 20, lambda: INFO, 10.0, clock)
    ring.append(blocks(1, 5), [5], [3])
    clock.time += 10.1
    ((path, count),) = ring.write_out(files(Policy(tmp_path)))
    assert (sequences(path), count) == ([], 0)
    ring.append(blocks(6, 1), [1], [4])
    ((path, count),) = ring.write_out(files(Policy(tmp_path)))
    assert (sequences(path), count) == ([6], 1)
    # What was lost before it was in no file, nor was it lost here.
    assert [each.dropped for each in statistics_in(path)] == [1]


def test_size_bounds_a_ring_with_a_time_too(tmp_path: Path) -> None:
    ring = Ring(20_000, lambda: INFO, 3600.0, Clock())
    for first in range(1, 1001, 10):
        ring.append(blocks(first, 10), [10], [0])
    ((path, _),) = ring.write_out(files(Policy(tmp_path)))
    assert path.stat().st_size < 20_500
