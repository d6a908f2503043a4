# SPDX-License-Identifier: MIT
"""What a packet of a capture holds: a header of 40 bytes, and then the KBUS message exactly as read.

The header, in the byte order of the machine that recorded it:

====== ==== ===============================================================
offset type
====== ==== ===============================================================
0      u16  version of this layout, 1
2      u16  length of the header, 40: the message begins there
4      u32  CRC-32 (of zlib) of all that follows this word, the message too
8      u64  recorder's sequence number
16     u64  CLOCK_MONOTONIC when the message was sent, ns
24     u64  messages that this KSock had lost by then
32     u32  N of /dev/kbusN
36     u32  the recording, as the section's header has it too
====== ==== ===============================================================

So a packet says by itself which device's it is, and whether it belongs to the section that it is in.
Recorders did not always write the last two words: then the length is 32, and the interface has the device.

The byte order is that of the section, unless a tool has written the section anew on a machine of the
other one: editcap and mergecap do, and leave packets as they are. So the version shows it.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple, Optional

from .. import _abi as abi
from .pcapng import BIG, LITTLE, NATIVE

VERSION = 1
#: version, length of the header, CRC
START = {order: struct.Struct(order + "HHI") for order in (LITTLE, BIG)}
#: sequence, mono_ns, lost
FACTS = {order: struct.Struct(order + "3Q") for order in (LITTLE, BIG)}
#: bus, recording
ORIGIN = {order: struct.Struct(order + "2I") for order in (LITTLE, BIG)}
#: Of a header without an origin, which is the shortest, and with it
LEAST = START[NATIVE].size + FACTS[NATIVE].size
LENGTH = LEAST + ORIGIN[NATIVE].size
#: No device has a higher number, nor a name of more digits
MOST_BUS = 999_999_999

_VERSION_BYTES = {order: struct.pack(order + "H", VERSION) for order in (LITTLE, BIG)}
_EXTENSION_WORDS = 2 * abi.ORIG_FROM.size // 4
_HEADER_WORDS = abi.MESSAGE_HEADER.size // 4


class Frame(NamedTuple):
    """What the recorder says about a message.

    ``sequence`` ascends by one with each message of a recorder, over all its files and devices. ``mono_ns``
    is CLOCK_MONOTONIC when it was sent, and so queued for the recorder, in ns; or when one was that had come
    before it, having overtaken it or on another device. ``lost`` counts what its KSock had lost by then.
    """

    sequence: int
    mono_ns: int
    lost: int


class Origin(NamedTuple):
    """Where a message is from: the number of the device, and the recording, see ``header.recording_of``."""

    bus: int
    recording: int


def order_of(packet: bytes) -> str:
    """Return the byte order of a packet. Raises ValueError if it is of another version than this."""
    for order in (LITTLE, BIG):
        if packet[:2] == _VERSION_BYTES[order]:
            return order
    begin = packet[:2].hex() or "nothing"
    raise ValueError(f"a packet that begins with {begin}, and not with version {VERSION}")


def recording_in(begin: bytes) -> Optional[int]:
    """Return of which recording a packet that begins so says it is, if it does; it need not be whole."""
    try:
        order = order_of(begin)
        _, length, _ = START[order].unpack_from(begin)
        _, recording = ORIGIN[order].unpack_from(begin, LEAST)
    except (ValueError, struct.error):
        return None
    return int(recording) if length >= LENGTH else None


def decode(packet: bytes) -> tuple[Frame, Optional[Origin], str, bytes]:
    """Return the frame, the origin if there is one, the byte order, and the message in that, as recorded.

    Raises ValueError, which names the cause, if the packet is damaged or of another version.
    """
    order = order_of(packet)
    if len(packet) < LEAST:
        raise ValueError(f"a packet of {len(packet)} bytes, and the header alone has {LEAST}")
    _, length, crc = START[order].unpack_from(packet)
    if not LEAST <= length <= len(packet) or length % 4:
        raise ValueError(
            f"a packet of {len(packet)} bytes whose header says that it has {length} bytes itself"
        )
    if zlib.crc32(packet[START[order].size :]) != crc:
        raise ValueError("a packet whose checksum is wrong")
    origin = Origin(*ORIGIN[order].unpack_from(packet, LEAST)) if length >= LENGTH else None
    if origin and origin.bus > MOST_BUS:
        raise ValueError(f"a packet of device {origin.bus}, and {MOST_BUS} is the most")
    return Frame(*FACTS[order].unpack_from(packet, START[order].size)), origin, order, packet[length:]


def native(message: bytes, order: str) -> bytes:
    """Return a message in this machine's byte order. Its data are the sender's, and stay as they are.

    Raises ValueError if it is too short to have a header.
    """
    if order == NATIVE:
        return message
    words = _HEADER_WORDS
    try:
        (flags,) = struct.unpack_from(order + "I", message, 28)
        words += _EXTENSION_WORDS if flags & abi.BIT_EXTENDED else 0
        header = struct.unpack_from(f"{order}{words}I", message)
        (end,) = struct.unpack_from(order + "I", message, max(4 * words, len(message) - 4))
    except struct.error:
        raise ValueError(f"not a message: {len(message)} bytes") from None
    return struct.pack(f"={words}I", *header) + message[4 * words : -4] + abi.U32.pack(end)
