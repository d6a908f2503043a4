# SPDX-License-Identifier: MIT
"""`kbus info`, which needs no device, and the command lines of all that is done with captures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kbus import Announcement, Message, MessageId, Reply, Request, abi
from kbus.capture import pcapng
from kbus.cli import main

from .captures import INFO, capture, numbered, read

MESSAGES = [
    Message.from_message(Announcement("$.Sensors.Kitchen", "21.5", from_=3)),
    Message.from_message(Request("$.Lamp", "on", from_=4)),
    Message.from_message(Reply("$.Lamp", to=4, in_reply_to=MessageId(0, 2))),
    Message.from_message(Announcement("$.Sensors.Kitchen", "22.0", from_=3)),
]


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    status = main(list(argv))
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("order", [pcapng.LITTLE, pcapng.BIG])
def test_info(order: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lathe-0-20260101T000000Z-0001.pcapng"
    path.write_bytes(capture(MESSAGES, order))
    assert run(capsys, "info", str(path)) == (
        0,
        f"""\
{path}: whole, {path.stat().st_size} bytes
  lathe, boot {INFO["boot_id"]}, load 7, bound to $.*
  4 messages (kbus0 4), 244 bytes, 0 lost
  2026-01-01 00:00:00.000000000 UTC to 2026-01-01 00:00:00.000003000 UTC, 0.000 s, 1333333.3/s
  NAME               MESSAGES  REQUESTS  REPLIES  BYTES
  $.Lamp                    2         1        1    108
  $.Sensors.Kitchen         2         0        0    136
""",
        "",
    )


def test_info_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.pcapng.gz"
    path.write_bytes(gzip.compress(capture(numbered(40), buses=[0, 2])))
    status, out, _ = run(capsys, "info", "--json", str(path))
    said = json.loads(out)
    assert status == 0
    assert {key: said[key] for key in ("messages", "lost", "missing", "is_sealed", "damage")} == {
        "messages": 40,
        "lost": 8,
        "missing": 0,
        "is_sealed": True,
        "damage": [],
    }
    assert said["sections"] == [INFO]
    assert said["buses"] == {"0": 20, "2": 20}
    assert said["seconds"] == pytest.approx(39e-6)
    assert sum(name["messages"] for name in said["names"].values()) == 40


def test_info_of_a_damaged_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(capture(numbered(50)))
    records, _ = read(bytes(data))
    data[records[10].facts.offset + 64] ^= 1
    torn = records[49].facts.offset
    path = tmp_path / "a.pcapng.part"
    path.write_bytes(data[: torn + 7])
    status, out, err = run(capsys, "info", "-n", "1", str(tmp_path))
    assert status == 1
    assert err == "kbus info: 1 of the captures are damaged; `kbus recover` makes whole ones of them\n"
    lines = out.splitlines()
    assert lines[0] == f"{path}: damaged, {path.stat().st_size} bytes"
    assert lines[2] == f"  48 messages (kbus0 48), {_length(49, 10)} bytes, 4 lost"
    assert "  1 messages are missing in the file, by their numbers" in lines
    assert f"  7 bytes from {torn} are of no use: the file ends inside a block" in lines
    assert any(line.endswith("are of no use: a packet whose checksum is wrong") for line in lines)
    assert lines[-1] == "  and 2 more names"


def _length(count: int, without: int) -> int:
    return sum(each.total_length() for index, each in enumerate(numbered(count)) if index != without)


def test_a_clock_that_was_set_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    back = bytearray(capture(numbered(3)))
    # The upper half of the second message's time
    at = read(bytes(back))[0][1].facts.offset + 12
    (high,) = abi.U32.unpack_from(back, at)
    abi.U32.pack_into(back, at, high - 100)
    path = tmp_path / "a.pcapng"
    path.write_bytes(back)
    _, out, _ = run(capsys, "info", str(path))
    assert "  the clock was set back 1 times" in out.splitlines()


def test_a_directory_has_each_recording_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not also what it was made of, or is being made into."""
    left_out = ("a.pcapng.part", "b.pcapng.gz", "b.pcapng.gz.part", "c.pcapng.gz.part", "f.pcapng.recovering")
    taken = ("a.pcapng", "b.pcapng", "c.pcapng.gz", "d.pcapng.part", "e.pcapng.gz.part")
    for name in (*left_out, *taken):
        data = capture(numbered(1))
        (tmp_path / name).write_bytes(gzip.compress(data) if ".gz" in name else data)
    _, out, _ = run(capsys, "info", "--json", str(tmp_path))
    assert [Path(json.loads(line)["path"]).name for line in out.splitlines()] == list(taken)


def test_a_file_of_a_directory_that_has_gone_meanwhile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.pcapng", "c.pcapng"):
        (tmp_path / name).write_bytes(capture(numbered(1)))
    gone = tmp_path / "b.pcapng"
    # It is found, and can't be opened.
    gone.symlink_to("nothing")
    status, out, err = run(capsys, "info", "--json", str(tmp_path))
    assert (status, err) == (0, f"kbus info: {gone} is left out: it has gone meanwhile\n")
    assert len(out.splitlines()) == 2
    assert run(capsys, "info", str(gone))[0] == 1


def test_info_of_what_is_no_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "info", str(tmp_path))[::2] == (
        1,
        f"kbus info: there are no captures in {tmp_path}\n",
    )
    missing = tmp_path / "missing.pcapng"
    assert run(capsys, "info", str(missing))[::2] == (
        1,
        f"kbus info: can't read {missing}: No such file or directory\n",
    )


@pytest.mark.parametrize(
    ("argv", "cause"),
    [
        (["record", "--on", "$.A"], "--on needs --snapshot"),
        (
            ["record", "--keep", "10M", "--rotate-size", "6M"],
            "--keep is 10485760: it must be twice --rotate-size, 12582912, at least",
        ),
        (
            ["record", "--keep", "20M", "--snapshot", "16M"],
            "--keep is 20971520: it must be twice --snapshot, 33554432, at least",
        ),
        (["record", "--fsync", "often"], "'often' is not a number of seconds from 0"),
        (["record", "--fsync", "0"], "'0' is neither never, seal, always nor a number of seconds"),
        (["record", "--rotate-size", "big"], "'big' is not a size such as"),
        (["record", "--rotate-size", "0M"], "'0M' is not a size such as"),
        (["record", "A"], 'does not start with "$."'),
        (["play"], "PATH"),
        (["play", "x", "--map", "$.A"], "'$.A' is not FROM=TO"),
        (["play", "x", "--map", "$.A=B"], 'does not start with "$."'),
        (["play", "x", "--map", "$.A.*=$.B"], "the beginning of a name is no wildcard"),
        (["play", "x", "--map", "0=$.B"], 'does not start with "$."'),
        (["play", "x", "--rate", "-1"], "'-1' is not a number of seconds from 0"),
        (["recover"], "FILE"),
        (["recover", "a", "b", "-o", "c"], "--output is one file"),
        (["info"], "PATH"),
    ],
)
def test_wrong_command_lines(argv: list[str], cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "")
    assert cause in err
