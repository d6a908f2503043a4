# SPDX-License-Identifier: MIT
"""The vectorised parser finds exactly what kbus.capture.Reader finds, whatever the file is."""

from __future__ import annotations

import gzip
import io
from itertools import groupby

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbus import Announcement, Message, MessageId, OrigFrom, Request, abi
from kbus.capture import Frame, Reader, Writer, pcapng
from kbus.capture.blocks import Damage, read_blocks
from kbus.capture.gunzip import MaybeGzip
from kbus.capture.pcapng import Block
from kbus.pipeline import batches, scan
from kbus.pipeline.sections import Section
from tests.pipeline.captures import NOON, capture, info, swapped

LATEST = 2**63 - 1
SAMPLES: list[Message] = [
    Announcement("$.A", "one"),
    Announcement("$.Sensors.Kitchen", None, flags=Message.URGENT | 0x00050000),
    Request("$.Ask.Me", b"\0" * 17, id=MessageId(0, 7), to=3, from_=9),
    Message("$.Ask.Me", "42", in_reply_to=MessageId(0, 7), to=9, from_=3, id=MessageId(0, 8)),
    Announcement("$.Far", "x" * 70, orig_from=OrigFrom(5, 6), final_to=OrigFrom(7, 8)),
    Announcement("$.Abcd", b"\xff" * 4, flags=Message.ALL_OR_WAIT),
]


def by_reader(raw: bytes) -> tuple[list[tuple[object, ...]], list[Damage]]:
    reader = Reader(io.BytesIO(raw), strict=False)
    rows = [
        (min(time, LATEST), facts.sequence, facts.mono_ns, facts.lost, facts.bus,
         facts.offset - facts.section.offset,
         facts.section.info.get("device", ""), *message.extract())
        for time, message, facts in reader
    ]  # fmt: skip
    return rows, _joined(reader.damage)


def by_scan(raw: bytes) -> tuple[list[tuple[object, ...]], list[Damage]]:
    rows: list[tuple[object, ...]] = []
    damage = []
    for found in batches.messages(scan.scan(io.BytesIO(raw))):
        if isinstance(found, Damage):
            damage.append(found)
        elif isinstance(found, batches.Messages):
            columns = {name: column.to_pylist() for name, column in found.columns.items()}
            rows += [_row({name: values[k] for name, values in columns.items()}) for k in range(len(found))]
    return rows, _joined(damage)


def _joined(damage: list[Damage]) -> list[Damage]:
    """Damage in order; the parser may say it piece by piece where a reader says it once."""
    joined: list[Damage] = []
    for each in sorted(damage):
        if joined and joined[-1].offset + joined[-1].length == each.offset:
            joined[-1] = Damage(joined[-1].offset, joined[-1].length + each.length, "")
        else:
            joined.append(Damage(each.offset, each.length, ""))
    return joined


def _row(row: dict[str, object]) -> tuple[object, ...]:
    def pair(kind: type, network: str, number: str) -> object:
        values = row[network], row[number]
        return kind(*values) if values[0] or values[1] else None

    flags = sum(
        bit
        for name, bit in (
            ("want_a_reply", 1), ("want_you_to_reply", 2), ("synthetic", 4), ("urgent", 8),
            ("all_or_wait", 0x100), ("all_or_fail", 0x200),
        )
        if row[name]
    )  # fmt: skip
    assert isinstance(row["user_flags"], int)
    flags |= row["user_flags"] << 16 | (Message.EXTENDED if row["orig_network"] is not None else 0)
    bus = None if row["bus"] == -1 else row["bus"]
    return (
        row["ts_ns"], row["rec_seq"], row["mono_ns"], row["lost"], bus, row["offset"], row["device"],
        pair(MessageId, "network", "serial"), pair(MessageId, "reply_network", "reply_serial"),
        row["to"], row["from"], pair(OrigFrom, "orig_network", "orig_local"),
        pair(OrigFrom, "final_network", "final_local"), flags, row["name"], row["data"],
    )  # fmt: skip


@pytest.mark.parametrize("order", [pcapng.LITTLE, pcapng.BIG])
def test_all_fields_in_both_byte_orders(order: str) -> None:
    raw = capture(SAMPLES, order=order, buses=(0, 3))
    rows, damage = by_scan(raw)
    assert (rows, damage) == by_reader(raw)
    assert len(rows) == len(SAMPLES) and not damage


def test_pieces_smaller_than_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = capture([*SAMPLES, Announcement("$.Big", b"z" * 5000), *SAMPLES])
    whole = by_scan(raw)
    for size in (4, 64, 1000, 4096):
        monkeypatch.setattr(scan, "PIECE", size)
        assert by_scan(raw) == whole


