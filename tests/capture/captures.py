# SPDX-License-Identifier: MIT
"""Captures made for tests, in either byte order."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Optional, Union, cast

from kbus import Announcement, Message
from kbus.capture import Damage, Frame, Reader, Record, Statistics, Writer, frame, pcapng
from kbus.capture.blocks import block_at
from kbus.capture.identity import bus_of
from kbus.capture.input import Window
from kbus.capture.pcapng import Block

#: 2026-01-01T00:00:00Z, in ns
START = 1_767_225_600_000_000_000

INFO: dict[str, Any] = {
    "device": "lathe",
    "boot_id": "9d7c8a2e-6e0f-4f58-93a0-1f6f0d5c7f11",
    "load_id": 7,
    "bus": 0,
    "recorder": "0.1.0",
    "bindings": ["$.*"],
}


def as_recorded(message: Message, order: str) -> bytes:
    """The message's bytes as a machine of this byte order has them."""
    raw = message.to_bytes()
    if order == pcapng.NATIVE:
        return raw
    words = 14 if message.flags & Message.EXTENDED else 10
    header, end = struct.unpack_from(f"={words}I", raw), raw[-4:][::-1]
    return struct.pack(f"{order}{words}I", *header) + raw[4 * words : -4] + end


def capture(
    messages: Sequence[Message],
    order: str = pcapng.NATIVE,
    *,
    buses: Sequence[int] = (0,),
    first: int = 1,
    info: Mapping[str, Any] = INFO,
) -> bytes:
    """A section with these messages, a microsecond from one to the next, on each bus in turn; statistics."""
    file = io.BytesIO()
    said = info if tuple(buses) == (0,) else {**info, "bus": bus_of(buses)}
    writer = Writer(file, said, buses, order)
    for count, message in enumerate(messages):
        facts = Frame(first + count, 5_000_000 + 1000 * count, count // 10)
        writer.write(count % len(buses), START + 1000 * count, facts, [as_recorded(message, order)])
    writer.write_statistics(START + 1000 * len(messages), [len(messages) // 10] * len(buses))
    return file.getvalue()


def without_origins(data: bytes) -> bytes:
    """The capture with packets that do not tell where they are from, as recorders made them once."""
    parts = []
    window = Window(io.BytesIO(data))
    order: Optional[str] = None
    while window.have(1):
        each = block_at(window, order)
        assert isinstance(each, Block)
        order = each.order
        window.at += len(each.raw)
        if each.kind == pcapng.ENHANCED_PACKET:
            index, time, packet = pcapng.packet_of(each)
            rest = packet[frame.START[order].size : frame.LEAST] + packet[frame.LENGTH :]
            packet = frame.START[order].pack(frame.VERSION, frame.LEAST, zlib.crc32(rest)) + rest
            head = pcapng.PACKET[order].pack(index, time >> 32, time & 0xFFFFFFFF, len(packet), len(packet))
            parts.append(pcapng.block(order, each.kind, head + packet))
        else:
            parts.append(each.raw)
    return b"".join(parts)


def numbered(count: int) -> list[Message]:
    """Messages of different lengths."""
    return [
        Message.from_message(Announcement(f"$.Number.N{number % 3}", bytes([number % 256]) * (number % 9)))
        for number in range(count)
    ]


def _source(data: Union[bytes, Path]) -> Union[Path, BinaryIO]:
    return data if isinstance(data, Path) else cast(BinaryIO, io.BytesIO(data))


def read(data: Union[bytes, Path], strict: bool = True) -> tuple[list[Record], list[Damage]]:
    """All that can be read, and what of it is damaged."""
    with Reader(_source(data), strict) as reader:
        return list(reader), reader.damage


def statistics_in(data: Union[bytes, Path]) -> list[Statistics]:
    """All statistics of a capture."""
    found = []
    with Reader(_source(data)) as reader:
        for block, _ in reader.blocks():
            if block.kind == pcapng.INTERFACE_STATISTICS:
                assert reader.latest
                found.append(reader.latest)
    return found
