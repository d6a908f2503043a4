# SPDX-License-Identifier: MIT
"""What `kbus record` says, and what it leaves in its directory, with devices that are fakes."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kbus.capture import Reader
from kbus.cli import main

from .captures import read
from .fake_bus import FakeBus


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> FakeBus:
    """As many devices as are opened."""
    fake = FakeBus()
    monkeypatch.setattr("kbus.capture.source.Ksock", fake.open)
    monkeypatch.setattr("os.sched_setscheduler", lambda *_: None)
    return fake


@pytest.fixture
def record(
    bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[str]]]:
    """Record ``count`` messages of the first device, so many ``at_a_time``; the status, and what was said."""

    def run(*options: str, count: int = 1, at_a_time: int = 1) -> tuple[int, list[str]]:
        left = [at_a_time] * (count // at_a_time)

        def send(*_: object) -> list[int]:
            if not left:
                os.kill(os.getpid(), signal.SIGTERM)
                return []
            bus.send(min(bus.opened), "$.A", left.pop())
            return [0]

        monkeypatch.setattr("kbus.capture.recorder.ready", send)
        status = main(["record", "-o", str(tmp_path), *options])
        return status, capsys.readouterr().err.splitlines()

    return run


Record = Callable[..., tuple[int, list[str]]]


@pytest.mark.parametrize("sync", ["never", "seal", "always"])
def test_a_file_that_can_not_be_closed_is_told(
    sync: str, record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with NFS, which writes then: it may lack anything."""
    close = os.close

    def fail(fd: int) -> None:
        name = os.readlink(f"/proc/self/fd/{fd}")
        close(fd)
        if name.endswith(".part"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("os.close", fail)
    status, said = record("--fsync", sync)
    monkeypatch.undo()
    (part,) = tmp_path.iterdir()
    assert part.suffix == ".part"
    assert status == 1
    assert said[-3:] == [
        f"kbus record: can't finish {part.name}: Input/output error",
        f"kbus record: 1 messages, 0 lost, 0 files, {_blocks(part)} bytes",
        "kbus record: 1 files could not be finished",
    ]


def _blocks(path: Path) -> int:
    """Bytes of the messages' blocks in a file that has nothing but them behind its beginning."""
    records, _ = read(path, strict=False)
    with Reader(path, strict=False) as reader:
        return sum(len(block.raw) for block, record in reader.blocks() if record) if records else 0


def test_a_directory_that_can_not_be_kept_is_told(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the file has its last name already."""
    sync = os.fsync

    def fail(fd: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(fd)

    monkeypatch.setattr("os.fsync", fail)
    status, said = record()
    (path,) = tmp_path.iterdir()
    assert path.suffix == ".pcapng" and len(read(path)[0]) == 1
    assert status == 1
    assert f"kbus record: can't finish {path.name}: Input/output error" in said
    assert not any(".part" in line for line in said[1:])


DEVICES = [word for number in range(80) for word in ("-d", str(number))]


@pytest.mark.parametrize(
    "options",
    [DEVICES, ["--name", 300 * "x"], ["--name", 300 * "ü"], [*DEVICES, "--name", 200 * "x"]],
    ids=["80 devices", "long name", "longer in UTF-8", "both"],
)
def test_names_of_files_fit_with_all_that_others_append(
    options: list[str], record: Record, tmp_path: Path
) -> None:
    for option in ((), ("--compress",)):
        assert record(*options, *option)[0] == 0
    for path in tmp_path.iterdir():
        assert len(os.fsencode(path.name.replace(".pcapng", ".recovered.pcapng.gz.part"))) <= 255
        assert main(["recover", str(path)]) == 0


def test_other_machines_and_devices_have_other_names(record: Record, tmp_path: Path) -> None:
    """Also if they differ in the end alone, which is left out."""
    name = 300 * "x"
    for options in (["--name", name], ["--name", name + "y"], DEVICES, DEVICES[:-2]):
        assert record(*options)[0] == 0
    assert len({path.name.rsplit("-", 2)[0] for path in tmp_path.iterdir()}) == 4


@pytest.mark.parametrize(
    "options",
    [DEVICES, ["--name", 300 * "x"], ["--name", os.fsdecode(b"m\xff")], ["--name", 1000 * "\udcff"]],
    ids=["80 devices", "long name", "not UTF-8", "long and not UTF-8"],
)
def test_keep_holds_whatever_the_name_is(options: list[str], record: Record, tmp_path: Path) -> None:
    keep = ("--keep", "100K", "--rotate-size", "20K", "--flush", "0")
    for _ in range(2):
        status, said = record(*options, *keep, count=1500, at_a_time=25)
        assert status == 0
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 100 << 10
    assert sum("is deleted" in line for line in said) > 3


def test_it_makes_its_directory(record: Record, tmp_path: Path) -> None:
    where = tmp_path / "var" / "log" / "kbus"
    assert record("-o", str(where))[0] == 0
    assert [len(read(path)[0]) for path in where.iterdir()] == [1]
    assert record("-o", str(where / "again"), "--snapshot", "1M")[0] == 0
    assert list((where / "again").iterdir()) == []


@pytest.mark.parametrize("options", [(), ("--snapshot", "1M")])
def test_a_directory_that_can_not_be_made(options: tuple[str, ...], record: Record, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    where = tmp_path / "file" / "below"
    assert record("-o", str(where), *options) == (
        1,
        [f"kbus record: can't write to {where}: Not a directory"],
    )


def test_it_says_that_it_listens_and_where_it_writes(record: Record, tmp_path: Path) -> None:
    _, said = record("-d", "3", "-d", "1")
    (path,) = tmp_path.iterdir()
    assert said[0] == f"kbus record: listening to kbus1, kbus3, writing {path}.part"
    _, said = record("--snapshot", "2K")
    assert said[0] == "kbus record: listening to kbus0, keeping the last 2048 bytes in memory"
