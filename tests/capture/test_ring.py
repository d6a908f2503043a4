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

from .captures import statistics_in
from .test_disk import failing, limited_files
from .test_files import blocks, files, sequences


def test_a_ring_keeps_the_newest(tmp_path: Path) -> None:
    one, ring = files(Policy(tmp_path)), Ring(20_000)
    for first in range(1, 1001, 10):
        ring.append(blocks(first, 10), [10], [0])
    path, count = ring.write_out(one)
    assert [path] == list(tmp_path.iterdir())
    found = sequences(path)
    assert len(found) == count
    assert found == list(range(found[0], 1001))
    assert 15_000 < path.stat().st_size < 20_500
    ring.append(blocks(1001, 1), [1], [0])
    path, count = ring.write_out(one)
    assert (sequences(path), count) == ([1001], 1)


def test_an_empty_ring_makes_an_empty_file(tmp_path: Path) -> None:
    path, count = Ring(20_000).write_out(files(Policy(tmp_path)))
    assert (sequences(path), count) == ([], 0)


def test_where_no_file_may_be_so_long_a_snapshot_goes_on_in_the_next(tmp_path: Path) -> None:
    one, ring = files(Policy(tmp_path)), Ring(1 << 20)
    one.begin()
    (part,) = tmp_path.iterdir()
    for first in range(1, 101, 50):
        ring.append(blocks(first, 50, data=bytes(300)), [50], [0])
    with limited_files(part.stat().st_size + 30_000):
        path, count = ring.write_out(one)
    assert [sequences(each) for each in sorted(tmp_path.iterdir())] == [
        list(range(1, 51)),
        list(range(51, 101)),
    ]
    assert (sequences(path), count) == (list(range(51, 101)), 50)


def test_what_was_lost_before_a_snapshot_is_not_lost_in_it(tmp_path: Path) -> None:
    ring = Ring(1000)
    dropped = []
    for first, lost in ((1, 5), (101, 5), (201, 7)):
        ring.append(blocks(first, 10), [10], [lost])
    for lost in (8, 8):
        path, _ = ring.write_out(files(Policy(tmp_path)))
        dropped += [each.dropped for each in statistics_in(path)]
        ring.append(blocks(301, 1), [1], [lost])
    assert dropped == [2, 1]


def test_after_a_snapshot_there_is_room_for_as_much_again(tmp_path: Path) -> None:
    one, ring = files(Policy(tmp_path)), Ring(20_000)
    for first in (1, 1001):
        for count in range(0, 100, 10):
            ring.append(blocks(first + count, 10), [10], [0])
        path, count = ring.write_out(one)
        assert (sequences(path), count) == (list(range(first, first + 100)), 100)


def test_a_snapshot_that_goes_on_is_told_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, ring = files(Policy(tmp_path)), Ring(20_000)
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
        ring.write_out(one)
    path, count = ring.write_out(one)
    assert (sequences(path), count) == (list(range(1, 101)), 100)


def test_a_snapshot_that_failed_counts_for_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk has not kept is in a file of its own, which is not finished."""
    one, ring = files(Policy(tmp_path)), Ring(20_000)
    ring.append(blocks(1, 10), [10], [0])
    with monkeypatch.context() as patched, fails(errno.EIO):
        patched.setattr("os.fsync", failing)
        ring.write_out(one)
    ring.append(blocks(11, 5), [5], [0])
    path, count = ring.write_out(one)
    assert (sequences(path), count, one.unfinished) == ([11, 12, 13, 14, 15], 5, 1)


def test_what_is_lost_while_a_chunk_is_filled_is_lost_in_it(tmp_path: Path) -> None:
    """Also if nothing of it is left in the ring but this chunk."""
    ring = Ring(1 << 20)
    for first, lost in ((1, 0), (11, 4), (21, 9)):
        ring.append(blocks(first, 10), [10], [lost])
    path, count = ring.write_out(files(Policy(tmp_path)))
    with Reader(path) as reader:
        assert len(list(reader)) == count == 30
    assert [each.dropped for each in statistics_in(path)] == [9]


def test_a_ring_takes_little_more_memory_than_its_size() -> None:
    """Also on a bus where messages come one by one."""
    tracemalloc.start()
    try:
        ring = Ring(1 << 20)
        for first in range(20_000):
            ring.append(blocks(first, 1), [1], [0])
        assert tracemalloc.get_traced_memory()[0] < 1.25 * (1 << 20)
    finally:
        tracemalloc.stop()
