# SPDX-License-Identifier: MIT
"""`kbus info`, which needs no device, and the command lines of all that is done with captures."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from kbus import Announcement, Message, MessageId, Reply, Request, Status
from kbus import _abi as abi
from kbus.capture import pcapng
from kbus.capture.files import Files, Policy
from kbus.capture.summary import summarize
from kbus.cli import main
from kbus.cli.info import captures_in

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
  NAME               MESSAGES  REQUESTS  REPLIES  FAILED  BYTES
  $.Lamp                    2         1        1       0    108
  $.Sensors.Kitchen         2         0        0       0    136
""",
        "",
    )


def test_info_counts_errors_with_the_name_of_the_request(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    failed = "$.KBUS.Replier.Failed"
    path.write_bytes(
        capture(
            [
                Request("$.Door", id=MessageId(0, 1)),
                Request("$.Door", id=MessageId(0, 2)),
                Request("$.Lamp", id=MessageId(0, 3)),
                Reply(failed, "Door.Jammed\ntext", in_reply_to=MessageId(0, 1), id=MessageId(0, 4)),
                Reply("$.Door", in_reply_to=MessageId(0, 2), id=MessageId(0, 5)),
                Status(abi.NAME_REPLIER_GONEAWAY, in_reply_to=MessageId(0, 3), id=MessageId(0, 6)),
                Reply(failed, in_reply_to=MessageId(0, 99), id=MessageId(0, 7)),
            ]
        )
    )
    names = summarize(path).names
    assert {name: each.failed for name, each in names.items() if each.requests} == {"$.Door": 1, "$.Lamp": 0}


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
    assert said["sections"] == [{**INFO, "bus": [0, 2]}]
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
    assert "  1 messages are missing in the file, by what the recorder says" in lines
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


@pytest.mark.parametrize("subcommand", ["info", "play"])
def test_what_is_no_file_in_a_directory_is_left_out(
    subcommand: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status tells of the others. Who asks for it by its name is told that it can't be read."""
    pipe, directory, link = tmp_path / "a.pcapng", tmp_path / "b.pcapng", tmp_path / "c.pcapng"
    os.mkfifo(pipe)
    directory.mkdir()
    (tmp_path / "d.pcapng").write_bytes(capture([]))
    reader, writer = os.pipe()
    try:
        link.symlink_to(f"/proc/self/fd/{reader}")
        status, _, err = run(capsys, subcommand, str(tmp_path))
    finally:
        os.close(reader)
        os.close(writer)
    assert err.splitlines()[:3] == [
        f"kbus {subcommand}: {pipe} is left out: it is not a regular file",
        f"kbus {subcommand}: {directory} is left out: Is a directory",
        f"kbus {subcommand}: {link} is left out: it is not a regular file",
    ]
    assert status == 0
    assert run(capsys, "info", str(pipe))[0] == 1


@pytest.mark.parametrize(
    ("before", "after"), [("a.pcapng.part", "a.pcapng"), ("a.pcapng", "a.pcapng.gz")], ids=["sealed", "gzip"]
)
def test_a_file_of_a_directory_that_gets_its_next_name_is_read(
    before: str,
    after: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And is in its place among the others."""
    (tmp_path / before).write_bytes(capture(numbered(3)))
    found = captures_in([tmp_path])
    assert [path.name for path in found] == [before]
    (tmp_path / before).rename(tmp_path / after)
    if after.endswith(".gz"):
        (tmp_path / after).write_bytes(gzip.compress((tmp_path / after).read_bytes()))
    monkeypatch.setattr("kbus.cli.info.captures_in", lambda paths: found)
    status, out, err = run(capsys, "info", "--json", str(tmp_path))
    assert (status, err) == (0, "")
    assert (json.loads(out)["path"], json.loads(out)["messages"]) == (str(tmp_path / after), 3)


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


def test_a_link_in_a_directory_that_can_not_be_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.pcapng").write_bytes(capture(numbered(1)))
    link = tmp_path / "b.pcapng"
    link.symlink_to(300 * "x")
    status, out, err = run(capsys, "info", "--json", str(tmp_path))
    assert (status, err) == (0, f"kbus info: {link} is left out: File name too long\n")
    assert len(out.splitlines()) == 1


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
        (["record", "--fsync", "often"], "'often' is neither never, seal, always nor a number of seconds"),
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


def test_what_is_no_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No remedy is named that would refuse it, too."""
    path = tmp_path / "text"
    path.write_text("root:x:0:0\n")
    said = f"{path}: not a capture, 11 bytes\n  not a pcapng file\n"
    why = f"{path} is not a capture: not a pcapng file"
    assert run(capsys, "info", str(path)) == (1, said, f"kbus info: {why}\n")
    assert run(capsys, "play", str(path)) == (1, "", f"kbus play: {why}\n")
    status, out, err = run(capsys, "info", "--json", str(path), str(path))
    assert (status, err) == (1, "kbus info: 2 of the files are not captures\n")
    assert [json.loads(line)["damage"][0]["length"] for line in out.splitlines()] == [11, 11]


def test_a_capture_that_has_lost_its_beginning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(b"rubbish." + capture(MESSAGES))
    status, out, err = run(capsys, "info", str(path), __file__)
    assert (status, out.splitlines()[0]) == (1, f"{path}: damaged, {path.stat().st_size} bytes")
    assert f"\n{__file__}: not a capture, " in out
    assert err == (
        f"kbus info: {__file__} is not a capture: not a pcapng file\n"
        "kbus info: 1 of the captures are damaged; `kbus recover` makes whole ones of them\n"
    )
    status, _, err = run(capsys, "play", str(path))
    assert (status, err) == (
        1,
        f"kbus play: {path}: at byte 0: not a pcapng file; --tolerant plays what is undamaged\n",
    )


def test_what_is_being_recorded_is_not_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would grow by that, and so never end."""
    one = Files(Policy(tmp_path), "lathe", [0], INFO, lambda line: None)
    one.append(capture(numbered(5)), [5], [0])
    (part,) = tmp_path.iterdir()
    assert run(capsys, "play", str(tmp_path)) == (
        0,
        "",
        f"kbus play: {part} is being recorded: it is left out\nkbus play: 0 messages sent, 0 left out\n",
    )
    one.finish()
