# SPDX-License-Identifier: MIT
"""Finding the blocks of a capture that may be damaged, or is still being written."""

from __future__ import annotations

import re
import struct
from typing import NamedTuple, Optional, Union

from . import frame, pcapng
from .input import Window
from .pcapng import BIG, LITTLE, Block

#: Why there is no block, if it is not all there
FILE_ENDS = "the file ends inside a block"
#: Damaged places of a file that are listed. All beyond are counted, as there may be one for every few bytes.
MOST_DAMAGE = 1000

#: How many bytes of what looks like packets are looked at, beside two for each byte that is passed over
_LOOKED_AT = 1 << 20

#: What a section header begins with, of whatever order
_HEADER = pcapng.U32[pcapng.NATIVE].pack(pcapng.SECTION_HEADER)
_ORDERS = {struct.pack(order + "I", pcapng.BYTE_ORDER_MAGIC): order for order in (LITTLE, BIG)}
_MAGIC_AND_VERSION = {struct.pack(order + "I2H", pcapng.BYTE_ORDER_MAGIC, 1, 0) for order in (LITTLE, BIG)}
#: The shortest body of each kind
_LEAST = {
    pcapng.SECTION_HEADER: pcapng.SECTION[LITTLE].size,
    pcapng.INTERFACE_DESCRIPTION: pcapng.INTERFACE[LITTLE].size,
    pcapng.INTERFACE_STATISTICS: pcapng.STATISTICS[LITTLE].size,
    pcapng.ENHANCED_PACKET: pcapng.PACKET[LITTLE].size,
}


class Damage(NamedTuple):
    """Bytes of a file that are of no use: from ``offset``, ``length`` of them, and why."""

    offset: int
    length: int
    reason: str


def block_at(window: Window, order: Optional[str]) -> Union[Block, tuple[str, bool]]:
    """Return the block, or why there is none and whether that is because the file ends."""
    if not window.have(8):
        return FILE_ENDS, True
    if window.data.startswith(_HEADER, window.at):
        if not window.have(12):
            return FILE_ENDS, True
        order = _ORDERS.get(window.data[window.at + 8 : window.at + 12])
        if order is None:
            return "a section header without its magic number", False
    if order is None:
        return "not a pcapng file", False
    kind, length = pcapng.HEAD[order].unpack_from(window.data, window.at)
    if length < pcapng.OVERHEAD or length % 4 or length > pcapng.MAX_LENGTH:
        return f"a block of {length} bytes", False
    if not window.have(length):
        return FILE_ENDS, _is_sane(window, order, kind, length)
    if pcapng.U32[order].unpack_from(window.data, window.at + length - 4)[0] != length:
        return "a block that does not end as it begins", False
    if length < pcapng.OVERHEAD + _LEAST.get(kind, 0):
        return f"a block of kind {kind} with {length} bytes", False
    if kind not in _LEAST and window.data[window.at + 8 : window.at + 16] in _MAGIC_AND_VERSION:
        return f"a section header of kind {kind}", False
    if kind == pcapng.ENHANCED_PACKET:
        end = _end_of_rest(window, order, length)
        if end is None:
            return FILE_ENDS, True
        length = end
    return Block(kind, order, window.offset, window.data[window.at : window.at + length])


def _end_of_rest(window: Window, order: str, length: int) -> Optional[int]:
    """Return where the rest of a packet ends, whose block has ``length`` bytes; None if the file ends before.

    A packet that has none, or of which some tool has left out the rest, ends where its block does.
    """
    _, _, _, captured, original = pcapng.PACKET[order].unpack_from(window.data, window.at + 8)
    rest, end = original - captured, length
    if not 0 < rest <= pcapng.MAX_LENGTH:
        return length
    while rest > 0:
        wanted = pcapng.OVERHEAD + ((min(rest, pcapng.MAX_REST) + 3) & ~3)
        if not window.have(end + 8):
            return None
        if pcapng.HEAD[order].unpack_from(window.data, window.at + end) != (pcapng.REST_OF_PACKET, wanted):
            return length
        if not window.have(end + wanted):
            return None
        end += wanted
        if pcapng.U32[order].unpack_from(window.data, window.at + end - 4)[0] != wanted:
            return length
        rest -= pcapng.MAX_REST
    return end


