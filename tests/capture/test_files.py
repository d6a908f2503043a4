# SPDX-License-Identifier: MIT
"""The files of a recorder: names, rotation, limits, compression, losses, and cuts."""

from __future__ import annotations

import errno
import gzip
import io
import os
import random
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbus import Announcement, Message
from kbus.capture import CaptureError, Reader, Record, pcapng
from kbus.capture.files import Files, Policy
from kbus.capture.identity import file_prefix
from kbus.capture.part import compress
from kbus.capture.recover import recover
from kbus.capture.summary import summarize
from kbus.capture.writer import origins_of, packets
from kbus.cli.info import captures_in

from .captures import INFO, START, capture, numbered, read, statistics_in

NAME = re.compile(r"lathe-0-\d{8}T\d{6}Z-(\d{4})\.pcapng")


def files(policy: Policy, said: list[str] | None = None) -> Files:
    """Those of a recorder of one device."""
    return Files(policy, "lathe", [0], INFO, (said if said is not None else []).append)


def blocks(first: int, count: int, mono_ns: int = 0, info: dict[str, Any] = INFO, data: bytes = b"") -> bytes:
    """So many messages, each with that data if there is some."""
    sent = [Message.from_message(Announcement("$.A", data))] * count if data else numbered(count)
    messages = [each.to_bytes() for each in sent]
    arrivals = [(mono_ns, 0, 0, each) for each in messages]
    origins = origins_of(info, [0])
    return b"".join(packets(pcapng.NATIVE, origins, first, START + first - mono_ns, arrivals))


def sequences(path: Path) -> list[int]:
    """The numbers of the messages in a whole capture."""
    return [each.facts.sequence for each in read(path)[0]]


def all_sequences(paths: list[Path]) -> list[int]:
    """The numbers of the messages in several."""
    return [number for path in paths for number in sequences(path)]


def test_a_file_has_its_name_when_it_is_done(tmp_path: Path) -> None:
    one = files(Policy(tmp_path))
    one.append(blocks(1, 10), [10], [0])
    (part,) = tmp_path.iterdir()
    assert NAME.fullmatch(part.name[: -len(".part")]) and part.name.endswith(".pcapng.part")
    assert sequences(part) == list(range(1, 11))
    one.finish()
    (sealed,) = tmp_path.iterdir()
    assert f"{sealed.name}.part" == part.name
    with Reader(sealed) as reader:
        assert len(list(reader)) == 10
    assert [(each.received, each.dropped) for each in statistics_in(sealed)] == [(10, 0)]


def test_a_file_that_others_would_recover_is_sealed(tmp_path: Path) -> None:
    """As it is locked, nobody makes another of its last name meanwhile, with less than there will be."""
    one = files(Policy(tmp_path))
    one.append(blocks(1, 10), [10], [0])
    (part,) = tmp_path.iterdir()
    with pytest.raises(OSError, match="it is still being recorded"):
        recover(part, part.with_suffix(""))
    one.append(blocks(11, 10), [10], [0])
    one.finish()
    (path,) = tmp_path.iterdir()
    assert (path, sequences(path)) == (part.with_suffix(""), list(range(1, 21)))


