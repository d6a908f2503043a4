# SPDX-License-Identifier: MIT
"""`kbus recover`, which needs no device."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest

from kbus.capture import CaptureError, pcapng
from kbus.capture.part import PartFile
from kbus.capture.recover import recover
from kbus.capture.series import each_once
from kbus.cli import main
from kbus.cli.info import captures_in

from .captures import INFO, capture, numbered, read
from .test_cli_files import run


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("lathe-0.pcapng.part", "lathe-0.pcapng"),
        ("lathe-0.pcapng", "lathe-0.recovered.pcapng"),
        ("lathe-0.pcapng.gz", "lathe-0.recovered.pcapng"),
        ("lathe-0.pcapng.gz.part", "lathe-0.recovered.pcapng"),
        ("upload", "upload.recovered.pcapng"),
    ],
)
def test_recover(name: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was whole is there byte for byte, and what was not is said; the other tools have a whole file."""
    messages = numbered(50)
    data = capture(messages, pcapng.BIG)
    records, _ = read(data)
    cut = records[40].facts.offset
    path, whole = tmp_path / name, tmp_path / target
    path.write_bytes(gzip.compress(data[: cut + 9]) if ".gz" in name else data[: cut + 9])
    status, out, err = run(capsys, "recover", str(path))
    assert (status, out) == (0, f"{whole}\n")
    assert err == (
        f"kbus recover: {path}: 9 bytes from {cut} are left out: the file ends inside a block\n"
        f"kbus recover: {path}: 40 messages are whole\n"
    )
    made = whole.read_bytes()
    assert made[:cut] == data[:cut]
    assert [each[:2] for each in read(made)[0]] == [each[:2] for each in records[:40]]
    assert run(capsys, "info", str(whole))[1].startswith(f"{whole}: whole, ")
    statistics = pcapng.interface_statistics(pcapng.BIG, 0, records[39].time_ns, 40, 3)
    assert made[cut:] == statistics
    assert path.exists()