def _is_sane(window: Window, order: str, kind: int, length: int) -> bool:
    """Return whether a block that is not whole is a packet, and does not look like a wrong length.

    Others are short, so that there may be blocks behind what is in place of them.
    """
    if kind != pcapng.ENHANCED_PACKET:
        return False
    if window.left() < 8 + pcapng.PACKET[order].size:
        return True
    _, _, _, captured, _ = pcapng.PACKET[order].unpack_from(window.data, window.at + 8)
    return bool((captured + 3) & ~3 == length - pcapng.PACKET[order].size - pcapng.OVERHEAD)


def _candidates() -> re.Pattern[bytes]:
    """What may be the beginning of a block that can be trusted, or shows that there was a section header.

    These are a section header, its magic number, and packets of either order.
    """
    # A header whose magic number is damaged is none.
    magic = b"|".join(map(re.escape, _ORDERS))
    found = [re.escape(_HEADER) + b"....(?:" + magic + b")"]
    found += map(re.escape, _MAGIC_AND_VERSION)
    # The length is a multiple of 4, and less than 2**28: most words like the kind are something else.
    fours = b"[" + b"".join(re.escape(bytes([low])) for low in range(0, 256, 4)) + b"]"
    length = [fours, b".", b".", b"[\\0-\\x0f]"]
    for order in (LITTLE, BIG):
        in_order = b"".join(length if order == LITTLE else length[::-1])
        found.append(re.escape(pcapng.U32[order].pack(pcapng.ENHANCED_PACKET)) + in_order)
    return re.compile(b"|".join(found), re.DOTALL)


_CANDIDATES = _candidates()


class Search:
    """Finds the next block that can be trusted: a section header, or a packet that a recorder has made.

    What looks like a packet, and is none, costs what it is long. There may be many of them, one inside the
    other, if a message has such data. So for each byte of the file two at most are looked at, and some
    more; then the search goes on behind what has cost too much. ``begin`` is where reading began.
    """

    def __init__(self, begin: int = 0) -> None:
        self._begin = begin
        self._looked_at = 0

    def go_on(self, window: Window, order: Optional[str]) -> Optional[str]:
        """Go on to that block, or to the end. Return a packet's order, if its section's header is lost.

        It is lost if a section header or the magic number of one is passed over, or if ``order``, that of the
        section, is another or None. Blocks begin at multiples of 4 from here.
        """
        if window.data.startswith(_HEADER, window.at):
            order = None
        while window.have(pcapng.OVERHEAD):
            match = _CANDIDATES.search(window.data, window.at)
            while match and (match.start() - window.at) % 4:
                match = _CANDIDATES.search(window.data, match.start() + 1)
            if not match:
                # The last two words of them may be the beginning of what is looked for.
                window.at += (window.left() - 8) & ~3
                continue
            window.at = match.start()
            if not window.have(pcapng.OVERHEAD):
                break
            if window.data[window.at : window.at + 8] in _MAGIC_AND_VERSION:
                order = None
                window.at += 4
                continue
            found = block_at(window, LITTLE if window.data[window.at] else BIG)
            if not isinstance(found, Block):
                window.at += 4
            elif found.kind == pcapng.SECTION_HEADER:
                return None
            elif has_frame(found):
                return found.order if found.order != order else None
            else:
                self._looked_at += len(found.raw)
                excess = self._looked_at - 2 * (window.offset - self._begin) - _LOOKED_AT
                window.at += max(4, min(len(found.raw), excess & ~3))
        window.at += window.left()
        return None


def has_frame(block: Block) -> bool:
    """Return whether a packet is one of a recorder, and whole."""
    try:
        frame.decode(pcapng.packet_of(block)[2])
    except (ValueError, struct.error):
        return False
    return True


def is_of_another_recording(packet: Block, recording: Optional[int]) -> bool:
    """Return whether a packet belongs to another recording than that of the section; None is any."""
    if recording is None:
        return False
    begin = 8 + pcapng.PACKET[packet.order].size
    said = frame.recording_in(packet.raw[begin : begin + frame.LENGTH])
    return said is not None and said != recording and has_frame(packet)
