# SPDX-License-Identifier: MIT
"""Captures that were cut, overwritten or are none: strict reading refuses them, tolerant reading counts."""

from __future__ import annotations

import gzip
import io
import struct
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbus import Announcement, Message
from kbus.capture import CaptureError, Damage, Reader, Record, frame, pcapng
from kbus.capture.input import MaybeGzip, Window
from kbus.capture.recover import recover
from kbus.capture.sections import HEADER_IS_LOST, NOT_DESCRIBED, Blocks
from kbus.capture.writer import section_start

from . import descriptions
from .captures import INFO, capture, numbered, read, without_origins
from .rubbish import MIB, RUBBISH, healthy

MESSAGES = numbered(60)
DATA = {order: capture(MESSAGES, order) for order in (pcapng.LITTLE, pcapng.BIG)}
WHOLE = {order: read(data)[0] for order, data in DATA.items()}
#: Where each message's block begins, and the last one ends
BEGINS = [each.facts.offset for each in WHOLE[pcapng.LITTLE]]


def _block(index: int) -> slice:
    return slice(BEGINS[index], BEGINS[index + 1])


@pytest.mark.parametrize("order", DATA)
def test_every_cut(order: str) -> None:
    """Cut at each of its bytes, a file gives the messages that are whole before it, and says what is left."""
    data = DATA[order]
    for cut in range(len(data)):
        records, damage = read(data[:cut], strict=False)
        expected = [each for each in WHOLE[order] if _end_of(data, each.facts.offset, order) <= cut]
        assert [each[:2] for each in records] == [each[:2] for each in expected]
        assert sum(each.length for each in damage) == cut - _whole_blocks(data, cut, order)
        assert len(damage) <= 1


def _end_of(data: bytes, offset: int, order: str) -> int:
    return offset + int(struct.unpack_from(order + "I", data, offset + 4)[0])


def _whole_blocks(data: bytes, cut: int, order: str) -> int:
    """The end of the last block that ends before the cut."""
    end = 0
    while end < cut and _end_of(data, end, order) <= cut:
        end = _end_of(data, end, order)
    return end


def test_strict_reading_names_file_place_and_cause(tmp_path: Path) -> None:
    path = tmp_path / "torn.pcapng"
    path.write_bytes(DATA[pcapng.LITTLE][: BEGINS[5] + 20])
    with Reader(path) as reader:
        assert [next(reader).message for _ in range(5)] == MESSAGES[:5]
        with pytest.raises(CaptureError) as raised:
            next(reader)
    assert str(raised.value) == f"{path}: at byte {BEGINS[5]}: the file ends inside a block"


@settings(max_examples=300, deadline=None)
@example(at=BEGINS[10] + 4, byte=0xFF)
@example(at=BEGINS[10] + 4, byte=0x80)
@example(at=26, byte=5)
@given(at=st.integers(0, len(DATA[pcapng.LITTLE]) - 1), byte=st.integers(1, 255))
def test_one_wrong_byte_costs_one_block(at: int, byte: int) -> None:
    """Whatever byte is wrong after the section's header, no more is lost than the message that it is in.

    In the header it may be worse: the byte order may be gone, or the unit of time. But no message is changed.
    """
    damaged = bytearray(DATA[pcapng.LITTLE])
    damaged[at] ^= byte
    records, damage = read(bytes(damaged), strict=False)
    whole = {each.facts.sequence: each.message for each in WHOLE[pcapng.LITTLE]}
    for each in records:
        assert each.message == whole[each.facts.sequence]
    if at >= BEGINS[0]:
        assert len(records) >= len(MESSAGES) - 1
        assert len(damage) <= 1


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200), begin=st.booleans())
def test_bytes_that_are_no_capture(data: bytes, begin: bool) -> None:
    if begin:
        data = DATA[pcapng.LITTLE][: BEGINS[0]] + data
    records, damage = read(data, strict=False)
    assert records == []
    skipped = len(data) - (BEGINS[0] if begin else 0)
    assert sum(each.length for each in damage) <= skipped


