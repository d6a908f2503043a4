# SPDX-License-Identifier: MIT
"""What a recorder does to the disk, and when that is full or fails."""

from __future__ import annotations

import errno
import math
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbus.capture.files import Policy
from kbus.capture.part import PartFile

from .captures import read
from .test_files import blocks, files, sequences


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """In the block no file may be longer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def longest_file(size: int) -> Iterator[None]:
    """A limit on the size of files lets a part of a block be written, as a disk does that fills up."""
    with limited_files(size), pytest.raises(OSError) as raised:
        yield
    assert raised.value.errno == errno.EFBIG


def failing(*_: object) -> None:
    """A system call that the disk is no good for."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_disk_without_room_takes_whole_blocks_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "limited.pcapng"
    file = PartFile(path)
    file.append(blocks(1, 10))
    before = file.size
    with longest_file(before + 100):
        file.append(blocks(11, 10))
    part = path.with_name(path.name + ".part")
    assert part.stat().st_size == file.size == before
    file.append(blocks(11, 10))
    file.seal(sync=False)
    assert path.read_bytes() == blocks(1, 10) + blocks(11, 10)


def test_where_no_file_may_be_so_long_the_next_one_begins(tmp_path: Path) -> None:
    """Be it the file system's limit, FAT's 4 GiB, or the process's: nothing is lost, and it goes on."""
    said: list[str] = []
    one = files(Policy(tmp_path), said)
    one.append(blocks(1, 10), [10], [0])
    (part,) = tmp_path.iterdir()
    with limited_files(part.stat().st_size + 100):
        one.append(blocks(11, 10), [10], [0])
        one.finish()
    assert one.unfinished == 0
    found = sorted(tmp_path.iterdir())
    assert [sequences(path) for path in found] == [list(range(1, 11)), list(range(11, 21))]
    assert said == [f"{found[0].name} is as long as a file may be: 10 messages"]


def test_a_limit_that_no_file_can_keep_is_told(tmp_path: Path) -> None:
    one = files(Policy(tmp_path))
    one.begin()
    (part,) = tmp_path.iterdir()
    for _ in range(2):
        with longest_file(part.stat().st_size + 100):
            one.append(blocks(1, 10), [10], [0])
    one.append(blocks(1, 10), [10], [0])
    one.finish()
    (path,) = tmp_path.iterdir()
    assert sequences(path) == list(range(1, 11))


def test_nothing_is_added_behind_a_torn_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it can't be taken back, it stays the end of its file."""
    one = files(Policy(tmp_path))
    one.append(blocks(1, 10), [10], [0])
    (part,) = tmp_path.iterdir()
    with monkeypatch.context() as patched, longest_file(part.stat().st_size + 100):
        patched.setattr("os.ftruncate", failing)
        one.append(blocks(11, 10), [10], [0])
    one.append(blocks(11, 10), [10], [0])
    one.seal()
    records, damage = read(part, strict=False)
    assert [each.facts.sequence for each in records] == list(range(1, 11))
    assert len(damage) == 1
    (second,) = set(tmp_path.iterdir()) - {part}
    assert sequences(second) == list(range(11, 21))
    assert (one.sealed, one.unfinished) == (1, 1)


@pytest.mark.parametrize("sync", [None, math.inf])
def test_a_file_that_ends_in_a_torn_block_is_not_called_a_whole_one(
    sync: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = files(Policy(tmp_path, sync=sync))
    one.append(blocks(1, 10), [10], [0])
    (part,) = tmp_path.iterdir()
    with monkeypatch.context() as patched, longest_file(part.stat().st_size + 10):
        patched.setattr("os.ftruncate", failing)
        one.seal()
    assert list(tmp_path.iterdir()) == [part]
    assert (one.sealed, one.unfinished) == (0, 1)


@pytest.mark.parametrize(
    ("sync", "of_files", "of_directories"),
    [(None, 0, 0), (math.inf, 1, 1), (0.0, 11, 2), (5.0, 3, 2)],
    ids=lambda value: str(value),
)
def test_the_disk_is_told_as_often_as_asked(
    sync: float | None, of_files: int, of_directories: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, calls = [0.0], {True: 0, False: 0}
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def count(fd: int) -> None:
        calls[os.path.isdir(f"/proc/self/fd/{fd}")] += 1

    monkeypatch.setattr("os.fdatasync", count)
    monkeypatch.setattr("os.fsync", count)
    one = files(Policy(tmp_path, sync=sync))
    for first in range(10):
        one.append(blocks(first, 1), [1], [0])
        one.tick()
        now[0] += 1.25
    one.finish()
    assert calls == {False: of_files, True: of_directories}


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_there_already_is_not_written_to(kind: str, tmp_path: Path) -> None:
    """Whoever may write to the directory has planted it."""
    other, part = tmp_path / "other", tmp_path / "x.pcapng.part"
    if kind == "file":
        part.write_bytes(b"precious")
    else:
        part.symlink_to(other)
    with pytest.raises(FileExistsError):
        PartFile(tmp_path / "x.pcapng")
    assert not other.exists()
    assert kind == "link" or part.read_bytes() == b"precious"


def test_captures_are_not_for_everybody(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = PartFile(tmp_path / "x.pcapng").seal(sync=False)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_sealing_replaces_no_file(tmp_path: Path) -> None:
    """That has come since it began."""
    file = PartFile(tmp_path / "x.pcapng")
    file.append(b"new")
    (tmp_path / "x.pcapng").write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        file.seal(sync=True)
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == {"x.pcapng": b"precious", "x.pcapng.part": b"new"}
