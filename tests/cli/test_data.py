# SPDX-License-Identifier: MIT
"""The data that the command line gives a message, and stdout."""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Optional

import pytest

from kbus import Announcement
from kbus.terminal.data import given_data
from kbus.terminal.output import StdoutClosed, flush, put, put_json, put_line, put_table, say
from tests.capture.captures import capture


def given(data: Optional[str] = None, file: Optional[Path] = None, hex: bool = False) -> Optional[bytes]:
    return given_data(argparse.Namespace(data=data, file=file, hex=hex))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("22.5", b"22.5"), ("", b""), ("grün", "grün".encode()), ("not utf-8: \udcff", b"not utf-8: \xff")],
)
def test_text(text: str, expected: bytes) -> None:
    assert given(text) == expected


def test_nothing() -> None:
    assert given() is None


def test_hex() -> None:
    assert given("00 fF10", hex=True) == b"\x00\xff\x10"


@pytest.mark.parametrize("hex", [False, True])
def test_stdin_as_it_is(hex: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n12")))
    assert given("-", hex=hex) == b"\xff\n12"


@pytest.mark.parametrize("hex", [False, True])
def test_file_as_it_is(hex: bool, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"\xff\n12")
    assert given(file=path, hex=hex) == b"\xff\n12"


def test_output_is_utf_8_and_bytes(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    put_line("grün")
    put(b"\xff\x00")
    put_json({"name": "grün"})
    assert capsysbinary.readouterr().out == "grün\n".encode() + b'\xff\x00{"name": "gr\\u00fcn"}\n'


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    put_table(("NAME", "N"), [("short", 1000), ("a longer one", 7)])
    assert capsys.readouterr().out == "NAME             N\nshort         1000\na longer one     7\n"


def test_table_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    put_table(("NAME", "N"), [])
    assert capsys.readouterr().out == "NAME  N\n"


def test_say_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    say("listen", "3 messages lost")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "kbus listen: 3 messages lost\n")


def test_closed_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(writer, "w")))
    monkeypatch.setattr(sys, "stdout", stdout)
    put_line("nobody reads this")
    with pytest.raises(StdoutClosed):
        flush()
    with pytest.raises(BrokenPipeError):
        stdout.close()


def _info(path: Path, names: int) -> list[str]:
    """The command that tells all of a capture that has so many names."""
    path.write_bytes(capture([Announcement(f"$.Name{number}") for number in range(names)]))
    return [sys.executable, "-W", "error", "-m", "kbus.cli", "info", "--json", str(path)]


@pytest.mark.parametrize("names", [1, 5000])
def test_a_pipe_that_nobody_reads_is_no_failure(names: int, tmp_path: Path) -> None:
    """Whether the end of the pipe is noticed before all is written, or when it is flushed."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(_info(tmp_path / "x.pcapng", names), stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("names", [1, 5000])
def test_a_full_disk_under_stdout_is_told(names: int, tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(_info(tmp_path / "x.pcapng", names), stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (
        1,
        b"kbus info: can't write to standard output: No space left on device\n",
    )