def test_a_file_of_something_else_is_all_damage() -> None:
    data = b"#!/bin/sh\necho no capture\n" * 100
    assert read(data, strict=False) == ([], [(0, len(data), "not a pcapng file")])
    with pytest.raises(CaptureError, match="capture: at byte 0: not a pcapng file"):
        read(data)


@pytest.mark.long("measures time")
def test_much_that_is_no_capture_is_passed_over_quickly() -> None:
    """64 MiB with words like the kind of a packet, and then like that of a section, in some seconds."""
    rubbish = (b"\x06\0\0\0" * 8 + bytes(8160)) * 4096 + (b"\n\r\r\n" + bytes(8188)) * 4096
    began = time.process_time()
    records, damage = read(DATA[pcapng.LITTLE] + rubbish + DATA[pcapng.BIG], strict=False)
    assert time.process_time() - began < 10
    assert [each.message for each in records] == 2 * MESSAGES
    assert [(each.offset, each.length) for each in damage] == [(len(DATA[pcapng.LITTLE]), len(rubbish))]


@pytest.mark.long("measures time")
@pytest.mark.parametrize("kind", RUBBISH)
def test_what_is_no_capture_is_passed_over_as_quickly_as_a_capture_is_read(kind: str) -> None:
    """In at most 3 times the time of a healthy file of that size."""
    rubbish, whole = RUBBISH[kind](16 * MIB), healthy(16 * MIB)
    began = time.process_time()
    read(whole)
    middle = time.process_time()
    records, damage = read(DATA[pcapng.LITTLE] + rubbish + DATA[pcapng.BIG], strict=False)
    took = time.process_time() - middle
    assert [each.message for each in records] == 2 * MESSAGES
    assert [(each.offset, each.length) for each in damage] == [(len(DATA[pcapng.LITTLE]), len(rubbish))]
    assert took <= 3 * (middle - began)


@pytest.mark.parametrize("left", range(4, 16))
def test_what_begins_a_section_is_the_last_that_was_read(left: int) -> None:
    """Of the file, or of the piece that is looked at."""
    rubbish = bytes(MIB - len(DATA[pcapng.LITTLE]) - left) + struct.pack("<I", pcapng.SECTION_HEADER)
    torn = DATA[pcapng.LITTLE] + rubbish + bytes(left - 4)
    records, damage = read(torn, strict=False)
    assert [each.message for each in records] == MESSAGES
    assert sum(each.length for each in damage) == len(torn) - len(DATA[pcapng.LITTLE])
    records, _ = read(torn + DATA[pcapng.BIG], strict=False)
    assert [each.message for each in records] == 2 * MESSAGES


@pytest.mark.parametrize("left", [4, 8, 12, 16])
def test_a_packet_begins_where_a_piece_ends(left: int) -> None:
    data = DATA[pcapng.LITTLE]
    rubbish = bytes(MIB - BEGINS[10] - left)
    records, damage = read(data[: BEGINS[10]] + rubbish + data[BEGINS[10] :], strict=False)
    assert [each.message for each in records] == MESSAGES
    assert sum(each.length for each in damage) == len(rubbish)


@pytest.mark.long("measures time")
def test_a_little_gzip_that_claims_a_long_block_takes_as_long_as_it_is() -> None:
    seconds = []
    for length in pcapng.MAX_LENGTH // 16, pcapng.MAX_LENGTH // 2:
        begin = DATA[pcapng.LITTLE] + struct.pack("<2I", pcapng.ENHANCED_PACKET, length)
        zipped = gzip.compress(begin + bytes(length))
        assert len(zipped) < 100_000
        began = time.process_time()
        records, damage = read(zipped, strict=False)
        seconds.append(time.process_time() - began)
        assert [each.message for each in records] == MESSAGES
        assert [each.offset for each in damage] == [len(DATA[pcapng.LITTLE])]
    assert seconds[1] < 4 * 8 * seconds[0]


def test_an_empty_file_is_no_capture() -> None:
    assert read(b"", strict=False) == ([], [Damage(0, 0, "it is empty")])
    with pytest.raises(CaptureError, match="it is empty"):
        read(b"")


