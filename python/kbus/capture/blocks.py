# SPDX-License-Identifier: MIT
"""Finding the blocks of a capture that may be damaged, or is still being written."""

from __future__ import annotations

import re
import struct
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
    MAX_REST,
    NATIVE,
    OVERHEAD,
    PACKET,
    REST_OF_PACKET,
    SECTION,
    SECTION_HEADER,
    STATISTICS,
    U32,
    Block,
    packet_of,
    section_header,
)

#: Why there is no block, if it is not all there
FILE_ENDS = "the file ends inside a block"
#: Places of a file that are told apart. All beyond are counted, as there may be one for every few bytes.
MOST_DAMAGE = 1000

_CHUNK = 1 << 20
#: How many bytes of what looks like packets are looked at, beside two for each byte that is passed over
_LOOKED_AT = 1 << 20

_MAGIC_AND_VERSION = {struct.pack(order + "I2H", BYTE_ORDER_MAGIC, 1, 0) for order in (LITTLE, BIG)}
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

    at: int

    @property
    def data(self) -> Union[bytes, bytearray]:
        """What has been read, and not forgotten."""

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
        self.data = bytearray()
        self.at = 0
        self._base = 0
        self.error = ""

    @property
    def offset(self) -> int:
        return self._base + self.at

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
            if self.at > self.left():
                # So each byte is moved once at most.
                del self.data[: self.at]
                self._base += self.at
                self.at = 0
            self.data += more
        return self.left() >= count

    def left(self) -> int:
        return len(self.data) - self.at


def read_blocks(file: MaybeGzip) -> Iterator[Union[Block, Damage]]:
    """Yield the blocks of a capture, and what is between them where it is damaged.

    What is no block is passed over up to the next that can be trusted: a section header, or a packet of
    the section that is whole. Where it was a section header that is damaged, one that says nothing comes in
    its place. A file that ends inside a packet has no more blocks: its last bytes are the data of somebody's
    message, whatever they look like.
    """
    source = _Input(file)
    search = Search()
    order: Optional[str] = None
    while source.have(1):
        found = block_at(source, order)
        if isinstance(found, Block):
            if found.kind == SECTION_HEADER:
                order = found.order
            source.at += len(found.raw)
            yield found
            continue
        begin = source.offset
        reason, is_torn = found
        search.header_is_lost = not is_torn and is_header_lost(source, order)
        if is_torn:
            source.at += source.left()
        else:
            order = search.go_on(source, order)
        is_end = reason == FILE_ENDS and not source.left()
        yield Damage(begin, source.offset - begin, source.error if is_end and source.error else reason)
        if is_end:
            return
        if search.header_is_lost and order and not is_header(source):
            yield header_in_place(order, begin)
    if source.error:
        yield Damage(source.offset, 0, source.error)


def first_block(file: MaybeGzip) -> Optional[Block]:
    """Return the block that a file begins with; None if that is none."""
    source = _Input(file)
    found = block_at(source, None) if source.have(1) else None
    return found if isinstance(found, Block) else None


def is_header_lost(source: Source, order: Optional[str]) -> bool:
    """Return whether there is no block, because it is a section header that is damaged."""
    return order is None or is_header(source) or _has_magic(source)


def is_header(source: Source) -> bool:
    """Return whether a section header begins here, of whatever order."""
    return bool(U32[NATIVE].unpack_from(source.data, source.at)[0] == SECTION_HEADER)


def _has_magic(source: Source) -> bool:
    return source.have(16) and bytes(source.data[source.at + 8 : source.at + 16]) in _MAGIC_AND_VERSION


def header_in_place(order: str, offset: int) -> Block:
    """Return the header of a section whose own is damaged."""
    return Block(SECTION_HEADER, order, offset, section_header(order, "its header was damaged"))


def block_at(source: Source, order: Optional[str]) -> Union[Block, tuple[str, bool]]:
    """Return the block, or why there is none and whether that is because the file ends."""
    if not source.have(8):
        return FILE_ENDS, True
    if is_header(source):
        if not source.have(12):
            return FILE_ENDS, True
        order = _order_of(bytes(source.data[source.at + 8 : source.at + 12]))
        if order is None:
            return "a section header without its magic number", False
    if order is None:
        return "not a pcapng file", False
    kind, length = HEAD[order].unpack_from(source.data, source.at)
    if length < OVERHEAD or length % 4 or length > MAX_LENGTH:
        return f"a block of {length} bytes", False
    if not source.have(length):
        return FILE_ENDS, _is_sane(source, order, kind, length)
    if U32[order].unpack_from(source.data, source.at + length - 4)[0] != length:
        return "a block that does not end as it begins", False
    if length < OVERHEAD + _LEAST[order].get(kind, 0):
        return f"a block of kind {kind} with {length} bytes", False
    if kind not in _LEAST[order] and _has_magic(source):
        return f"a section header of kind {kind}", False
    if kind == ENHANCED_PACKET:
        end = _end_of_rest(source, order, length)
        if end is None:
            return FILE_ENDS, True
        length = end
    with memoryview(source.data) as view:
        return Block(kind, order, source.offset, bytes(view[source.at : source.at + length]))


