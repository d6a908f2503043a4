# SPDX-License-Identifier: MIT
"""What is written to a capture is what is read from it."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import threading
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbus import Message, MessageId
from kbus import _abi as abi
from kbus.capture import Frame, Reader, Writer, frame, pcapng
from kbus.capture.frame import Origin
from tests.python import strategies

from .captures import INFO, START, as_recorded, capture, numbered, read, statistics_in

ORDERS = (pcapng.LITTLE, pcapng.BIG)
u64 = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=60)
@given(
    given_messages=st.lists(
        st.tuples(st.integers(0, 2**63), st.builds(Frame, st.just(0), u64, u64), strategies.messages),
        max_size=8,
    ),
    first=st.integers(0, 2**64 - 9),
)
def test_every_message_and_fact_comes_back(
    order: str, given_messages: list[tuple[int, Frame, Message]], first: int
) -> None:
    file = io.BytesIO()
    info = {**INFO, "bus": [3, 0]}
    writer = Writer(file, info, [3, 0], order)
    expected = []
    for index, (time_ns, facts, message) in enumerate(given_messages):
        facts = facts._replace(sequence=first + index)
        writer.write(index % 2, time_ns, facts, [as_recorded(message, order)])
        expected.append((time_ns, message, facts, (3, 0)[index % 2]))
    writer.write_statistics(START, [5, 6])

    with Reader(io.BytesIO(file.getvalue())) as reader:
        got = [(each.time_ns, each.message, Frame(*each.facts[:3]), each.facts.bus) for each in reader]

    assert got == expected
    assert [section.info for section in reader.sections] == [info]
    assert [section.order for section in reader.sections] == [order]
    counts = [(len(expected) + 1) // 2, len(expected) // 2]
    assert [each[1:] for each in statistics_in(file.getvalue())] == [
        (0, 3, START, counts[0], 5),
        (1, 0, START, counts[1], 6),
    ]


@given(message=strategies.messages)
def test_a_message_is_stored_byte_for_byte(message: Message) -> None:
    raw = message.to_bytes()
    assert raw in capture([message])


def test_messages_read_together_have_one_time_and_ascending_numbers() -> None:
    file = io.BytesIO()
    messages = numbered(20)
    Writer(file, INFO, [0]).write(0, START, Frame(7, 8, 9), [each.to_bytes() for each in messages])
    records, _ = read(file.getvalue())
    assert [each.message for each in records] == messages
    assert {each.time_ns for each in records} == {START}
    assert [each.facts[:3] for each in records] == [(7 + index, 8, 9) for index in range(20)]


@pytest.mark.parametrize("order", ORDERS)
def test_the_layout_is_as_the_format_says(order: str) -> None:
    """Each word of a small file, made here a second time by hand."""
    message = Message("$.A", b"\1\2\3\4", id=MessageId(0, 9))
    raw = as_recorded(message, order)
    recording = zlib.crc32(b'["lathe","9d7c8a2e-6e0f-4f58-93a0-1f6f0d5c7f11",7,0]')
    rest = struct.pack(order + "3Q2I", 1, 5_000_000, 0, 0, recording) + raw
    packet = struct.pack(order + "HHI", 1, 40, zlib.crc32(rest)) + rest
    body = struct.pack(order + "5I", 0, START >> 32, START & 0xFFFFFFFF, len(packet), len(packet)) + packet
    block = struct.pack(order + "2I", 6, len(body) + 12) + body + struct.pack(order + "I", len(body) + 12)
    file = capture([message], order)
    assert block in file
    assert file[:4] == b"\x0a\x0d\x0d\x0a"
    assert struct.unpack_from(order + "IHHq", file, 8) == (0x1A2B3C4D, 1, 0, -1)
    interface = file.index(struct.pack(order + "2H", 2, 5) + b"kbus0\0\0\0" + struct.pack(order + "2H", 9, 1))
    assert struct.unpack_from(order + "2I2HI", file, interface - 16)[::2] == (1, 147, 0)
    assert file[interface - 16 :].startswith(struct.pack(order + "I", 1))
    assert raw[:4] == struct.pack(order + "I", abi.MSG_START_GUARD)


def test_files_one_after_the_other_are_one_capture() -> None:
    messages = numbered(30)
    both = capture(messages[:20], pcapng.BIG) + capture(messages[20:], pcapng.LITTLE, buses=[4], first=21)
    with Reader(io.BytesIO(both)) as reader:
        records = list(reader)
    assert [each.message for each in records] == messages
    assert [each.facts.sequence for each in records] == list(range(1, 31))
    assert [each.facts.bus for each in records] == [0] * 20 + [4] * 10
    assert [section.order for section in reader.sections] == [pcapng.BIG, pcapng.LITTLE]


def test_gzip_is_read_as_it_is(tmp_path: os.PathLike[str]) -> None:
    messages = numbered(3000)
    data = gzip.compress(capture(messages[:2000])) + gzip.compress(capture(messages[2000:], first=2001))
    path = os.path.join(tmp_path, "any-name")
    with open(path, "wb") as file:
        file.write(data)
    with Reader(path) as reader:
        assert [each.message for each in reader] == messages


def test_a_pipe_is_read_while_it_is_written() -> None:
    """Nothing is asked of the file but to read on, and what is there comes before its end does."""
    messages = numbered(10)
    data = capture(messages)
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as file, open(writing, "wb", buffering=0) as end:
        thread = threading.Thread(target=end.write, args=(data,))
        thread.start()
        reader = Reader(file)
        assert [next(reader).message for _ in messages] == messages
        thread.join()


@pytest.mark.parametrize(
    "option", [b"\x09\0\1\0\x06\0\0\0", b"\x0c\0\1\0\x09\0\0\0"], ids=["said", "not said"]
)
def test_microseconds_become_nanoseconds(option: bytes) -> None:
    data = bytearray(capture(numbered(1)))
    # Another tool has written it.
    data[data.index(b'{"device"')] = ord("!")
    ticks = START // 1000
    struct.pack_into("=2I", data, read(bytes(data))[0][0].facts.offset + 12, ticks >> 32, ticks & 0xFFFFFFFF)
    records, _ = read(bytes(data).replace(b"\x09\0\1\0\x09\0\0\0", option), strict=False)
    assert records[0].time_ns == START


def test_a_section_whose_comment_another_tool_has_replaced() -> None:
    file = io.BytesIO()
    file.write(pcapng.section_header(pcapng.NATIVE, "File created by merging"))
    file.write(capture(numbered(1))[len(pcapng.section_header(pcapng.NATIVE, _comment())) :])
    with Reader(io.BytesIO(file.getvalue())) as reader:
        assert len(list(reader)) == 1
    assert reader.sections[0].info == {}


def _comment() -> str:
    return json.dumps(INFO, separators=(",", ":"))


def test_unknown_blocks_are_passed_over() -> None:
    data = capture(numbered(2))
    custom = pcapng.block(pcapng.NATIVE, 0x00000BAD, b"whatever")
    at = len(pcapng.section_header(pcapng.NATIVE, _comment()))
    records, damage = read(data[:at] + custom + data[at:])
    assert (len(records), damage) == (2, [])


def test_a_longer_header_of_a_later_version_of_the_frame() -> None:
    """Who knows version 1 finds the message behind fields that were added."""
    raw = numbered(1)[0].to_bytes()
    origin = struct.pack("=2I", 4, 5)
    for more, expected in (
        (b"", None),
        (b"more", None),
        (origin, Origin(4, 5)),
        (origin + b"more", Origin(4, 5)),
    ):
        rest = struct.pack("=3Q", 1, 2, 3) + more + raw
        packet = struct.pack("=HHI", 1, 32 + len(more), zlib.crc32(rest)) + rest
        assert frame.decode(packet) == (Frame(1, 2, 3), expected, pcapng.NATIVE, raw)
        assert frame.recording_in(packet) == (expected.recording if expected else None)