def test_bytes_between_blocks_are_counted_and_the_rest_is_used() -> None:
    data = DATA[pcapng.BIG]
    at = WHOLE[pcapng.BIG][20].facts.offset
    records, damage = read(data[:at] + b"\xff" * 1000 + data[at:], strict=False)
    assert [each.message for each in records] == MESSAGES
    assert damage == [(at, 1000, f"a block of {0xFFFFFFFF} bytes")]


def test_a_wrong_checksum_is_one_message_lost() -> None:
    damaged = bytearray(DATA[pcapng.LITTLE])
    damaged[BEGINS[8] + 70] ^= 1
    records, damage = read(bytes(damaged), strict=False)
    assert [each.facts.sequence for each in records] == [n for n in range(1, 61) if n != 9]
    length = _block(8).stop - _block(8).start
    assert damage == [(BEGINS[8], length, "a packet whose checksum is wrong")]


def test_a_file_that_was_appended_to_after_it_was_torn() -> None:
    data = DATA[pcapng.LITTLE]
    torn = data[: BEGINS[30] + 50]
    records, damage = read(torn + bytes(-len(torn) % 4) + data, strict=False)
    assert [each.message for each in records] == MESSAGES[:30] + MESSAGES
    assert [each.offset for each in damage] == [BEGINS[30]]


def test_a_torn_message_that_carries_a_capture_is_no_capture() -> None:
    """What looks like blocks in the last, torn block is somebody's data."""
    outer = capture([*MESSAGES[:3], Message("$.Upload", DATA[pcapng.LITTLE]), *MESSAGES[3:]])
    cut = outer.index(DATA[pcapng.LITTLE]) + len(DATA[pcapng.LITTLE]) - 4
    records, damage = read(outer[:cut], strict=False)
    assert [each.message for each in records] == MESSAGES[:3]
    assert [each.reason for each in damage] == ["the file ends inside a block"]


@pytest.mark.parametrize("cut", [1, 5, 11, 200, 1500])
def test_torn_gzip_gives_what_was_compressed_before(cut: int) -> None:
    zipped = gzip.compress(DATA[pcapng.LITTLE])
    records, damage = read(zipped[:-cut], strict=False)
    assert [each.message for each in records] == MESSAGES[: len(records)]
    assert [each.reason for each in damage] == ["the file ends inside its gzip data"]
    assert (len(records) == 60) == (cut < 12)


def test_damaged_gzip_gives_what_was_compressed_before() -> None:
    messages = numbered(20_000)
    zipped = bytearray(gzip.compress(capture(messages), compresslevel=1))
    middle = len(zipped) // 2
    zipped[middle : middle + 50] = b"\xff" * 50
    records, damage = read(bytes(zipped), strict=False)
    assert all(each.message == messages[each.facts.sequence - 1] for each in records)
    assert 5000 < len(records) < 20_000
    assert damage


def test_packets_of_an_interface_that_is_not_of_kbus() -> None:
    """What tells that a packet is a message is its frame."""
    data = capture(MESSAGES[:2]).replace(b"kbus0", b"ether")
    data = data.replace(struct.pack("=HHI", 147, 0, 0), struct.pack("=HHI", 1, 0, 0))
    records, damage = read(data, strict=False)
    assert [each.message for each in records] == MESSAGES[:2]
    assert [each.reason for each in damage] == ["an interface ether, which is not kbus0 with times in ns"]