@pytest.mark.parametrize("suffix", [".pcapng", ".pcapng.gz", ".pcapng.gz.part"])
def test_of_a_directory_what_was_recovered_counts(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else `kbus play` would send the messages of both."""
    data = capture(numbered(50))
    path = tmp_path / f"lathe-0{suffix}"
    path.write_bytes(gzip.compress(data[:-9]) if ".gz" in suffix else data[:-9])
    assert run(capsys, "recover", str(path))[0] == 0
    whole = tmp_path / "lathe-0.recovered.pcapng"
    assert captures_in([tmp_path]) == [whole]
    assert run(capsys, "recover", str(whole))[0] == 0
    assert captures_in([tmp_path]) == [tmp_path / "lathe-0.recovered.recovered.pcapng"]


def test_what_was_recovered_and_compressed_counts() -> None:
    assert each_once(["a.pcapng", "a.recovered.pcapng.gz", "b.recovered.pcapng"]) == [
        "a.recovered.pcapng.gz",
        "b.recovered.pcapng",
    ]
    # A copy of it that is not whole yet is less than what it was made of.
    assert each_once(["a.recovered.pcapng.part", "a.pcapng"]) == ["a.pcapng"]


def test_recover_leaves_a_sealed_section_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = capture(numbered(10)), capture(numbered(10), first=11)
    path = tmp_path / "two"
    path.write_bytes(first + second[:-5])
    assert run(capsys, "recover", str(path))[0] == 0
    made = (tmp_path / "two.recovered.pcapng").read_bytes()
    assert made.startswith(first)
    assert len(read(made)[0]) == 20


@pytest.mark.parametrize("order", [pcapng.LITTLE, pcapng.BIG])
def test_what_is_recovered_is_whole_whatever_byte_of_the_header_is_wrong(
    order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message that can be read is there afterwards; without a section there is none."""
    monkeypatch.setattr("os.fsync", lambda fd: None)
    data = capture(numbered(20), order, buses=[0, 2])
    path, target = tmp_path / "a", tmp_path / "b"
    for at in range(read(data)[0][0].facts.offset):
        for wrong in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= wrong
            path.write_bytes(damaged)
            expected = [each[:2] for each in read(path, strict=False)[0]]
            try:
                recover(path, target)
            except CaptureError:
                assert expected == []
                continue
            assert [each[:2] for each in read(target)[0]] == expected
            target.unlink()


def test_what_can_not_be_said_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pcapng.part"
    path.write_bytes(capture(numbered(1)))
    with io.FileIO("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stderr", io.TextIOWrapper(full))
        assert main(["recover", str(path)]) == 0
    assert len(read(tmp_path / "a.pcapng")[0]) == 1


def test_recover_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, there = tmp_path / "a.pcapng.part", tmp_path / "a.pcapng"
    path.write_bytes(capture(numbered(1)))
    there.write_bytes(b"mine")
    status, out, err = run(capsys, "recover", str(path))
    assert (status, out, err) == (1, "", f"kbus recover: {there} is there already, and is not replaced\n")
    assert there.read_bytes() == b"mine"


@pytest.mark.parametrize("target", [[], ["-o", "other.pcapng"]])
def test_what_is_still_being_recorded_is_left_to_that(
    target: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the recorder's name would be taken, by a file that has only a part of what is in the end there."""
    monkeypatch.chdir(tmp_path)
    recording = PartFile(tmp_path / "a.pcapng")
    recording.append(capture(numbered(2)))
    status, out, err = run(capsys, "recover", "a.pcapng.part", *target)
    assert (status, out, err) == (
        1, "", "kbus recover: can't recover a.pcapng.part: it is still being recorded\n",
    )  # fmt: skip
    assert [each.name for each in tmp_path.iterdir()] == ["a.pcapng.part"]
    # A recorder that has died holds nothing.
    recording.close()
    assert run(capsys, "recover", "a.pcapng.part")[0] == 0


def test_recover_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(b"nothing that was ever recorded")
    status, _, err = run(capsys, "recover", str(path))
    assert (status, err) == (1, f"kbus recover: there is nothing to recover in {path}: not a pcapng file\n")
    assert [each.name for each in tmp_path.iterdir()] == ["a.pcapng"]


def test_recover_replaces_nothing_that_has_come_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the recorder that writes the file seals it."""
    path, target = tmp_path / "x.pcapng.part", tmp_path / "x.pcapng"
    path.write_bytes(capture(numbered(10))[:-5])
    close = PartFile.close

    def seal_meanwhile(file: PartFile) -> None:
        target.write_bytes(b"whole")
        close(file)

    monkeypatch.setattr(PartFile, "close", seal_meanwhile)
    with pytest.raises(FileExistsError):
        recover(path, target)
    assert target.read_bytes() == b"whole"


def test_what_another_one_has_left_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, left = tmp_path / "x.pcapng.part", tmp_path / "x.pcapng.recovering"
    path.write_bytes(capture(numbered(10)))
    left.touch()
    status, _, err = run(capsys, "recover", str(path))
    assert status == 1
    assert err == (
        f"kbus recover: {left} is there already: another one makes it, or has died; then remove it\n"
    )


def test_a_description_that_was_damaged_may_come_late(tmp_path: Path) -> None:
    """Where it is needed first, which is behind messages of another device."""
    data = bytearray(capture(numbered(20), buses=[0, 3], info={**INFO, "bus": [0, 3]}))
    at = data.index(b"kbus3") - 20
    data[at : at + 4] = b"\xff\xff\xff\xff"
    whole = tmp_path / "whole.pcapng"
    (tmp_path / "x.pcapng").write_bytes(data)
    recover(tmp_path / "x.pcapng", whole)
    assert [each.facts.bus for each in read(whole)[0]] == [0, 3] * 10


def test_what_is_no_file_needs_a_name_for_the_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe of the shell: it would leave its new file in /dev."""
    receiving, sending = os.pipe()
    with os.fdopen(receiving), os.fdopen(sending, "wb") as pipe:
        pipe.write(capture(numbered(5)))
        pipe.close()
        path, target = f"/dev/fd/{receiving}", tmp_path / "new.pcapng"
        status, _, err = run(capsys, "recover", path)
        assert status == 2
        assert err.endswith(f"{path} is not a regular file: --output says where the new one goes\n")
        assert run(capsys, "recover", path, "--output", str(target))[:2] == (0, f"{target}\n")
    assert len(read(target)[0]) == 5


@pytest.mark.parametrize("whole", ["a.pcapng", "a.pcapng.gz"])
def test_what_was_being_compressed_is_not_recovered_beside_what_it_was_made_of(
    whole: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From then on others would read the less that it has."""
    data = capture(numbered(50))
    (tmp_path / whole).write_bytes(gzip.compress(data) if ".gz" in whole else data)
    cut = tmp_path / "a.pcapng.gz.part"
    cut.write_bytes(gzip.compress(data[: len(data) // 2]))
    before = set(tmp_path.iterdir())
    why = f"there is nothing to recover in {cut}: {tmp_path / whole} has all that it was made of"
    why += ", or --output says where to recover it"
    assert run(capsys, "recover", str(cut)) == (0, "", f"kbus recover: {why}\n")
    assert set(tmp_path.iterdir()) == before


def test_what_can_not_be_recovered_holds_up_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, good = tmp_path / "empty.pcapng", tmp_path / "good.pcapng.part"
    empty.write_bytes(b"")
    good.write_bytes(capture(numbered(5)))
    status, out, err = run(capsys, "recover", str(empty), str(good))
    assert (status, out) == (1, f"{tmp_path / 'good.pcapng'}\n")
    assert err.splitlines()[-1] == "kbus recover: 1 of the files could not be recovered"
    assert str(empty) in err.splitlines()[0]


@pytest.mark.parametrize("words", [["."], [""], ["--output", ".", "a.pcapng"]])
def test_a_directory_without_a_name_is_told(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "recover", *words)
    assert status == 1
    assert err.endswith(": . is a directory\n")
