# SPDX-License-Identifier: MIT
"""What is no capture, and may look like one, and a healthy file to compare with."""

from __future__ import annotations

import struct
from collections.abc import Callable

from kbus import Message
from kbus.capture import pcapng

from .captures import capture

MIB = 1 << 20
#: How a packet begins whose block has 8 MiB, and does not end as it begins
CLAIM = struct.pack("<2I", pcapng.ENHANCED_PACKET, 8 * MIB + 4)


def _nested(size: int) -> bytes:
    """Blocks of packets, each of which begins inside the one before it, and ends where that says."""
    lengths = range(size // 2, size // 2 - 36 * (size // 100), -36)
    begins = b"".join(
        struct.pack("<2I5I12x", pcapng.ENHANCED_PACKET, each, 0, 0, 0, 8, 8) for each in lengths
    )
    ends = b"".join(struct.pack("<I", each) for each in lengths)
    return begins.ljust(size // 2 - 4, b"\0") + ends


#: So many bytes, or a few more, of each kind
RUBBISH: dict[str, Callable[[int], bytes]] = {
    "zeros": bytes,
    "long claims": lambda size: CLAIM * (size // len(CLAIM)),
    "short claims": lambda size: (CLAIM[:4] + bytes(4)) * (size // len(CLAIM)),
    "at odd places": lambda size: b"\0" + CLAIM * (size // len(CLAIM)) + bytes(3),
    "headers without magic": lambda size: struct.pack("<I", pcapng.SECTION_HEADER) * (size // 4),
    "packets too short": lambda size: struct.pack("<2I", pcapng.ENHANCED_PACKET, 16) * (size // 8),
    "nested": lambda size: bytes(4) + _nested(size),
}


def healthy(size: int) -> bytes:
    """A capture of about so many bytes, of ordinary messages."""
    message = Message("$.Sensors.Kitchen.Temperature", b"22.5")
    return capture([message] * (size // len(capture([message] * 101)) * 100))