def _end_of_rest(source: Source, order: str, length: int) -> Optional[int]:
    """Return where the rest of a packet ends, whose block has ``length`` bytes; None if the file ends before.

    A packet that has none, or of which some tool has left out the rest, ends where its block does.
    """
    _, _, _, captured, original = PACKET[order].unpack_from(source.data, source.at + 8)
    rest, end = original - captured, length
    if not 0 < rest <= MAX_LENGTH:
        return length
    while rest > 0:
        wanted = OVERHEAD + ((min(rest, MAX_REST) + 3) & ~3)
        if not source.have(end + 8):
            return None
        if HEAD[order].unpack_from(source.data, source.at + end) != (REST_OF_PACKET, wanted):
            return length
        if not source.have(end + wanted):
            return None
        end += wanted
        if U32[order].unpack_from(source.data, source.at + end - 4)[0] != wanted:
            return length
        rest -= MAX_REST
    return end


def _is_sane(source: Source, order: str, kind: int, length: int) -> bool:
    """Return whether a block that is not whole is a packet, and does not look like a wrong length.

    Others are short, so that there may be blocks behind what is in place of them.
    """
    if kind != ENHANCED_PACKET:
        return False
    if source.left() < 8 + PACKET[order].size:
        return True
    _, _, _, captured, _ = PACKET[order].unpack_from(source.data, source.at + 8)
    return bool((captured + 3) & ~3 == length - PACKET[order].size - OVERHEAD)


def _candidates() -> re.Pattern[bytes]:
    """What may be the beginning of a block that can be trusted, or shows that there was a section header.

    These are a section header, its magic number, and packets of either order.
    """
    # A header whose magic number is damaged is none.
    magic = [re.escape(struct.pack(order + "I", BYTE_ORDER_MAGIC)) for order in (LITTLE, BIG)]
    found = [re.escape(U32[NATIVE].pack(SECTION_HEADER)) + b"....(?:" + b"|".join(magic) + b")"]
    found += map(re.escape, _MAGIC_AND_VERSION)
    # The length is a multiple of 4, and less than 2**28: most words like the kind are something else.
    fours = b"[" + b"".join(re.escape(bytes([low])) for low in range(0, 256, 4)) + b"]"
    length = [fours, b".", b".", b"[\\0-\\x0f]"]
    for order in (LITTLE, BIG):
        in_order = b"".join(length if order == LITTLE else length[::-1])
        found.append(re.escape(U32[order].pack(ENHANCED_PACKET)) + in_order)
    return re.compile(b"|".join(found), re.DOTALL)


_CANDIDATES = _candidates()


class Search:
    """Finds the next block that can be trusted: a section header, or a packet that a recorder has made.

    What looks like a packet, and is none, costs what it is long. There may be many of them, one inside the
    other, if somebody has sent such data. So for each byte of the file two at most are looked at, and some
    more; then the search goes on behind what has cost too much. ``begin`` is where reading began.

    ``header_is_lost`` tells whether there was a section header in what has been passed over since it was set
    to False.
    """

    def __init__(self, begin: int = 0) -> None:
        self._begin = begin
        self._looked_at = 0
        self.header_is_lost = False

    def go_on(self, source: Source, order: Optional[str]) -> Optional[str]:
        """Go on to that block, or to the end, and return the order of what is there.

        Blocks begin at multiples of 4 from here. If no ``order`` is given, the section's header is lost.

        What ``source.have`` raises may come from here. Then the search can be gone on with.
        """
        if self.header_is_lost:
            order = None
        while source.have(OVERHEAD):
            match = _CANDIDATES.search(source.data, source.at)
            while match and (match.start() - source.at) % 4:
                match = _CANDIDATES.search(source.data, match.start() + 1)
            if not match:
                # The last two words of them may be the beginning of what is looked for.
                source.at += (source.left() - 8) & ~3
                continue
            source.at = match.start()
            if not source.have(OVERHEAD):
                break
            if bytes(source.data[source.at : source.at + 8]) in _MAGIC_AND_VERSION:
                self.header_is_lost, order = True, None
                source.at += 4
                continue
            own = LITTLE if source.data[source.at] else BIG
            if _is_no_block(source, own):
                source.at += 4
                continue
            found = block_at(source, own)
            if not isinstance(found, Block):
                source.at += 4
            elif found.kind == SECTION_HEADER or has_frame(found):
                self.header_is_lost |= found.order != order
                return found.order
            else:
                self._looked_at += len(found.raw)
                excess = self._looked_at - 2 * (source.offset - self._begin) - _LOOKED_AT
                source.at += max(4, min(len(found.raw), excess & ~3))
        source.at += source.left()
        return order


def _is_no_block(source: Source, order: str) -> bool:
    """Whether it is known at once that this is none, as it is of nearly all that look like one."""
    kind, length = HEAD[order].unpack_from(source.data, source.at)
    if kind == SECTION_HEADER:
        return False
    if length < OVERHEAD + _LEAST[order].get(kind, 0) or not source.have(length):
        return True
    (again,) = U32[order].unpack_from(source.data, source.at + length - 4)
    return bool(again != length)


def has_frame(block: Block) -> bool:
    """Return whether a packet is one of a recorder, and whole."""
    try:
        packet = packet_of(block)[2]
        frame.decode(packet, frame.order_of(packet))
    except ValueError:
        return False
    return True


def is_of_another_recording(packet: Block, recording: Optional[int]) -> bool:
    """Return whether a packet belongs to another recording than that of the section; None is any."""
    origin = frame.origin_in(packet.raw, 8 + PACKET[packet.order].size) if recording is not None else None
    return origin is not None and origin.recording != recording and has_frame(packet)


def _order_of(magic: bytes) -> Optional[str]:
    for order in (LITTLE, BIG):
        if U32[order].unpack(magic)[0] == BYTE_ORDER_MAGIC:
            return order
    return None
