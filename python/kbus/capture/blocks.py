# SPDX-License-Identifier: MIT
"""Finding the blocks of a capture that may be damaged, or is still being written."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple, Optional, Protocol, Union

from . import frame
from .gunzip import MaybeGzip
from .pcapng import (
    BIG,
    BYTE_ORDER_MAGIC,
    ENHANCED_PACKET,
    HEAD,
    INTERFACE,
    INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS,
    LITTLE,
    MAX_LENGTH,
    NATIVE,
    OVERHEAD,
    PACKET,
    SECTION,
    SECTION_HEADER,
    STATISTICS,
    U32,
    Block,
    packet_of,
)

_CHUNK = 1 << 20

#: The shortest body of each kind
_LEAST = {
    order: {
        SECTION_HEADER: SECTION[order].size,
        INTERFACE_DESCRIPTION: INTERFACE[order].size,
        INTERFACE_STATISTICS: STATISTICS[order].size,
        ENHANCED_PACKET: PACKET[order].size,
    }
    for order in (LITTLE, BIG)
}


class Damage(NamedTuple):
    """Bytes of a file that are of no use: from ``offset``, ``length`` of them, and why."""

    offset: int
    length: int
    reason: str


class Source(Protocol):
    """Bytes of a file: ``at`` is where in ``data`` the next of them is, ``offset`` where in the file."""

    data: bytes
    at: int

    @property
    def offset(self) -> int:
        """Where ``at`` is in the file."""

    def have(self, count: int) -> bool:
        """Return whether there are ``count`` more bytes, having read as many."""

    def left(self) -> int:
        """Return how many bytes there are in ``data`` from ``at`` on."""


class _Input:
    """A file that can be looked at some way ahead, and is read once."""

    def __init__(self, file: MaybeGzip) -> None:
        self._file = file
        self.data = b""
        self.at = 0
        self.offset = 0
        self.error = ""

    def have(self, count: int) -> bool:
        """Return whether there are ``count`` more bytes, having read as many."""
        while self.left() < count and not self.error:
            try:
                more = self._file.read(max(_CHUNK, count - self.left()))
            except (EOFError, zlib.error) as error:
                self.error = str(error)
                break
            if not more:
                break
            self.data = self.data[self.at :] + more
            self.at = 0
        return self.left() >= count

    def left(self) -> int:
        return len(self.data) - self.at

    def find(self, words: re.Pattern[bytes]) -> Optional[int]:
        """Return how far ahead one of these is, at a multiple of 4 from here; None if it is not in memory."""
        match = words.search(self.data, self.at)
        while match and (match.start() - self.at) % 4:
            match = words.search(self.data, match.start() + 1)
        return match.start() - self.at if match else None

    def skip(self, count: int) -> None:
        self.at += count
        self.offset += count


def read_blocks(file: MaybeGzip) -> Iterator[Union[Block, Damage]]:
    """Yield the blocks of a capture, and what is between them where it is damaged.

    What is no block is passed over up to the next that can be trusted: a section header, or a packet of
    the section that is whole. A file that ends inside a block has no more blocks: its last bytes are the
    data of somebody's message, whatever they look like.
    """
    source = _Input(file)
    order: Optional[str] = None
    while source.have(1):
        found = block_at(source, order)
        if isinstance(found, Block):
            if found.kind == SECTION_HEADER:
                order = found.order
            source.skip(len(found.raw))
            yield found
            continue
        begin = source.offset
        reason, is_torn = found
        if is_torn:
            source.skip(source.left())
        else:
            _skip_to_block(source, order)
        yield Damage(begin, source.offset - begin, source.error if is_torn and source.error else reason)
        if is_torn:
            return
    if source.error:
        yield Damage(source.offset, 0, source.error)


def block_at(source: Source, order: Optional[str]) -> Union[Block, tuple[str, bool]]:
    """Return the block, or why there is none and whether that is because the file ends."""
    if not source.have(8):
        return "the file ends inside a block", True
    is_header = U32[LITTLE].unpack_from(source.data, source.at)[0] == SECTION_HEADER
    if is_header:
        if not source.have(12):
            return "the file ends inside a block", True
        order = _order_of(source.data[source.at + 8 : source.at + 12])
        if order is None:
            return "a section header without its magic number", False
    if order is None:
        return "not a pcapng file", False
    kind, length = HEAD[order].unpack_from(source.data, source.at)
    if length < OVERHEAD or length % 4 or length > MAX_LENGTH:
        return f"a block of {length} bytes", False
    if not source.have(length):
        return "the file ends inside a block", _is_sane(source, order, kind, length)
    raw = source.data[source.at : source.at + length]
    if U32[order].unpack_from(raw, length - 4)[0] != length:
        return "a block that does not end as it begins", False
    if len(raw) < OVERHEAD + _LEAST[order].get(kind, 0):
        return f"a block of kind {kind} with {length} bytes", False
    return Block(kind, order, source.offset, raw)


def _is_sane(source: Source, order: str, kind: int, length: int) -> bool:
    """Return whether a block that is not whole looks like one, and not like a wrong length."""
    if kind not in (SECTION_HEADER, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, ENHANCED_PACKET):
        return False
    if kind != ENHANCED_PACKET or source.left() < 8 + PACKET[order].size:
        return True
    _, _, _, captured, _ = PACKET[order].unpack_from(source.data, source.at + 8)
    return bool((captured + 3) & ~3 == length - PACKET[order].size - OVERHEAD)


def _skip_to_block(source: _Input, order: Optional[str]) -> None:
    """Go on to the next block that can be trusted, or to the end. Blocks begin at multiples of 4."""
    # Without a section there are no packets.
    wanted = (SECTION_HEADER, ENHANCED_PACKET) if order else (SECTION_HEADER,)
    words = re.compile(b"|".join(re.escape(U32[order or NATIVE].pack(kind)) for kind in wanted))
    source.skip(min(4, source.left()))
    while source.have(OVERHEAD):
        place = source.find(words)
        if place is None:
            source.skip(source.left() & ~3)
            continue
        source.skip(place)
        found = block_at(source, order)
        if isinstance(found, Block) and (found.kind == SECTION_HEADER or has_frame(found)):
            return
        source.skip(min(4, source.left()))
    source.skip(source.left())


def has_frame(block: Block) -> bool:
    """Return whether a packet is one of a recorder, and whole."""
    try:
        packet = packet_of(block)[2]
        frame.decode(packet, frame.order_of(packet))
    except ValueError:
        return False
    return True


def _order_of(magic: bytes) -> Optional[str]:
    for order in (LITTLE, BIG):
        if U32[order].unpack(magic)[0] == BYTE_ORDER_MAGIC:
            return order
    return None