def test_rotation_by_size(tmp_path: Path) -> None:
    one = files(Policy(tmp_path, rotate_size=5000))
    for first in range(1, 201, 10):
        one.append(blocks(first, 10), [10], [first // 100])
        one.tick()
    one.finish()
    found = sorted(tmp_path.iterdir())
    assert [match[1] for path in found if (match := NAME.fullmatch(path.name))] == [
        f"{number:04d}" for number in range(1, len(found) + 1)
    ]
    assert all_sequences(found) == list(range(1, 201))
    assert all(5000 <= path.stat().st_size < 7500 for path in found[:-1])
    assert len(found) > 3
    dropped = []
    for path in found:
        dropped += [each.dropped for each in statistics_in(path)]
    assert sum(dropped) == 1


def test_rotation_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    one = files(Policy(tmp_path, rotate_time=60))
    one.begin()
    now[0] += 61
    one.tick()
    assert len(list(tmp_path.iterdir())) == 1  # there is nothing in it yet
    one.append(blocks(1, 1), [1], [0])
    one.tick()
    one.append(blocks(2, 1), [1], [0])
    one.finish()
    assert [sequences(path) for path in sorted(tmp_path.iterdir())] == [[1], [2]]


def test_keep_deletes_what_was_there_first_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins in 1970, is set, and is set back."""
    for number in range(4):
        earlier = gzip.compress(capture([Announcement("$.A", bytes(5000))]), compresslevel=0)
        (tmp_path / f"lathe-0-20260101T000000Z-{number:04d}.pcapng.gz").write_bytes(earlier)
    stamps = iter(["19700101T000000Z", "20260301T000000Z", "20260201T000000Z", "20260202T000000Z"])
    monkeypatch.setattr("time.strftime", lambda *_: next(stamps))
    said: list[str] = []
    one = files(Policy(tmp_path, rotate_size=5000, keep=20_000), said)
    for first in range(1, 201, 50):
        one.append(blocks(first, 50), [50], [0])
        one.seal()
    assert all_sequences([next(tmp_path.glob(f"*2026020{day}*")) for day in (1, 2)]) == list(range(101, 201))
    assert len(list(tmp_path.iterdir())) == 2
    assert [line.split("-")[2][:4] for line in said] == ["2026"] * 4 + ["1970", "2026"]


def test_keep_deletes_nothing_before_there_is_need(tmp_path: Path) -> None:
    """What is there fits when the last file is sealed: there will be no other one."""
    said: list[str] = []
    one = files(Policy(tmp_path, rotate_size=10_000, keep=20_000), said)
    for first in (1, 51):
        one.append(blocks(first, 50), [50], [0])
        one.tick()
        one.seal()
    one.finish()
    kept = sorted(tmp_path.iterdir())
    assert (all_sequences(kept), said) == (list(range(1, 101)), [])
    again = files(Policy(tmp_path, rotate_size=10_000, keep=20_000), said)
    again.append(blocks(1, 50), [50], [0])
    assert f"{kept[0].name} is deleted" in said[0] and len(said) == 1
    again.finish()


@pytest.mark.parametrize("compress", [False, True])
def test_keep_never_deletes_what_was_just_written(compress: bool, tmp_path: Path) -> None:
    one = files(Policy(tmp_path, keep=1000, compress=compress))
    one.append(blocks(1, 100), [100], [0])
    one.finish()
    assert [sequences(path) for path in tmp_path.iterdir()] == [list(range(1, 101))]


@pytest.mark.parametrize(("compress", "suffix"), [(False, ".pcapng"), (True, ".pcapng.gz")])
def test_a_clock_that_is_set_back_replaces_no_file(
    compress: bool, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.strftime", lambda *_: "20260101T000000Z")
    for _ in range(3):
        one = files(Policy(tmp_path, compress=compress))
        one.append(blocks(1, 1), [1], [0])
        one.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"lathe-0-20260101T000000Z-{number:04d}{suffix}" for number in (1, 2, 3)
    ]


def test_keep_deletes_the_oldest_and_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    old = tmp_path / "lathe-0-20200101T000000Z-0001.pcapng"
    old.write_bytes(capture(numbered(10)))
    size = old.stat().st_size
    one = files(Policy(tmp_path, rotate_size=5000, keep=20_000), said)
    for first in range(1, 1001, 10):
        one.append(blocks(first, 10), [10], [0])
        one.tick()
        own = [path.stat().st_size for path in tmp_path.glob("lathe-0-*")]
        assert sum(own) <= 20_000 + 2500
    one.finish()
    assert not old.exists()
    left = sorted(tmp_path.glob("lathe-0-*"))
    assert sequences(left[-1])[-1] == 1000
    assert said[0] == f"{old.name} is deleted, {size} bytes, to stay within --keep 20000"
    assert len(said) == 1 + one.sealed - len(left)


def test_keep_deletes_nothing_of_anybody_elses(tmp_path: Path) -> None:
    """Whatever their names begin with."""
    prefixes = [file_prefix(device, [0]) for device in ("lathe-0", "lathe-0-east", "Lathe", "the lathe")]
    prefixes += [file_prefix("lathe", [7]), file_prefix("lathe", [0, 1]), "lathe-0-copy-"]
    for prefix in prefixes:
        for suffix in (".pcapng", ".pcapng.gz"):
            (tmp_path / f"{prefix}20200101T000000Z-0001{suffix}").write_bytes(bytes(100_000))
    (tmp_path / "lathe-0-notes.pcapng").write_bytes(bytes(100_000))
    (tmp_path / "lathe-0-20200101T000000Z-9999.pcapng.part").write_bytes(capture(numbered(1000)))
    os.mkfifo(tmp_path / "lathe-0-20200101T000000Z-9998.pcapng")
    (tmp_path / "lathe-0-20200101T000000Z-9997.pcapng").mkdir()
    before = set(tmp_path.iterdir())
    said: list[str] = []
    one = files(Policy(tmp_path, rotate_size=1000, keep=5000, compress=True), said)
    for first in range(1, 1001, 10):
        one.append(blocks(first, 10), [10], [0])
        one.tick()
    one.finish()
    assert before < set(tmp_path.iterdir())
    assert len(set(tmp_path.iterdir()) - before) < 10
    assert all("is deleted" in line and "2020" not in line for line in said), said


def test_compressed_files_are_the_same(tmp_path: Path) -> None:
    one = files(Policy(tmp_path, rotate_size=20_000, compress=True))
    for first in range(1, 1001, 10):
        one.append(blocks(first, 10), [10], [0])
        one.tick()
    one.finish()
    found = sorted(tmp_path.iterdir())
    assert all(path.name.endswith(".pcapng.gz") for path in found)
    assert all_sequences(found) == list(range(1, 1001))
    assert all(b"lathe" in gzip.decompress(path.read_bytes())[:200] for path in found)


def test_what_is_compressed_is_for_nobody_else_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file in the making has the mode of the capture, whatever the umask."""
    source = tmp_path / "lathe-0-x.pcapng"
    source.write_bytes(b"content")
    source.chmod(0o640)
    part = tmp_path / "lathe-0-x.pcapng.gz.part"
    copy = shutil.copyfileobj

    def look_and_copy(*arguments: Any) -> None:
        assert stat.S_IMODE(part.stat().st_mode) == 0o640
        copy(*arguments)

    monkeypatch.setattr(shutil, "copyfileobj", look_and_copy)
    before = os.umask(0)
    try:
        compress(source)
    finally:
        os.umask(before)
    zipped = tmp_path / "lathe-0-x.pcapng.gz"
    assert gzip.decompress(zipped.read_bytes()) == b"content"
    assert stat.S_IMODE(zipped.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [zipped]


@pytest.mark.parametrize("umask", [0, 0o077])
def test_what_is_compressed_has_the_mode_from_the_beginning(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more of it when it is made, and no less in the end, whatever the umask."""
    source = tmp_path / "lathe-0-x.pcapng"
    source.write_bytes(b"content")
    source.chmod(0o640)
    found: list[int] = []
    fchmod = os.fchmod

    def noting(fd: int, mode: int) -> None:
        found.append(stat.S_IMODE(os.fstat(fd).st_mode))
        fchmod(fd, mode)

    monkeypatch.setattr(os, "fchmod", noting)
    before = os.umask(umask)
    try:
        zipped = compress(source)
    finally:
        os.umask(before)
    assert found == [0o640 & ~umask]
    assert stat.S_IMODE(zipped.stat().st_mode) == 0o640


def test_what_can_not_be_deleted_makes_nobody_else_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's, in a directory where each may delete his own."""
    said: list[str] = []
    foreign = tmp_path / "lathe-0-20200101T000000Z-0001.pcapng"
    foreign.write_bytes(capture(numbered(2000)))
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path == foreign:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    one = files(Policy(tmp_path, rotate_size=5_000, keep=20_000), said)
    for first in range(1, 1001, 10):
        one.append(blocks(first, 10), [10], [0])
        one.tick()
    one.finish()
    own = [path for path in tmp_path.iterdir() if path != foreign]
    assert foreign.exists() and 10_000 < sum(path.stat().st_size for path in own) <= 21_000
    told = [line for line in said if "is deleted" not in line]
    assert told and set(told) == {f"can't delete {foreign.name}: Operation not permitted"}


@pytest.mark.parametrize("is_sealed", [True, False])
def test_losses_are_counted_whether_or_not_a_file_was_sealed(is_sealed: bool, tmp_path: Path) -> None:
    """Also those before its first message, and not those of the file before."""
    made, whole = tmp_path / "made", tmp_path / "whole.pcapng"
    made.mkdir()
    one = files(Policy(made))
    message = numbered(1)[0].to_bytes()
    for first, lost in ((1, 3), (11, 10)):
        for count in range(2):
            block = packets(
                pcapng.NATIVE, origins_of(INFO, [0]), first + count, START, [(0, 0, lost, message)]
            )
            one.append(b"".join(block), [1], [lost])
        if is_sealed or first == 1:
            one.seal()
    paths = sorted(made.iterdir())
    assert [summarize(path).lost for path in paths] == [3, 7]
    # The one that would be recorded on is not to be recovered.
    recover(Path(shutil.copy(paths[1], tmp_path / "copy")), whole)
    assert [each.dropped for each in statistics_in(whole)] == [7]


def test_names_of_machines_are_names_of_files() -> None:
    assert file_prefix("a.b_c-1", [0, 3]) == "a.b_c-1-0+3-"
    assert file_prefix("a/b c.é", [0, 3]) == "a_b_c._-0+3~1e9bb19f-"
    assert file_prefix("a_b_c.ä", [0, 3]) != file_prefix("a_b_c.ö", [0, 3])


def cuts(ends: list[int], size: int) -> Iterator[int]:
    """Some thousand places: around each block's end, and at random."""
    near = {end + step for end in ends for step in range(-9, 10)}
    somewhere = random.Random(6).sample(range(size), 1000)
    return iter(sorted({cut for cut in near.union(somewhere) if 0 <= cut <= size}))


def strictly_read(data: bytes) -> tuple[list[Record], bool]:
    """What comes before the first damage, and whether there is none."""
    found: list[Record] = []
    try:
        with Reader(io.BytesIO(data)) as reader:
            found.extend(reader)
    except CaptureError:
        return found, False
    return found, True


def test_killed_at_any_byte_what_was_flushed_is_readable(tmp_path: Path) -> None:
    """A thousand cut points: Reader has every message that was whole, strict or not."""
    one = files(Policy(tmp_path))
    for first in range(1, 61, 10):
        one.append(blocks(first, 10), [10], [0])
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    ends = [*(each.facts.offset for each in read(path)[0][1:]), len(data)]
    tried = 0
    for cut in cuts(ends, len(data)):
        records, damage = read(data[:cut], strict=False)
        whole = sum(end <= cut for end in ends)
        assert [each.facts.sequence for each in records] == list(range(1, whole + 1))
        last = max([end for end in ends if end <= cut], default=0)
        if whole:
            assert sum(each.length for each in damage) == cut - last
        assert strictly_read(data[:cut]) == (records, not damage)
        tried += 1
    assert tried > 1000


def test_who_compresses_gives_nobody_more_than_to_read_and_write(tmp_path: Path) -> None:
    path = tmp_path / "lathe-0-x.pcapng"
    path.write_bytes(capture(numbered(5)))
    path.chmod(0o6777)
    assert stat.S_IMODE(compress(path).stat().st_mode) == 0o666


@pytest.mark.parametrize("content", ["half of it", "all of it"])
def test_what_a_crash_has_left_compressed_too_is_there_once(content: str, tmp_path: Path) -> None:
    """Of a rename and an unlink, the disk may have had either."""
    data = capture(numbered(50))
    path = tmp_path / "lathe-0-20260101T000000Z-0001.pcapng"
    path.write_bytes(data)
    path.with_name(path.name + ".gz").write_bytes(
        gzip.compress(data)[: 100 if content == "half of it" else None]
    )
    assert captures_in([tmp_path]) == [path]


@pytest.mark.parametrize("name", ["X.pcapng.gz", "X.pcapng.gz.part"])
def test_compressing_replaces_nothing(name: str, tmp_path: Path) -> None:
    path, other = tmp_path / "X.pcapng", tmp_path / name
    path.write_bytes(b"content")
    other.write_bytes(b"another's")
    with pytest.raises(FileExistsError):
        compress(path)
    assert (path.read_bytes(), other.read_bytes()) == (b"content", b"another's")
    assert len(list(tmp_path.iterdir())) == 2


def test_files_of_other_users_are_none_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are neither counted nor removed."""
    for number in range(2):
        (tmp_path / f"lathe-0-20200101T000000Z-000{number}.pcapng").write_bytes(bytes(50_000))
    before = set(tmp_path.iterdir())
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    said: list[str] = []
    one = files(Policy(tmp_path, rotate_size=1000, keep=2000), said)
    one.append(blocks(1, 10), [10], [0])
    one.finish()
    assert before < set(tmp_path.iterdir())
    assert said == []
