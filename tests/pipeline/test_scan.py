# SPDX-License-Identifier: MIT
"""The vectorised parser finds exactly what kbus.capture.Reader finds, whatever the file is."""

from __future__ import annotations

import gzip
import io
from itertools import groupby

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbus import Announcement, Message, MessageId, OrigFrom, Request
from kbus import _abi as abi
from kbus.capture import Frame, Reader, Writer, pcapng
from kbus.capture.blocks import Damage
from kbus.capture.input import MaybeGzip, Window
from kbus.capture.pcapng import Block
from kbus.capture.sections import Blocks
from kbus.pipeline.decode import batches, scan
from kbus.pipeline.decode.sections import SectionHead
from tests.capture import descriptions, joined
from tests.capture.captures import without_origins
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


#: Which bits of a byte are wrong in turn, beginning with which one of the first byte
BITS = pytest.mark.parametrize("first", [0, pytest.param(5, marks=pytest.mark.long("more of the same"))])


@BITS
def test_a_wrong_bit_before_messages(first: int) -> None:
    """Whatever is assumed in place of what is damaged, both do."""
    one = capture(SAMPLES[:2], {**info("pump"), "bus": [0, 3]}, buses=(0, 3))
    other = capture(SAMPLES[2:5], {**info("valve"), "bus": [0, 3]}, buses=(0, 3), order=pcapng.BIG)
    (*_, last) = Reader(io.BytesIO(one))
    end = next(Reader(io.BytesIO(other))).facts.offset
    for at in [*range(64), *range(last.facts.offset, len(one) + end)]:
        raw = bytearray(one + other)
        raw[at] ^= 1 << (at + first) % 8
        assert by_scan(bytes(raw)) == by_reader(bytes(raw)), at


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
    for begin, end, known, _ in ranges:
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
    blocks = [found for found in Blocks(Window(MaybeGzip(io.BytesIO(raw)))) if isinstance(found, Block)]
    anew = pcapng.section_header(pcapng.LITTLE, "none") + pcapng.interface_description(pcapng.LITTLE, "kbus7")
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


def sessions(raw: bytes) -> set[int]:
    found = batches.messages(scan.scan(io.BytesIO(raw)))
    columns = [each.columns["session"] for each in found if isinstance(each, batches.Messages)]
    return {session for column in columns for session in column.to_pylist()}


def of_unknown(device: str) -> bytes:
    """A capture whose header does not tell what it is of, as the packets do."""
    return capture(SAMPLES, info(device)).replace(b'{"device"', b'!"device"')


def test_recordings_that_are_unknown_have_sessions_apart() -> None:
    """Also if a tool has put them into one section, or if packets do not tell their recording."""
    pump, valve = of_unknown("pump"), of_unknown("valve")
    assert len(sessions(pump)) == len(sessions(valve)) == len(sessions(pump + pump)) == 1
    assert len(sessions(pump + valve)) == 2
    packets = valve[next(Reader(io.BytesIO(valve))).facts.offset :]
    assert sessions(pump + packets) == sessions(pump + valve)
    pump, valve = without_origins(pump), without_origins(valve.replace(b"one", b"two"))
    assert sessions(pump).isdisjoint(sessions(valve))


WHOLE = capture(SAMPLES * 3) + capture(SAMPLES, info("valve"), pcapng.BIG)


def test_cut_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = capture(SAMPLES[::2]) + capture(SAMPLES[3:5], info("valve"), pcapng.BIG)
    monkeypatch.setattr(scan, "PIECE", 512)
    # All that is in a capture is of whole words.
    for length in (each for each in range(len(raw)) if each % 4 in (0, 3)):
        assert by_scan(raw[:length]) == by_reader(raw[:length]), f"cut at {length}"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=9)), max_size=4))
@example([(0, b"\0")])
@example([(8, b"\x1a\x2b\x3c\x4d")])
def test_bytes_overwritten_anywhere(spots: list[tuple[int, bytes]]) -> None:
    raw = bytearray(WHOLE)
    for at, what in spots:
        raw[at : at + len(what)] = what
    assert by_scan(bytes(raw)) == by_reader(bytes(raw))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(WHOLE)), st.integers(0, 300), st.binary(max_size=40))
def test_bytes_taken_out_and_put_in(at: int, length: int, what: bytes) -> None:
    raw = WHOLE[:at] + what + WHOLE[at + length :]
    assert by_scan(raw) == by_reader(raw)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_no_capture_at_all(raw: bytes) -> None:
    assert by_scan(raw) == by_reader(raw)


@settings(max_examples=100, deadline=None)
@example([(0, b"\0"), (728, b"\1")])
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


def _gather(raw: bytes, begin: int, end: int | None, section: SectionHead | None, into: list[object]) -> None:
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


PLACES = [("pump", bus) for bus in (0, 3)] + [("valve", bus) for bus in (0, 3, 5)]


def of_machine(device: str, order: str) -> bytes:
    """A capture whose messages tell of which machine and device they are."""
    buses = [bus for each, bus in PLACES if each == device]
    messages = [Announcement(f"$.Of.{device}.N{buses[k % len(buses)]}", bytes(k)) for k in range(9)]
    return capture(messages, info(device, bus=buses), order, buses=buses)


