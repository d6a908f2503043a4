# SPDX-License-Identifier: MIT
"""Captures of a directory, whose names come from a clock that may be wrong."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from kbus import Announcement
from kbus.capture import Frame, Writer
from kbus.capture.series import by_recording
from kbus.cli import main
from tests.capture.captures import INFO, START


def section(boot: str, *mono: int) -> bytes:
    """A capture of that boot with messages of these times."""
    file = io.BytesIO()
    writer = Writer(file, {**INFO, "boot_id": boot}, [0])
    for count, time in enumerate(mono, 1):
        writer.write(0, START, Frame(count, time, 0), [Announcement("$.A", str(time)).to_bytes()])
    return file.getvalue()


def names(directory: Path) -> list[str]:
    return [path.name for path in by_recording(directory.iterdir())]


def test_a_clock_that_was_set_back_while_it_recorded(tmp_path: Path) -> None:
    (tmp_path / "kbus-2026.pcapng").write_bytes(section("one", 10, 20))
    (tmp_path / "kbus-1970.pcapng").write_bytes(section("one", 30, 40))
    assert names(tmp_path) == ["kbus-2026.pcapng", "kbus-1970.pcapng"]


def test_boots_are_not_mixed(tmp_path: Path) -> None:
    for name, boot, mono in [("1", "one", 500), ("2", "two", 10), ("3", "one", 400), ("4", "two", 5)]:
        (tmp_path / f"{name}.pcapng").write_bytes(section(boot, mono))
    assert names(tmp_path) == ["3.pcapng", "1.pcapng", "4.pcapng", "2.pcapng"]


def test_what_has_no_time(tmp_path: Path) -> None:
    (tmp_path / "1.pcapng").write_bytes(section("one"))
    (tmp_path / "2.pcapng.gz").write_bytes(gzip.compress(section("one", 7)))
    (tmp_path / "3.pcapng").write_bytes(b"no capture")
    (tmp_path / "4.pcapng").symlink_to("nothing")
    assert names(tmp_path) == ["2.pcapng.gz", "1.pcapng", "3.pcapng", "4.pcapng"]


def test_info_has_this_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pcapng").write_bytes(section("one", 30))
    (tmp_path / "b.pcapng").write_bytes(section("one", 10))
    assert main(["info", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.index("b.pcapng") < out.index("a.pcapng")
