# SPDX-License-Identifier: MIT
"""What is no capture is told as what it is, by all commands alike; and captures on stdin."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kbus import Status
from kbus import _abi as abi

from .captures import capture, numbered, read
from .test_cli_files import run

DATA = capture(numbered(5))


def remarks(command: str, path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says on stderr of a file that it refuses."""
    status, out, err = run(capsys, command, str(path))
    assert status == 1
    assert command == "info" or not out
    assert (path.read_bytes() and list(path.parent.iterdir()) == [path]) or not path.stat().st_size
    assert "Traceback" not in err
    return err


# Nothing


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.pcapng", b""), ("x.pcapng.gz", b""), ("x.pcapng.gz", gzip.compress(b""))],
    ids=["file", "gz", "gzip of nothing"],
)
def test_what_is_empty_is_no_capture(
    name: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has lost a recording must not be told that it is whole."""
    path = tmp_path / name
    path.write_bytes(content)
    said = f"{path}: not a capture, {len(content)} bytes\n  it is empty\n"
    assert run(capsys, "info", str(path)) == (1, said, f"kbus info: {path} is not a capture: it is empty\n")
    assert run(capsys, "play", str(path)) == (1, "", f"kbus play: {path} is not a capture: it is empty\n")
    assert run(capsys, "recover", str(path)) == (
        1, "", f"kbus recover: there is nothing to recover in {path}: it is empty\n",
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_empty_is_left_out_by_who_is_tolerant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.pcapng"
    path.touch()
    assert run(capsys, "play", "--tolerant", str(path)) == (
        0,
        "",
        f"kbus play: {path}: 0 bytes from 0 are left out: it is empty\n"
        "kbus play: 0 messages sent, 0 left out\n",
    )


def test_a_recording_without_messages_is_not_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.pcapng"
    path.write_bytes(capture([]))
    assert [run(capsys, command, str(path))[0] for command in ("info", "play", "recover")] == [0, 0, 0]


def test_one_that_is_empty_among_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are shown, and the status tells of it."""
    (tmp_path / "a.pcapng").write_bytes(DATA)
    (tmp_path / "b.pcapng").touch()
    status, out, err = run(capsys, "info", "--json", str(tmp_path))
    assert (status, err) == (1, f"kbus info: {tmp_path / 'b.pcapng'} is not a capture: it is empty\n")
    assert [json.loads(line)["messages"] for line in out.splitlines()] == [5, 0]


# Something else


def old_pcap(order: str, magic: int, inside: bytes) -> bytes:
    """A pcap file as tcpdump writes it, of one packet of Ethernet."""
    header = struct.pack(order + "I2HiIII", magic, 2, 4, 0, 0, 65535, 1)
    return header + struct.pack(order + "4I", 1, 2, len(inside), len(inside)) + inside


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("x.pcapng", data)
    return file.getvalue()


#: As zstd makes it of what it can't make shorter: a frame with one block, which is raw
ZSTD = struct.pack("<4sBHHB", b"\x28\xb5\x2f\xfd", 0x60, len(DATA) - 256, len(DATA) << 3 | 1, 0)

FOREIGN = {
    **{
        f"{order} {magic:x}": (old_pcap(order, magic, DATA), "`editcap -F pcapng ")
        for order in "<>"
        for magic in (0xA1B2C3D4, 0xA1B23C4D)
    },
    "short pcap": (old_pcap("<", 0xA1B2C3D4, b"")[:24], "`editcap -F pcapng "),
    "zstd": (ZSTD + DATA, "`zstd -d`"),
    "xz": (lzma.compress(DATA), "`xz -d`"),
    "bzip2": (bz2.compress(DATA), "`bunzip2`"),
    "zip": (zipped(DATA), "`unzip`"),
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("command", ["info", "play", "recover"])
def test_what_it_is_and_what_makes_it_readable(
    command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if a capture is inside, as it was: what is found there is a part, and never the remedy."""
    content, remedy = FOREIGN[kind]
    path = tmp_path / "x.pcapng"
    path.write_bytes(content)
    err = remarks(command, path, capsys)
    assert remedy in err and str(path) in err
    assert err.count("\n") == 1
    assert "kbus recover`" not in err and "--tolerant" not in err
    if command == "info":
        assert remedy in run(capsys, command, str(path), str(path))[1]


def test_the_remedy_for_pcap_makes_a_capture_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, old, again = (tmp_path / name for name in ("a.pcapng", "a.pcap", "b.pcapng"))
    whole.write_bytes(DATA)
    subprocess.run(["editcap", "-F", "nsecpcap", whole, old], check=True)
    assert "`editcap -F pcapng OLD.pcap NEW.pcapng`" in run(capsys, "info", str(old))[2]
    subprocess.run(["editcap", "-F", "pcapng", old, again], check=True)
    assert run(capsys, "info", str(again))[0] == 0
    assert [each[:2] for each in read(again)[0]] == [each[:2] for each in read(DATA)[0]]


def test_a_capture_whose_beginning_is_damaged_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"BZ" + DATA[2:])
    assert run(capsys, "recover", str(path))[0] == 0


# stdin


def with_stdin(content: bytes, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "kbus.cli", *words],
        input=content,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("content", [DATA, gzip.compress(DATA)], ids=["plain", "gzip"])
def test_info_of_stdin(content: bytes) -> None:
    status, out, err = with_stdin(content, "info", "-")
    assert (status, err) == (0, "")
    # A pipe has no size.
    assert out.startswith("/dev/stdin: whole\n")
    assert "  5 messages (kbus0 5), " in out


def test_play_of_stdin() -> None:
    """What KBUS itself had sent is left out, so that no device is needed."""
    content = capture([Status(abi.NAME_REPLIER_GONEAWAY)] * 3)
    assert with_stdin(content, "play", "-") == (0, "", "kbus play: 0 messages sent, 3 left out\n")


def test_recover_of_stdin(tmp_path: Path) -> None:
    target = tmp_path / "new.pcapng"
    status, out, _ = with_stdin(DATA[:-9], "recover", "-", "--output", str(target))
    assert (status, out) == (0, f"{target}\n")
    assert len(read(target)[0]) == 5


@pytest.mark.parametrize("command", ["info", "play"])
def test_stdin_that_is_empty(command: str) -> None:
    status, _, err = with_stdin(b"", command, "-")
    assert (status, err) == (1, f"kbus {command}: /dev/stdin is not a capture: it is empty\n")


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["play", "--loop", "-"], "stdin can be read once, and --loop begins again"),
        (["play", "-", "-"], "stdin can be read once"),
        (["info", "-", "-"], "stdin can be read once"),
        (["recover", "-"], "--output says where"),
    ],
)
def test_stdin_is_read_once_and_has_no_name(
    words: list[str], cause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert cause in err


def test_a_file_that_is_called_like_stdin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-").write_bytes(DATA)
    assert run(capsys, "info", "./-")[0] == 0
