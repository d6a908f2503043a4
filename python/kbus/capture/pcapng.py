# SPDX-License-Identifier: MIT
"""The blocks of pcapng files, of either byte order.

Only what a KBUS capture has is made here; of everything else a reader needs to know no more than its
length. Source: the pcapng specification (draft-ietf-opsawg-pcapng).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

SECTION_HEADER = 0x0A0D0D0A
INTERFACE_DESCRIPTION = 1
INTERFACE_STATISTICS = 5
ENHANCED_PACKET = 6
#: What a packet has beyond MAX_PACKET bytes, right behind its block: of the kinds that are for local use.
REST_OF_PACKET = 0x80006B62

BYTE_ORDER_MAGIC = 0x1A2B3C4D
#: USER0: the program that writes a packet defines what it holds
LINKTYPE_KBUS = 147

OPT_END = 0
OPT_COMMENT = 1
IF_NAME = 2
IF_TSRESOL = 9
ISB_IFRECV = 4
ISB_IFDROP = 5

#: Byte orders, as ``struct`` writes them
LITTLE, BIG = "<", ">"
NATIVE = LITTLE if sys.byteorder == "little" else BIG

#: Bytes of a block that are not its body: kind and length, and the length again
OVERHEAD = 12
#: No block is longer. A message has 16 MiB at most, unless an administrator allows more.
MAX_LENGTH = 1 << 27
#: Wireshark's tools end at a longer packet of this link type: WTAP_MAX_PACKET_SIZE_STANDARD.
MAX_PACKET = 262_144
#: Nor do they take a block of more than 16 MiB. All blocks with the rest of a packet but the last have this.
MAX_REST = 8 << 20

#: magic, major and minor version, section length (-1: not said)
SECTION = {order: struct.Struct(order + "IHHq") for order in (LITTLE, BIG)}
#: link type, reserved, longest packet (0: any)
INTERFACE = {order: struct.Struct(order + "HHI") for order in (LITTLE, BIG)}
#: interface, time (upper and lower 32 bits), bytes in the file, bytes that there were
PACKET = {order: struct.Struct(order + "5I") for order in (LITTLE, BIG)}
#: interface, time (upper and lower 32 bits)
STATISTICS = {order: struct.Struct(order + "3I") for order in (LITTLE, BIG)}
#: kind and length of a block
HEAD = {order: struct.Struct(order + "2I") for order in (LITTLE, BIG)}
#: code and length of an option
OPTION = {order: struct.Struct(order + "2H") for order in (LITTLE, BIG)}
U32 = {order: struct.Struct(order + "I") for order in (LITTLE, BIG)}
U64 = {order: struct.Struct(order + "Q") for order in (LITTLE, BIG)}


class Block(NamedTuple):
    """A whole block. ``offset`` is where it begins, in bytes; ``raw`` is all of it, lengths included.

    To a packet belong the blocks with its rest, if it has some.
    """

    kind: int
    order: str
    offset: int
    raw: bytes

    @property
    def body(self) -> bytes:
        """What is between the lengths."""
        return self.raw[8:-4]


def block(order: str, kind: int, body: bytes) -> bytes:
    """Return a block; its body is padded with zeros to whole words."""
    padding = bytes(-len(body) % 4)
    length = len(body) + len(padding) + OVERHEAD
    return b"".join((HEAD[order].pack(kind, length), body, padding, U32[order].pack(length)))


def option(order: str, code: int, value: bytes) -> bytes:
    """Return an option. Raises ValueError if the value is longer than 65535 bytes."""
    if len(value) > 0xFFFF:
        raise ValueError(f"option {code} has {len(value)} bytes, and 65535 is the most")
    return OPTION[order].pack(code, len(value)) + value + bytes(-len(value) % 4)


def section_header(order: str, comment: str) -> bytes:
    """Return the block that a section begins with."""
    body = SECTION[order].pack(BYTE_ORDER_MAGIC, 1, 0, -1)
    return block(
        order,
        SECTION_HEADER,
        body + option(order, OPT_COMMENT, comment.encode()) + option(order, OPT_END, b""),
    )


def interface_description(order: str, name: str) -> bytes:
    """Return the block of an interface whose times are in nanoseconds."""
    options = option(order, IF_NAME, name.encode()) + option(order, IF_TSRESOL, b"\x09")
    body = INTERFACE[order].pack(LINKTYPE_KBUS, 0, 0) + options + option(order, OPT_END, b"")
    return block(order, INTERFACE_DESCRIPTION, body)


def interface_statistics(order: str, interface: int, time_ns: int, received: int, dropped: int) -> bytes:
    """Return the block that says how many messages are in the file, and how many were lost."""
    body = STATISTICS[order].pack(interface, time_ns >> 32, time_ns & 0xFFFFFFFF)
    counts = ((ISB_IFRECV, received), (ISB_IFDROP, dropped))
    options = b"".join(option(order, code, U64[order].pack(count)) for code, count in counts)
    return block(order, INTERFACE_STATISTICS, body + options + option(order, OPT_END, b""))


def options_of(block: Block, begin: int) -> Iterator[tuple[int, bytes]]:
    """Yield code and value of the options that begin ``begin`` bytes into the body.

    Raises ValueError if they are not whole.
    """
    body, order = block.body, block.order
    while begin < len(body):
        if begin + 4 > len(body):
            raise ValueError("its options are not whole")
        code, length = OPTION[order].unpack_from(body, begin)
        if code == OPT_END:
            return
        begin += 4
        if begin + length > len(body):
            raise ValueError(f"its option {code} is longer than the block")
        yield code, body[begin : begin + length]
        begin += (length + 3) & ~3


def rests_of_packet(order: str, rest: bytes) -> list[bytes]:
    """Return the blocks with what a packet has beyond MAX_PACKET, each in pieces to be joined.

    It is whole words.
    """
    pieces = []
    for begin in range(0, len(rest), MAX_REST):
        part = rest[begin : begin + MAX_REST]
        length = len(part) + OVERHEAD
        pieces += [HEAD[order].pack(REST_OF_PACKET, length), part, U32[order].pack(length)]
    return pieces


def interface_of(block: Block) -> int:
    """Return which interface of the section a packet is of, or a block of statistics."""
    return int(U32[block.order].unpack_from(block.raw, 8)[0])


def packet_of(block: Block) -> tuple[int, int, bytes]:
    """Return interface, time in units of that, and the bytes of a packet, with its rest joined to it.

    Raises ValueError if the block is too short for them, or they are not all that there were.
    """
    interface, high, low, captured, original = PACKET[block.order].unpack_from(block.raw, 8)
    begin, (_, end) = 8 + PACKET[block.order].size, HEAD[block.order].unpack_from(block.raw)
    if begin + captured + 4 > end:
        raise ValueError(f"a packet of {captured} bytes in a block of {end}")
    parts = [block.raw[begin : begin + captured]]
    while end < len(block.raw):
        _, length = HEAD[block.order].unpack_from(block.raw, end)
        parts.append(block.raw[end + 8 : end + length - 4])
        end += length
    packet = b"".join(parts)[:original]
    if len(packet) != original or captured > original:
        raise ValueError(f"a packet of which {captured} bytes are left of {original}")
    return interface, high << 32 | low, packet


def joined(cut: Block) -> bytes:
    """Return a packet's block of the same length, in which the rest is joined to it.

    Raises ValueError like ``packet_of``.
    """
    interface, ticks, packet = packet_of(cut)
    head = PACKET[cut.order].pack(interface, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
    # What is behind the packet would be its options; these have none.
    body = (head + packet).ljust(len(cut.raw) - OVERHEAD, b"\0")
    return block(cut.order, ENHANCED_PACKET, body)