def test_a_packet_whose_kind_is_wrong_is_damage() -> None:
    data = capture(MESSAGES)
    for bit in range(32):
        damaged = bytearray(data)
        at = read(data)[0][1].facts.offset
        damaged[at + bit // 8] ^= 1 << bit % 8
        records, damage = read(bytes(damaged), strict=False)
        assert [each.message for each in records] == [MESSAGES[0], *MESSAGES[2:]]
        assert len(damage) == 1 and damage[0].offset == at


def test_a_packet_that_another_tool_has_shortened() -> None:
    data = bytearray(capture(MESSAGES[:2]))
    at = read(bytes(data))[0][0].facts.offset + 24
    struct.pack_into("=I", data, at, 1000)
    _, damage = read(bytes(data), strict=False)
    assert [each.reason for each in damage] == ["a packet of which 96 bytes are left of 1000"]


def test_a_large_message_is_read_in_one_piece() -> None:
    message = Message("$.Large", bytes(range(256)) * (16 << 12))
    with Reader(io.BytesIO(capture([message, *MESSAGES]))) as reader:
        assert next(reader).message == message
        assert [each.message for each in reader] == MESSAGES


LONG = [
    Announcement("$.Long", bytes([number]) * length)
    for number, length in enumerate((8, pcapng.MAX_PACKET, 8, pcapng.MAX_REST + pcapng.MAX_PACKET, 8))
]


@pytest.mark.parametrize("order", [pcapng.LITTLE, pcapng.BIG])
def test_long_messages_are_read_whole(order: str, tmp_path: Path) -> None:
    data = capture(LONG, order)
    path = tmp_path / "long.pcapng"
    path.write_bytes(data)
    records, damage = read(data)
    assert ([each.message for each in records], damage) == ([each.from_message(each) for each in LONG], [])
    messages, done = recover(path, tmp_path / "again.pcapng")
    assert (messages, done.damage) == (len(LONG), [])
    assert (tmp_path / "again.pcapng").read_bytes() == data


def test_a_long_message_is_cut_anywhere() -> None:
    """Then it is what is left of the file that is damaged."""
    data = capture(LONG[:2])
    begin = read(data)[0][1].facts.offset
    whole = pcapng.MAX_PACKET + frame.LENGTH
    end = len(capture(LONG[:2])) - len(pcapng.interface_statistics(pcapng.NATIVE, 0, 0, 0, 0))
    for cut in (*range(begin + 1, begin + 80), *range(begin + whole - 8, end)):
        records, damage = read(data[:cut], strict=False)
        assert (len(records), [(each.offset, each.length) for each in damage]) == (1, [(begin, cut - begin)])


@pytest.mark.parametrize("at", [0, 4, 8, 40, -4])
def test_a_wrong_byte_in_the_rest_costs_one_message(at: int) -> None:
    data = bytearray(capture(LONG))
    rest = data.index(struct.pack("=I", pcapng.REST_OF_PACKET))
    length = struct.unpack_from("=I", data, rest + 4)[0]
    data[rest + (at if at >= 0 else length + at)] ^= 0x10
    records, damage = read(bytes(data), strict=False)
    assert [each.message.data for each in records] == [each.data for each in (LONG[0], *LONG[2:])]
    assert damage


def test_the_rest_of_a_packet_is_no_message_of_its_own() -> None:
    """Whatever is sent is what is read: a long message may have a capture inside it."""
    inner = Announcement("$.File", bytes(pcapng.MAX_PACKET - 1000) + capture(MESSAGES))
    assert [each.message.name for each in read(capture([inner, *LONG[:1]]))[0]] == ["$.File", "$.Long"]


BUSES = [0, 2]
FIRST, SECOND = (
    capture(numbered(4), order, buses=BUSES, first=first, info={**INFO, "device": device, "bus": BUSES})
    for order, device, first in ((pcapng.LITTLE, "lathe", 1), (pcapng.BIG, "press", 11))
)


def bits_before_packets(data: bytes) -> list[tuple[int, int]]:
    """All bits of a section's header and of its descriptions."""
    return [(at, 1 << bit) for at in range(read(data)[0][0].facts.offset) for bit in range(8)]


def found_in(data: bytes, at: int, wrong: int) -> list[Record]:
    """What is found if one bit is wrong."""
    damaged = bytearray(data)
    damaged[at] ^= wrong
    return read(bytes(damaged), strict=False)[0]


@pytest.mark.parametrize("data", [FIRST, SECOND], ids=["little", "big"])
def test_a_wrong_bit_before_the_messages_costs_none_of_them(data: bytes) -> None:
    """Nor does it give one to another device."""
    expected = [(each.facts.sequence, each.message) for each in read(data)[0]]
    for at, wrong in bits_before_packets(data):
        found = found_in(data, at, wrong)
        assert [(each.facts.sequence, each.message) for each in found] == expected, (at, wrong)
        assert [each.facts.bus for each in found] == BUSES * 2, (at, wrong)


def test_a_wrong_bit_between_two_captures_costs_no_message() -> None:
    """And what is of the second one is not taken for the first one's."""
    begin = read(FIRST)[0][-1].facts.offset
    begin += struct.unpack_from("<I", FIRST, begin + 4)[0]
    statistics = [(at, 1 << bit) for at in range(begin, len(FIRST)) for bit in range(8)]
    header = [(len(FIRST) + at, wrong) for at, wrong in bits_before_packets(SECOND)]
    for at, wrong in statistics + header:
        found = found_in(FIRST + SECOND, at, wrong)
        assert [each.facts.sequence for each in found] == [1, 2, 3, 4, 11, 12, 13, 14], (at, wrong)
        devices = [each.facts.section.info.get("device") for each in found]
        assert devices[:4] == ["lathe"] * 4 and "lathe" not in devices[4:], (at, wrong)


def test_messages_without_what_should_be_before_them() -> None:
    """They are found, and it is told what is assumed. Packets tell their devices."""
    begins = [each.facts.offset for each in read(FIRST)[0]]
    records, damage = read(FIRST[begins[1] :], strict=False)
    assert [each.facts.sequence for each in records] == [2, 3, 4]
    assert [each.facts.bus for each in records] == [2, 0, 2]
    assert [each.facts.section.info for each in records] == [{}] * 3
    assert [each.reason for each in damage] == [
        "not a pcapng file",
        NOT_DESCRIBED,
    ]


def test_interfaces_that_nothing_describes_are_those_of_the_header(tmp_path: Path) -> None:
    """Also if packets do not tell their devices. Who recovers it has the descriptions again."""
    info = {**INFO, "device": "lathe", "bus": BUSES}
    start, described = (section_start(pcapng.LITTLE, info, buses) for buses in ([], BUSES))
    path = tmp_path / "a.pcapng"
    for whole in (FIRST, without_origins(FIRST)):
        assert whole.startswith(described)
        data = start + whole[len(described) :]
        records, damage = read(data, strict=False)
        assert [record.facts.bus for record in records] == [0, 2, 0, 2]
        # One is missing before the first packet, and another one before that of the other device.
        assert [each.reason for each in damage] == [NOT_DESCRIBED] * 2
        path.write_bytes(data)
        target = tmp_path / "whole.pcapng"
        recover(path, target)
        blocks = list(Blocks(Window(io.BytesIO(target.read_bytes()))))
        kinds = [each.kind for each in blocks if isinstance(each, pcapng.Block)]
        made = [pcapng.INTERFACE_DESCRIPTION, pcapng.ENHANCED_PACKET]
        assert kinds[:5] == [pcapng.SECTION_HEADER, *made, *made]
        assert [each[:2] for each in read(target)[0]] == [each[:2] for each in records]
        target.unlink()


def test_statistics_of_an_interface_that_nothing_describes() -> None:
    """They count if the header tells the device, and are damage if it does not."""
    statistics = pcapng.interface_statistics(pcapng.NATIVE, 1, 7, 0, 3)
    told = section_start(pcapng.NATIVE, {**INFO, "bus": BUSES}, []) + statistics
    with Reader(io.BytesIO(told), strict=False) as reader:
        assert not list(reader)
    assert reader.latest and reader.latest[1:] == (1, 2, 7, 0, 3)
    assert [each.reason for each in reader.damage] == [NOT_DESCRIBED]
    with Reader(io.BytesIO(pcapng.section_header(pcapng.NATIVE, "") + statistics), strict=False) as reader:
        assert not list(reader)
    assert reader.latest is None
    assert [each.reason for each in reader.damage] == ["interface 1, which nothing describes"]


@pytest.mark.parametrize("order", DATA)
def test_what_describes_another_device_is_not_trusted(order: str) -> None:
    """Where the header is lost, it would be the interface that the messages are of."""
    other = pcapng.block(order, pcapng.INTERFACE_DESCRIPTION, pcapng.INTERFACE[order].pack(1, 0, 0))
    records, _ = read(bytes(28) + other + DATA[order][BEGINS[0] :], strict=False)
    assert [each.message for each in records] == MESSAGES


LATHE = capture(MESSAGES[:20], buses=[0, 3], info={**INFO, "bus": [0, 3]})
PRESS = {
    order: capture(MESSAGES[20:40], order, buses=[0, 3], info={**INFO, "device": "press", "bus": [0, 3]})
    for order in DATA
}
SEAM = len(LATHE)


def zeros(begin: int, end: int) -> list[tuple[int, bytes]]:
    return [(SEAM + begin, bytes(end - begin))]


@pytest.mark.parametrize("order", DATA)
@pytest.mark.parametrize(
    "wrong",
    [
        # kind and magic number, so that it is a block like others that nobody knows
        [(SEAM, b"\x0b"), (SEAM + 8, b"\x00")],
        zeros(-24, 24),
        zeros(0, 16),
        zeros(-24, 8),
        [(SEAM - 4, b"\xff"), (SEAM + 4, b"\xff\xff")],
        zeros(-100, 40),
    ],
    ids=["kind and magic", "seam", "begin", "up to magic", "both lengths", "statistics and more"],
)
def test_what_hides_a_header_gives_no_message_to_another_machine(
    wrong: list[tuple[int, bytes]], order: str
) -> None:
    """Messages behind it are of a machine that is not known, and that is told."""
    data = bytearray(LATHE + PRESS[order])
    for at, what in wrong:
        data[at : at + len(what)] = what
    records, damage = read(bytes(data), strict=False)
    assert [each.message for each in records] == MESSAGES[:40]
    devices = [each.facts.section.info.get("device") for each in records]
    assert devices == ["lathe"] * 20 + [None] * 20
    assert damage


def hidden(data: bytes, kinds: dict[int, int]) -> bytes:
    """The capture; of each of these kinds, the first so many blocks are of one that nobody knows."""
    left = dict(kinds)
    changed = bytearray(data)
    for each in Blocks(Window(MaybeGzip(io.BytesIO(data)))):
        assert not isinstance(each, Damage)
        if left.get(each.kind):
            left[each.kind] -= 1
            changed[each.offset : each.offset + 4] = b"\x44" * 4
            changed[each.offset + 8] ^= 0xFF
    return bytes(changed)


PLACES = {"lathe": [0, 3], "press": [0, 2, 3]}


@pytest.mark.parametrize("order", DATA)
@pytest.mark.parametrize("descriptions", range(4))
def test_a_beginning_that_is_hidden_gives_no_message_to_another_place(descriptions: int, order: str) -> None:
    """Header and some descriptions: packets tell their devices, and that they are not the lathe's."""
    lathe, press = (
        capture(numbered(12), order, buses=buses, info={**INFO, "device": device})
        for device, buses in PLACES.items()
    )
    kinds = {pcapng.SECTION_HEADER: 1, pcapng.INTERFACE_DESCRIPTION: descriptions}
    records, damage = read(lathe + hidden(press, kinds), strict=False)
    assert [each.message for each in records] == 2 * numbered(12)
    assert [each.facts.bus for each in records] == [0, 3] * 6 + [0, 2, 3] * 4
    assert [each.facts.section.info.get("device") for each in records] == ["lathe"] * 12 + [None] * 12
    assert HEADER_IS_LOST in [each.reason for each in damage]


def test_a_header_that_packets_contradict_is_not_believed() -> None:
    data = capture(numbered(3))
    for told, damaged in ((b"lathe", b"latha"), (b'load_id":7', b'load_id":5'), (b"9d7c", b"8d7c")):
        records, damage = read(data.replace(told, damaged), strict=False)
        assert [each.facts.section.info for each in records] == [{}] * 3
        assert [each.facts.bus for each in records] == [0] * 3
        assert HEADER_IS_LOST in [each.reason for each in damage]


# Packets that do not tell where they are from


@pytest.mark.parametrize("order", DATA)
def test_packets_without_origins_are_of_the_device_that_is_described(order: str) -> None:
    data = without_origins(capture(numbered(12), order, buses=[0, 2, 3]))
    records, damage = read(data)
    assert [each.message for each in records] == numbered(12)
    assert ([each.facts.bus for each in records], damage) == ([0, 2, 3] * 4, [])


def test_a_description_that_contradicts_the_header_is_not_believed(tmp_path: Path) -> None:
    """What is recovered has what the header tells, so that other tools say the same."""
    data = without_origins(capture(numbered(6), buses=[0, 2, 3]))
    described = pcapng.interface_description(pcapng.NATIVE, "kbus2")
    for told, tsresol in (("kbus7", b"\x09"), ("kbus3", b"\x09"), ("kbus0", b"\x09"), ("kbus2", b"\x06")):
        other = pcapng.interface_description(pcapng.NATIVE, told).replace(b"\x09\0\0\0", tsresol + bytes(3))
        path, target = tmp_path / "a.pcapng", tmp_path / "b.pcapng"
        path.write_bytes(data.replace(described, other))
        records, damage = read(path, strict=False)
        assert [each[:2] for each in records] == [each[:2] for each in read(data)[0]]
        assert [each.facts.bus for each in records] == [0, 2, 3] * 2
        interfaces = records[0].facts.section.interfaces
        assert interfaces[1] == ("kbus2", 2, 1_000_000_000)
        assert [each.reason for each in damage] == [
            f"an interface {told}, which is not kbus2 with times in ns"
        ]
        recover(path, target)
        assert target.read_bytes() == data
        target.unlink()


def test_a_description_that_is_not_whole_is_damage_though_the_header_tells_all(tmp_path: Path) -> None:
    """Other tools read nothing behind it."""
    described = pcapng.interface_description(pcapng.NATIVE, "kbus0")
    wrong = described.replace(struct.pack("=2H", pcapng.IF_NAME, 5), struct.pack("=2H", pcapng.IF_NAME, 500))
    path = tmp_path / "a.pcapng"
    path.write_bytes(capture(MESSAGES).replace(described, wrong))
    records, damage = read(path, strict=False)
    assert [each.message for each in records] == MESSAGES
    assert [each.reason for each in damage] == ["its option 2 is longer than the block"]
    recover(path, tmp_path / "b.pcapng")
    assert (tmp_path / "b.pcapng").read_bytes() == capture(MESSAGES)


def test_a_description_that_is_hidden_costs_no_other_one() -> None:
    data = without_origins(capture(numbered(6), buses=[0, 2, 3]))
    records, _ = read(hidden(data, {pcapng.INTERFACE_DESCRIPTION: 1}), strict=False)
    assert [each.facts.bus for each in records] == [0, 2, 3] * 2


@pytest.mark.parametrize("kind", descriptions.WHOLE)
def test_zeros_in_a_description_cost_no_message(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a time or a device: the header tells them."""
    monkeypatch.setattr("os.fsync", lambda fd: None)
    path, target = tmp_path / "a.pcapng", tmp_path / "b.pcapng"
    data = descriptions.WHOLE[kind]
    expected = [(*each[:2], each.facts.bus) for each in read(data)[0]]
    for at, damaged in descriptions.with_zeros(data):
        records, damage = read(damaged, strict=False)
        found = [(*each[:2], each.facts.bus) for each in records]
        if at == -1 and kind.startswith("old"):
            # With the header all is lost that tells their devices.
            assert found == [(*each[:2], None) for each in expected]
        else:
            assert found == expected, at
        assert damage or at != -1
        path.write_bytes(damaged)
        messages, done = recover(path, target)
        assert (messages, done.damage) == (len(expected), damage), at
        assert [each[:2] for each in read(target)[0]] == [each[:2] for each in expected], at
        target.unlink()