def test_a_wrong_bit_before_messages() -> None:
    """Whatever is assumed in place of what is damaged, both do."""
    first = capture(SAMPLES[:2], {**info("pump"), "bus": [0, 3]}, buses=(0, 3))
    second = capture(SAMPLES[2:5], {**info("valve"), "bus": [0, 3]}, buses=(0, 3), order=pcapng.BIG)
    begin = Reader(io.BytesIO(first))
    (*_, last) = begin
    end = next(Reader(io.BytesIO(second))).facts.offset
    for at in [*range(64), *range(last.facts.offset, len(first) + end)]:
        for bit in range(8):
            raw = bytearray(first + second)
            raw[at] ^= 1 << bit
            assert by_scan(bytes(raw)) == by_reader(bytes(raw)), (at, bit)


@pytest.mark.parametrize("order", [pcapng.LITTLE, pcapng.BIG])
def test_messages_longer_than_a_packet(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rest is joined to them, whatever the pieces are, and they may be where reading begins."""
    long = [Announcement("$.Big", bytes([k]) * (pcapng.MAX_PACKET + 1000 * k)) for k in range(3)]
    raw = capture([long[2], *SAMPLES, *long, *SAMPLES], order=order)
    rows, damage = by_scan(raw)
    assert (rows, damage) == by_reader(raw)
    assert len(rows) == 2 * len(SAMPLES) + 4 and not damage
    monkeypatch.setattr(scan, "PIECE", 1000)
    assert by_scan(raw) == (rows, [])
    ranges = scan.outline(io.BytesIO(raw), 300_000).ranges
    assert len(ranges) > 2
    found = 0
    for begin, end, known in ranges:
        file = io.BytesIO(raw)
        file.seek(begin)
        pieces = scan.scan(file, begin, end, known)
        found += sum(len(each.run.begins) for each in pieces if isinstance(each, scan.Piece))
    assert found == len(rows)


def test_sections_one_after_the_other_and_gzip() -> None:
    raw = capture(SAMPLES, order=pcapng.BIG) + capture(SAMPLES, info("valve")) + capture([])
    rows, damage = by_scan(gzip.compress(raw))
    assert (rows, damage) == by_reader(raw)
    assert {row[6] for row in rows} == {"pump", "valve"} and not damage


def test_a_capture_inside_a_message() -> None:
    inner = capture(SAMPLES, info("inner"))
    raw = capture([Announcement("$.File", inner), *SAMPLES, Announcement("$.File", inner)])
    rows, damage = by_scan(raw)
    assert (rows, damage) == by_reader(raw)
    assert len(rows) == len(SAMPLES) + 2


@pytest.mark.parametrize("name", ["Lamp", "", "$.", "$.A\x1b[2J", "$.A.*", "$.A..B", "$." + "a" * 999])
def test_a_message_of_a_name_that_is_none(name: str) -> None:
    wrong = Message("$.A")
    wrong.name = name
    rows, damage = by_scan(capture([*SAMPLES, wrong, *SAMPLES]))
    assert (rows, damage) == by_reader(capture([*SAMPLES, wrong, *SAMPLES]))
    assert (len(rows), len(damage)) == (2 * len(SAMPLES), 1)


@pytest.mark.parametrize("order", [pcapng.LITTLE, pcapng.BIG])
@pytest.mark.parametrize("name", ["$.A", "$.Ab", "$.Abc", "$.Abcd"])
def test_what_follows_a_name_must_be_zero(name: str, order: str) -> None:
    good = Announcement(name).to_bytes()
    good = good if order == pcapng.NATIVE else swapped(good)
    name_at, padding = abi.MESSAGE_HEADER.size, -len(name) % 4
    for at in range(name_at + len(name), name_at + len(name) + padding):
        bad = good[:at] + b"\1" + good[at + 1 :]
        file = io.BytesIO()
        writer = Writer(file, info(), [0], order)
        for number, raw in enumerate((good, bad, good)):
            writer.write(0, NOON, Frame(number + 1, 0, 0), [raw])
        rows, damage = by_scan(file.getvalue())
        assert (rows, damage) == by_reader(file.getvalue())
        assert [row[1] for row in rows] == [1, 3] and len(damage) == 1


def test_a_section_that_another_machine_has_written_anew() -> None:
    """editcap and mergecap leave packets as they are, in a section of their own byte order."""
    raw = capture(SAMPLES, order=pcapng.BIG)
    blocks = [found for found in read_blocks(MaybeGzip(io.BytesIO(raw))) if isinstance(found, Block)]
    anew = pcapng.section_header(pcapng.LITTLE, "{}") + pcapng.interface_description(pcapng.LITTLE, "kbus7")
    for each in blocks:
        if each.kind == pcapng.ENHANCED_PACKET:
            _, time, packet = pcapng.packet_of(each)
            head = pcapng.PACKET[pcapng.LITTLE].pack(
                0, time >> 32, time & 0xFFFFFFFF, len(packet), len(packet)
            )
            anew += pcapng.block(pcapng.LITTLE, pcapng.ENHANCED_PACKET, head + packet)
    own = capture([Announcement("$.Own")])
    anew += own[own.index(b"\6\0\0\0") :]
    rows, damage = by_scan(anew)
    found, missing = by_reader(anew)
    assert (sorted(rows, key=str), damage) == (sorted(found, key=str), missing)
    assert len(rows) == len(SAMPLES) + 1 and not damage


WHOLE = capture(SAMPLES * 3) + capture(SAMPLES, info("valve"), pcapng.BIG)


def test_cut_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "PIECE", 512)
    for length in range(len(WHOLE)):
        assert by_scan(WHOLE[:length]) == by_reader(WHOLE[:length]), f"cut at {length}"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=9)), max_size=4))
@example([(0, b"\0")])
@example([(8, b"\x1a\x2b\x3c\x4d")])
def test_bytes_overwritten_anywhere(spots: list[tuple[int, bytes]]) -> None:
    raw = bytearray(WHOLE)
    for at, what in spots:
        raw[at : at + len(what)] = what
    assert by_scan(bytes(raw)) == by_reader(bytes(raw))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(WHOLE)), st.integers(0, 300), st.binary(max_size=40))
def test_bytes_taken_out_and_put_in(at: int, length: int, what: bytes) -> None:
    raw = WHOLE[:at] + what + WHOLE[at + length :]
    assert by_scan(raw) == by_reader(raw)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_no_capture_at_all(raw: bytes) -> None:
    assert by_scan(raw) == by_reader(raw)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=9)), max_size=3))
def test_ranges_give_what_the_whole_gives(spots: list[tuple[int, bytes]]) -> None:
    raw = bytearray(WHOLE)
    for at, what in spots:
        raw[at : at + len(what)] = what
    whole: list[object] = []
    parts: list[object] = []
    _gather(bytes(raw), 0, None, None, whole)
    ranges = scan.outline(io.BytesIO(raw), 256).ranges
    assert [each.begin for each in ranges[1:]] == [each.end for each in ranges[:-1]]
    assert ranges[-1].end is None
    for each in ranges:
        _gather(bytes(raw), each.begin, each.end, each.section, parts)
    assert sorted(parts, key=repr) == sorted(whole, key=repr)


def _gather(raw: bytes, begin: int, end: int | None, section: Section | None, into: list[object]) -> None:
    file = io.BytesIO(raw)
    file.seek(begin)
    for found in batches.messages(scan.scan(file, begin, end, section)):
        if isinstance(found, batches.Messages):
            offsets = (found.parsed.begins * 4 + found.offset).tolist()
            into += zip(offsets, found.columns["rec_seq"].to_pylist(), found.columns["device"].to_pylist())
        elif not isinstance(found, scan.End):
            into.append(found)


def test_what_may_grow_is_left_for_later() -> None:
    raw = capture(SAMPLES, is_sealed=False)
    seen = []
    begin, section = 0, None
    for length in (*range(0, len(raw), 7), len(raw)):
        file = io.BytesIO(raw[:length])
        file.seek(begin)
        for found in batches.messages(scan.scan(file, begin, length, section, may_grow=True)):
            assert not isinstance(found, Damage)
            if isinstance(found, batches.Messages):
                seen += found.columns["rec_seq"].to_pylist()
            elif isinstance(found, scan.End):
                begin, section = found
    assert seen == list(range(1, len(SAMPLES) + 1))
    assert [number for number, _ in groupby(seen)] == seen


@pytest.mark.parametrize("order", [pcapng.LITTLE, pcapng.BIG])
def test_what_hides_a_header(order: str) -> None:
    """Each word around a header that is zero, and those that follow it."""
    before, behind = capture(SAMPLES), capture(SAMPLES, info("valve"), order)
    for at in range(-28, 60, 4):
        for length in (4, 12, 24, 60):
            raw = bytearray(before + behind)
            raw[len(before) + at : len(before) + at + length] = bytes(length)
            assert by_scan(bytes(raw)) == by_reader(bytes(raw)), (at, length)