TWO = {order: of_machine("pump", pcapng.LITTLE) + of_machine("valve", order) for order in "<>"}
#: Where the second of them begins, and each block of the two
SEAM = len(of_machine("pump", pcapng.LITTLE))
BLOCKS = {
    order: [found.offset for found in Blocks(Window(MaybeGzip(io.BytesIO(raw)))) if isinstance(found, Block)]
    for order, raw in TWO.items()
}


def check_places(raw: bytes) -> None:
    """Reader and pipeline find the same, and of no message another machine or device than its own."""
    rows, damage = by_scan(raw)
    assert (rows, damage) == by_reader(raw)
    for row in rows:
        bus, device, name = row[4], row[6], str(row[-2])
        _, _, own_device, own_bus = name.split(".")
        assert device in ("", own_device), (name, device)
        assert bus in (None, int(own_bus[1:])), (name, bus)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from("<>"),
    st.lists(
        st.tuples(
            st.integers(0, len(BLOCKS["<"]) - 1),
            st.integers(-8, 40),
            st.one_of(st.binary(min_size=1, max_size=9), st.sampled_from([4, 16, 40, 64, 200]).map(bytes)),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_two_sections_of_which_something_is_overwritten(
    order: str, spots: list[tuple[int, int, bytes]]
) -> None:
    raw = bytearray(TWO[order])
    for block, at, what in spots:
        begin = max(0, BLOCKS[order][block] + at)
        raw[begin : begin + len(what)] = what
    check_places(bytes(raw))


@pytest.mark.parametrize("order", TWO)
def test_a_header_that_is_hidden_without_a_trace(order: str) -> None:
    """As a block of another kind; and of what follows it, one or two blocks are hidden or damaged as well."""
    first = BLOCKS[order].index(SEAM)
    for hidden in (1, 2, 3, 4):
        raw = bytearray(TWO[order])
        raw[SEAM + 8] ^= 1
        for begin in BLOCKS[order][first : first + hidden]:
            raw[begin : begin + 4] = b"\x44" * 4
        check_places(bytes(raw))
        for begin in BLOCKS[order][first + hidden : first + hidden + 3]:
            for at in (4, 8, 13):
                again = bytearray(raw)
                again[begin + at] ^= 0x40
                check_places(bytes(again))


@BITS
@pytest.mark.parametrize("order", TWO)
def test_a_wrong_bit_in_a_header_gives_no_message_to_another_place(order: str, first: int) -> None:
    """Nor does one in a description, or where a packet tells its interface."""
    end = BLOCKS[order][BLOCKS[order].index(SEAM) + 5]
    for at in range(SEAM, end):
        raw = bytearray(TWO[order])
        raw[at] ^= 1 << (at + first) % 8
        check_places(bytes(raw))


@pytest.mark.parametrize("kind", descriptions.WHOLE)
def test_zeros_in_a_description_cost_no_message(kind: str) -> None:
    """What is assumed in place of it, pipeline and reader assume alike."""
    for at, raw in descriptions.with_zeros(descriptions.WHOLE[kind]):
        rows, damage = by_scan(raw)
        assert (rows, damage) == by_reader(raw), at
        assert len(rows) == descriptions.COUNT and (damage or at != -1), at


def test_of_joined_gzip_the_second_is_there_whatever_is_wrong_with_the_first() -> None:
    for what, first in joined.damaged(step=11):
        raw = first + joined.B_GZIP
        rows, damage = by_scan(raw)
        assert (rows, damage) == by_reader(raw), what
        numbers = [row[1] for row in rows[-joined.COUNT :]]
        assert numbers == list(range(joined.SECOND, joined.SECOND + joined.COUNT)), what
        assert damage or joined.as_before(first), what


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(joined.A_GZIP) + len(joined.B_GZIP) - 1), st.binary(min_size=1, max_size=9)
        ),
        max_size=3,
    ),
    st.integers(0, len(joined.A_GZIP) + len(joined.B_GZIP)),
)
def test_joined_gzip_that_is_overwritten_or_cut_anywhere(spots: list[tuple[int, bytes]], cut: int) -> None:
    raw = bytearray(joined.A_GZIP + joined.B_GZIP)
    for at, what in spots:
        raw[at : at + len(what)] = what
    for data in (bytes(raw), bytes(raw[:cut]), bytes(raw[:cut]) + joined.B_GZIP):
        assert by_scan(data) == by_reader(data)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(WHOLE)), st.lists(st.integers(0, 8 * len(WHOLE) - 1), max_size=4))
def test_wrong_bits_and_a_cut_anywhere(cut: int, bits: list[int]) -> None:
    raw = bytearray(WHOLE)
    for each in bits:
        raw[each // 8] ^= 1 << each % 8
    for data in (bytes(raw[:cut]), bytes(raw[:cut]) + WHOLE, gzip.compress(raw)[:cut]):
        assert by_scan(data) == by_reader(data)
