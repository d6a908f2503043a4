# SPDX-License-Identifier: MIT
"""Messages as bytes and back: the ABI, 'A message, as bytes'."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus import Announcement, Message, MessageId, OrigFrom, Reply, Request
from kbus import _wire as wire

from .strategies import kinds, literal_names, messages, u32


def words(*values: int) -> bytes:
    """The values as 32-bit words of this machine."""
    return struct.pack(f"={len(values)}I", *values)


START, END = 0x7375626B, 0x6B627573


def test_a_simple_message() -> None:
    message = Message(
        "$.Fred", b"12345", to=3, from_=4, in_reply_to=MessageId(5, 6), flags=0x10000, id=MessageId(1, 2)
    )
    expected = words(START, 1, 2, 5, 6, 3, 4, 0xC0010000, 6, 2) + b"$.Fred\0\0" + b"12345\0\0\0" + words(END)
    assert message.to_bytes() == expected
    assert Message.from_bytes(expected) == message


def test_an_extended_message() -> None:
    message = Message("$.Jim1", orig_from=OrigFrom(1, 2), final_to=OrigFrom(3, 4))
    expected = words(START, 0, 0, 0, 0, 0, 0, 0x400, 6, 0, 1, 2, 3, 4) + b"$.Jim1\0\0" + words(END)
    assert message.to_bytes() == expected
    assert Message.from_bytes(expected) == message


def test_extended_with_one_end_point() -> None:
    message = Message("$.Fred", final_to=OrigFrom(3, 4))
    assert message.to_bytes()[40:56] == words(0, 0, 3, 4)
    assert Message.from_bytes(message.to_bytes()).orig_from is None


@given(kinds)
def test_bytes_and_back(message: Message) -> None:
    again = type(message).from_bytes(message.to_bytes())
    assert again == message
    assert type(again) is type(message)


@given(messages)
def test_total_length(message: Message) -> None:
    assert message.total_length() == len(message.to_bytes())
    assert message.total_length() % 4 == 0


@pytest.mark.parametrize("length", range(1, 10))
def test_every_length_of_data_exactly(length: int) -> None:
    message = Message.from_bytes(Message("$.Fred", b"\0" * length).to_bytes())
    assert message.data == b"\0" * length
    assert message.flags == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_from_any_bytes(kind: type) -> None:
    message = Message("$.Fred", b"data")
    assert Message.from_bytes(kind(message.to_bytes())) == message


def test_what_was_received_does_not_change_with_its_buffer() -> None:
    buffer = bytearray(Message("$.Fred", b"data").to_bytes())
    message = Message.from_bytes(buffer)
    buffer[:] = bytes(len(buffer))
    assert message == Message("$.Fred", b"data")


@given(
    name=literal_names,
    numbers=st.tuples(u32, u32, u32, u32, u32, u32, u32),
    extension=st.binary(min_size=16, max_size=16),
    data=st.binary(max_size=24).map(lambda data: data[: len(data) & ~3]),
)
def test_whatever_kbus_delivers_can_be_read(
    name: str, numbers: tuple[int, ...], extension: bytes, data: bytes
) -> None:
    flags = numbers[6]
    header = words(START, *numbers, len(name), len(data) // 4)
    raw = (
        header
        + (extension if flags & Message.EXTENDED else b"")
        + name.encode().ljust((len(name) + 3) & ~3, b"\0")
        + data
        + words(END)
    )
    message = Message.from_bytes(raw)
    assert message.name == wire.name_of(raw) == name
    assert wire.length_at(raw, 0) == len(raw)
    assert message.flags == flags & 0x3FFFFFFF
    assert (message.data or b"") == data[: max(len(data) - (flags >> 30), 0)]


def test_of_another_class_than_its_kind() -> None:
    with pytest.raises(ValueError, match="cannot want a reply"):
        Announcement.from_bytes(Request("$.Fred").to_bytes())
    with pytest.raises(ValueError, match="needs in_reply_to"):
        Reply.from_bytes(Request("$.Fred").to_bytes())


GOOD = Message("$.Fred", b"data").to_bytes()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (b"", "0 bytes, the shortest has 44"),
        (GOOD[:43], "43 bytes, the shortest has 44"),
        (words(0x6B627573) + GOOD[4:], "begins with 0x6b627573 and not with 0x7375626b"),
        (GOOD[:-4] + words(0), "ends with 0x00000000 and not with 0x6b627573"),
        (GOOD[:-4], "52 bytes, but the header says 56"),
        (GOOD + words(END), "60 bytes, but the header says 56"),
        (GOOD[:32] + words(10) + GOOD[36:], "56 bytes, but the header says 60"),
        (GOOD[:36] + words(0xFFFFFFFF) + GOOD[40:], "56 bytes, but the header says 17179869232"),
        (GOOD[:46] + b"\0x" + GOOD[48:], "the padding of its name is not zero"),
        (GOOD[:42] + b"\xff" + GOOD[43:], "is not text"),
        (GOOD[:40] + b"." + GOOD[41:], 'does not start with "\\$."'),
        (words(START, 0, 0, 0, 0, 0, 0, 0, 0, 0, END), 'does not start with "\\$."'),
        (words(START, 0, 0, 0, 0, 0, 0, 0x400, 0, 0, END), "44 bytes, but the header says 60"),
    ],
)
def test_what_is_not_a_message(wrong: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Message.from_bytes(wrong)


@given(st.binary(max_size=80))
def test_no_bytes_cause_another_error(rubbish: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a message|not one message"):
        Message.from_bytes(rubbish)


@given(messages, st.integers(0, 1000), st.binary(min_size=1, max_size=4))
def test_damage_causes_no_other_error(message: Message, where: int, damage: bytes) -> None:
    raw = bytearray(message.to_bytes())
    where %= len(raw)
    raw[where : where + len(damage)] = damage
    try:
        again = Message.from_bytes(raw)
    except ValueError:
        return
    assert again.total_length() == len(raw)
