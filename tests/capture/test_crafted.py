# SPDX-License-Identifier: MIT
"""`kbus info`, `play` and `recover` on captures that no recorder makes: errors, and no tracebacks."""

from __future__ import annotations

import gzip
import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kbus import Announcement, Message
from kbus.capture import Reader, Writer, header, pcapng
from kbus.capture.frame import Origin
from kbus.capture.header import info_in
from kbus.capture.recover import recover
from kbus.capture.writer import packets, section_start

from .captures import INFO, START, capture, numbered, read, statistics_in
from .effort import peak_memory
from .rubbish import MIB
from .test_cli_files import run

HEADER = len(pcapng.section_header(pcapng.NATIVE, json.dumps(INFO, separators=(",", ":"))))
REST = capture(numbered(5))[HEADER:]
TSRESOL = b"\x09\0\1\0"


def with_comment(comment: str) -> bytes:
    """A capture of 5 messages whose header says that."""
    return pcapng.section_header(pcapng.NATIVE, comment) + REST


def with_info(**changes: Any) -> bytes:
    """A capture of 5 messages whose header has these values, and whose packets are of that recording."""
    return capture(numbered(5), info={**INFO, **changes})


def check_damaged(path: Path, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All that reads it says why, and those which pass damage over have all messages."""
    status, out, err = run(capsys, "info", str(path))
    assert (status, err) == (
        1,
        "kbus info: 1 of the captures are damaged; `kbus recover` makes whole ones of them\n",
    )
    assert f"are of no use: {reason}" in out
    assert "  5 messages (" in out
    assert json.loads(run(capsys, "info", "--json", str(path))[1])["messages"] == 5
    status, _, err = run(capsys, "play", str(path))
    assert status == 1
    assert err.startswith(f"kbus play: {path}: at byte ")
    assert err.endswith(f": {reason}; --tolerant plays what is undamaged\n")
    status, out, _ = run(capsys, "recover", str(path))
    assert status == 0
    records, damage = read(Path(out.rstrip("\n")))
    assert (len(records), damage) == (5, [])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"bindings": None}, "bindings is not a list of strings"),
        ({"bindings": 7}, "bindings is not a list of strings"),
        ({"bindings": "$.*"}, "bindings is not a list of strings"),
        ({"bindings": ["$.A", None]}, "bindings is not a list of strings"),
        ({"bindings": {"$.A": 1}}, "bindings is not a list of strings"),
        ({"device": 7}, "device is not a string"),
        ({"device": ["lathe"]}, "device is not a string"),
        ({"boot_id": ["x"]}, "boot_id is not a string or null"),
        ({"load_id": float("nan")}, "load_id is not a number from 0, a string or null"),
        ({"load_id": True}, "load_id is not a number from 0, a string or null"),
        ({"load_id": 1 << 64}, "load_id is not a number from 0, a string or null"),
        ({"bus": "0"}, "bus is not a number from 0 or a list of them"),
        ({"bus": [0, -1]}, "bus is not a number from 0 or a list of them"),
        ({"bus": [0, 3, 0]}, "bus has a number twice"),
        ({"recorder": None}, "recorder is not a string"),
        ({"lost_before": 3}, "lost_before is not a list of numbers from 0"),
        ({"lost_before": [float("inf")]}, "lost_before is not a list of numbers from 0"),
    ],
)
def test_a_header_with_values_of_the_wrong_kind(
    changes: dict[str, Any], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(with_info(**changes))
    check_damaged(path, f"a section header whose {reason}", capsys)


@pytest.mark.parametrize(
    "value",
    ['{"x":' * 12000, '{"recorder":"1","x":' + "[" * 30000 + "]" * 30000 + "}"],
    ids=["of braces", "of a recorder"],
)
def test_a_header_that_is_nested_too_deeply(
    value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(with_comment(value))
    check_damaged(path, "a section header whose comment is nested too deeply", capsys)


@pytest.mark.parametrize(
    ("right", "wrong", "reason"),
    [
        ('"bus":', '"bus";', "is no JSON"),
        ('"recorder"', '"recordes"', "lacks the recorder"),
        ("lathe", "lat\x08e", "is no JSON"),
        ("lathe", "la\xf4he", "is no JSON"),
    ],
)
def test_a_header_of_which_a_bit_is_wrong(
    right: str, wrong: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(capture(numbered(5)).replace(right.encode(), wrong.encode("latin-1")))
    check_damaged(path, f"a section header whose comment {reason}", capsys)


def test_what_mergecap_makes_of_a_comment_is_no_damage() -> None:
    said = json.dumps(INFO).encode() + b" \nFile created by merging: \nFile1: \xff.pcapng \n"
    assert info_in(said) is None


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_what_means_nothing_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON does not have NaN, nor can all of what is nested be written as easily as it is read."""
    path = tmp_path / "a.pcapng"
    path.write_bytes(with_info(more=float("nan"), deep=nested(300)))
    status, out, _ = run(capsys, "info", "--json", str(path))
    assert (status, json.loads(out)["sections"]) == (0, [INFO])


def test_a_header_with_half_a_character(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(with_info(device="\udc80"))
    assert "\n  \\udc80, boot " in run(capsys, "info", str(path))[1]
    assert read(path)[0][0].facts.section.info["device"] == "\\udc80"


def test_what_a_header_does_not_know_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(with_info(boot_id=None, load_id=None))
    assert "\n  lathe, boot unknown, load unknown, bound to $.*\n" in run(capsys, "info", str(path))[1]


@pytest.mark.parametrize("resolution", [b"\x00", b"\x01", b"\x0a", b"\x7f", b"\x80", b"\x9e", b"\xff"])
def test_an_interface_with_another_unit_of_time(
    resolution: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No recorder writes one, nor do other tools: it is damage, and the times are right."""
    path = tmp_path / "a.pcapng"
    data = capture(numbered(5)).replace(b'{"device"', b'!"device"')
    path.write_bytes(data.replace(TSRESOL + b"\x09", TSRESOL + resolution))
    check_damaged(path, f"an interface with if_tsresol {resolution.hex()}, and not 06 or 09", capsys)
    assert [each.time_ns for each in read(path, strict=False)[0]] == [START + 1000 * n for n in range(5)]


@pytest.mark.parametrize("wrong", [TSRESOL + b"\x06", b"\x08" + TSRESOL[1:] + b"\x09"])
def test_a_recorder_does_not_write_microseconds(wrong: bytes) -> None:
    records, damage = read(capture(numbered(5)).replace(TSRESOL + b"\x09", wrong), strict=False)
    assert [each.reason for each in damage] == ["an interface kbus0, which is not kbus0 with times in ns"]
    assert [each.time_ns for each in records] == [START + 1000 * n for n in range(5)]


def in_microseconds(ticks: int) -> bytes:
    """What a tool has made of a capture of one message, at such a time."""
    data = bytearray(capture(numbered(1)))
    struct.pack_into("=2I", data, read(bytes(data))[0][0].facts.offset + 12, ticks >> 32, ticks & 0xFFFFFFFF)
    return bytes(data).replace(b'{"device"', b'!"device"').replace(TSRESOL + b"\x09", TSRESOL + b"\x06")


def test_what_is_recovered_of_microseconds_is_in_microseconds(tmp_path: Path) -> None:
    data = in_microseconds(START // 1000)
    path = tmp_path / "a.pcapng"
    path.write_bytes(data[: -len(pcapng.interface_statistics(pcapng.NATIVE, 0, 0, 0, 0))])
    whole = tmp_path / "b.pcapng"
    recover(path, whole)
    assert [each.time_ns for each in read(whole)[0]] == [START]
    assert [each.time_ns for each in statistics_in(whole)] == [START]


def test_nothing_is_assumed_because_of_what_no_recorder_has_made() -> None:
    """Else the interface that is described after it would not be the one that the messages are of."""
    order = pcapng.NATIVE
    data = in_microseconds(START // 1000)
    description = data.index(struct.pack("=I", pcapng.INTERFACE_DESCRIPTION), 28)
    other = pcapng.block(order, pcapng.ENHANCED_PACKET, pcapng.PACKET[order].pack(0, 0, 0, 8, 8) + bytes(8))
    records, damage = read(data[:description] + other + data[description:], strict=False)
    assert [each.time_ns for each in records] == [START]
    assert [each.length for each in damage] == [len(other)]


def test_a_time_that_is_too_far_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(in_microseconds(2**64 - 1))
    status, out, _ = run(capsys, "info", str(path))
    assert status == 0
    assert "\n  2554-07-21 23:34:33.709551615 UTC to 2554-07-21 23:34:33.709551615 UTC\n" in out
    status, out, _ = run(capsys, "recover", str(path))
    assert (status, len(read(Path(out.rstrip("\n")))[0])) == (0, 1)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Lamp", "message name 'Lamp' does not start with \"$.\""),
        ("", "message name '' does not start with \"$.\""),
        ("$.", "message name '$.' has an empty word"),
        ("$.A\x1b[2J", "message name '$.A\\x1b[2J' has other than ASCII letters and digits in 'A\\x1b[2J'"),
        ("$.A.*", "a message whose name is the wildcard '$.A.*'"),
    ],
)
def test_a_message_of_a_name_that_is_none(
    name: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Message("$.A")
    wrong.name = name
    path = tmp_path / "a.pcapng"
    path.write_bytes(capture([wrong, *numbered(5)]))
    check_damaged(path, reason, capsys)


@pytest.mark.parametrize(
    ("name", "bus"), [("kbus123456789", 123456789), ("kbus" + "9" * 60000, None)], ids=["long", "too long"]
)
def test_a_device_with_a_long_number(name: str, bus: int | None) -> None:
    begin = pcapng.section_header(pcapng.NATIVE, "none") + pcapng.interface_description(pcapng.NATIVE, name)
    with Reader(io.BytesIO(begin)) as reader:
        assert list(reader) == []
    assert [each.bus for each in reader.sections[0].interfaces] == [bus]


def test_more_damage_than_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is counted, and there is not memory for all of it."""
    path = tmp_path / "a.pcapng"
    path.write_bytes(pcapng.section_header(pcapng.NATIVE, '{"x":' * 9000) * 1200 + REST)
    status, out, _ = run(capsys, "info", str(path))
    assert (status, "\n  and 1190 more places\n" in out) == (1, True)
    said = json.loads(run(capsys, "info", "--json", str(path))[1])
    assert (len(said["damage"]), said["more_damage"], said["messages"]) == (1000, 200, 5)
    assert run(capsys, "recover", str(path))[2].splitlines()[-2:] == [
        f"kbus recover: {path}: and 200 more places",
        f"kbus recover: {path}: 5 messages are whole",
    ]


# Floods


SECTION = pcapng.block(
    pcapng.NATIVE,
    pcapng.SECTION_HEADER,
    pcapng.SECTION[pcapng.NATIVE].pack(pcapng.BYTE_ORDER_MAGIC, 1, 0, -1),
)
FLOODS = {
    "sections": SECTION * 40_000,
    "sections with a header": capture([])[:HEADER] * 4_000,
    "names of interfaces": SECTION + pcapng.interface_description(pcapng.NATIVE, "\xff" * 32_000) * 256,
    "statistics": capture([]) + pcapng.interface_statistics(pcapng.NATIVE, 0, 0, 0, 0) * 60_000,
}


@pytest.mark.parametrize("kind", FLOODS)
@pytest.mark.parametrize("command", ["info", "recover"])
def test_a_flood_of_blocks_takes_no_memory(
    command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Less than 81 kB of gzip may be 16 MB of sections."""
    path = tmp_path / "a.pcapng"
    path.write_bytes(FLOODS[kind])
    done: list[tuple[int, str, str]] = []
    assert peak_memory(lambda: done.append(run(capsys, command, str(path)))) < 6 << 20
    ((status, out, err),) = done
    assert (status, len(err) < 1000) == (0, True)
    if command == "info":
        assert len(out.splitlines()) < 1100


def of_interface(index: int, info: dict[str, Any] | None = None) -> bytes:
    """A packet of a section that describes nothing."""
    origins = [Origin(0, header.recording_of(info) if info else 1)] * (index + 1)
    message = Announcement("$.A").to_bytes()
    return b"".join(packets(pcapng.NATIVE, origins, 1, START, [(5, index, 0, message)]))


#: As many devices as the module may have
MANY = {**INFO, "bus": list(range(256))}
SHORT = pcapng.block(pcapng.NATIVE, pcapng.INTERFACE_DESCRIPTION, struct.pack("=HHI", 147, 0, 0))


@pytest.mark.parametrize(("count", "is_told"), [(256, True), (257, False)])
def test_a_header_that_tells_more_devices_than_there_may_be_tells_none(count: int, is_told: bool) -> None:
    info = {**INFO, "bus": list(range(1000, 1000 + count))}
    begin = section_start(pcapng.NATIVE, info, [])
    with Reader(io.BytesIO(begin + of_interface(count - 1, info)), strict=False) as reader:
        found = list(reader)
    (section,) = reader.sections
    assert section.buses == (info["bus"] if is_told else [])
    # A packet of another interface than a device can have is damage.
    assert (len(found), len(section.interfaces)) == ((1, 256) if is_told else (0, 0))
    assert reader.damage


def test_headers_that_claim_thousands_of_devices_take_no_memory() -> None:
    """A file of gzip that has 20 kB may be 2 MB of them, and each would be thousands of interfaces."""
    claim = {**INFO, "bus": list(range(4096))}
    zipped = gzip.compress((section_start(pcapng.NATIVE, claim, []) + of_interface(4095, claim)) * 100)
    assert len(zipped) < 30_000

    def read_all() -> Reader:
        with Reader(io.BytesIO(zipped), strict=False) as reader:
            for _ in reader:
                pass
        return reader

    assert peak_memory(read_all) < 8 * MIB


@pytest.mark.parametrize(
    "one",
    [
        SECTION + of_interface(255),
        section_start(pcapng.NATIVE, MANY, []) + of_interface(255, MANY),
        SECTION + SHORT * 4096 + of_interface(0),
    ],
    ids=["no header", "header", "descriptions"],
)
def test_what_is_made_anew_is_bounded_by_what_is_there(one: bytes, tmp_path: Path) -> None:
    """Each section may lack interfaces, and a file has many sections."""
    path = tmp_path / "a.pcapng"
    path.write_bytes(one * ((1 << 18) // len(one)))
    target = tmp_path / "whole.pcapng"
    messages, _ = recover(path, target)
    # 256 descriptions and as many statistics, 100 bytes for each device, for a section of one packet.
    assert target.stat().st_size <= 200 * path.stat().st_size
    records, damage = read(target)
    assert (len(records), damage) == (messages, [])


def test_the_sections_that_are_not_kept_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their messages, losses and statistics are, too."""
    path = tmp_path / "a.pcapng"
    path.write_bytes(capture(numbered(20)) * 1200)
    status, out, _ = run(capsys, "info", str(path))
    assert (status, out.count("lathe, boot"), "\n  and 1100 more sections\n" in out) == (0, 100, True)
    said = json.loads(run(capsys, "info", "--json", str(path))[1])
    assert (len(said["sections"]), said["more_sections"]) == (100, 1100)
    assert (said["messages"], said["lost"], said["missing"], said["is_sealed"]) == (24_000, 2400, 0, True)
    with Reader(path) as reader:
        last = list(reader)[-1].facts.section
    assert (reader.section, len(reader.sections)) == (last, 100)


def test_no_memory_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    path = tmp_path / "a.pcapng"
    path.write_bytes(capture(numbered(5)))
    monkeypatch.setattr("kbus.capture.reader.Reader._take", no_memory)
    assert run(capsys, "info", str(path)) == (1, "", "kbus info: there is not enough memory\n")
    assert run(capsys, "recover", str(path)) == (1, "", "kbus recover: there is not enough memory\n")
    assert list(tmp_path.iterdir()) == [path]


# Names that a header has no room for


def test_bindings_that_a_comment_has_room_for() -> None:
    names = [f"$.Name{number:05}" for number in range(4600)]
    ((record,), _) = read(capture(numbered(1), info={**INFO, "bindings": names}))
    assert record.facts.section.info["bindings"] == names


def test_bindings_that_a_comment_has_no_room_for() -> None:
    names = [f"$.Name{number:05}" for number in range(4700)]
    with pytest.raises(ValueError, match=r"comment of .* bytes, and 65535 is the most"):
        Writer(io.BytesIO(), {**INFO, "bindings": names}, [0])


def test_a_comment_that_counts_bindings_as_they_once_were_counted() -> None:
    """Recorders wrote so where they left out some of them: it is a key that means nothing."""
    ((record,), _) = read(capture(numbered(1), info={**INFO, "bindings_left_out": 9}))
    assert record.facts.section.info == INFO
