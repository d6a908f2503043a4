# SPDX-License-Identifier: MIT
"""Small captures for tests, written by the real writer."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from typing import Any

from kbus import Message, MessageId
from kbus import _abi as abi
from kbus.capture import Frame, Writer, pcapng
from kbus.capture.identity import bus_of

#: 2026-03-01T12:00:00Z
NOON = 1_772_366_400 * 1_000_000_000


def info(device: str = "pump", boot: str = "boot-1", load: str = "load-1", **more: Any) -> dict[str, Any]:
    """What a recorder says of itself."""
    return {
        "device": device,
        "boot_id": boot,
        "load_id": load,
        "bus": 0,
        "recorder": "kbus 0.1.0",
        "bindings": ["$.*"],
        **more,
    }


def swapped(message: bytes) -> bytes:
    """A message without data, in the other byte order."""
    words = len(message) // 4
    flags = int.from_bytes(message[28:32], "little")
    numbers = 14 if flags & Message.EXTENDED else 10
    parts = [message[4 * k : 4 * k + 4][::-1] for k in range(numbers)]
    return b"".join(parts) + message[4 * numbers : 4 * words - 4] + message[-4:][::-1]


def bind_event(serial: int, is_bind: bool) -> Message:
    """What KBUS says when KSock 7 binds ``$.Pump``, or unbinds."""
    name = b"$.Pump"
    data = struct.pack("<3I", int(is_bind), 7, len(name)) + name + bytes(-len(name) % 4)
    return Message(
        abi.NAME_REPLIER_BIND_EVENT, data, flags=Message.SYNTHETIC, from_=0, id=MessageId(0, serial)
    )


def capture(
    messages: Sequence[Message],
    section: dict[str, Any] | None = None,
    order: str = pcapng.LITTLE,
    begin_ns: int = NOON,
    step_ns: int = 1_000_000,
    first: int = 1,
    mono_ns: int = 1_000_000_000,
    buses: Sequence[int] = (0,),
    is_sealed: bool = True,
    off_ns: Sequence[int] = (),
) -> bytes:
    """The bytes of a capture with these messages, in turn on each of the buses.

    ``off_ns`` is by how much the clock is wrong at each message.
    """
    file = io.BytesIO()
    said = section or info()
    if tuple(buses) != (0,):
        said = {**said, "bus": bus_of(buses)}
    writer = Writer(file, said, buses, order)
    for number, message in enumerate(messages):
        raw = message.to_bytes() if order == pcapng.NATIVE else swapped(message.to_bytes())
        frame = Frame(first + number, mono_ns + number * step_ns, 0)
        time_ns = begin_ns + number * step_ns + (off_ns[number] if off_ns else 0)
        writer.write(number % len(buses), time_ns, frame, [raw])
    if is_sealed:
        writer.write_statistics(begin_ns + len(messages) * step_ns, [0] * len(buses))
    return file.getvalue()
