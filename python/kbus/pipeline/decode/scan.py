# SPDX-License-Identifier: MIT
"""Reading a capture in pieces of bounded size: runs of packets, and what is between them."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import BinaryIO, NamedTuple, Optional, Union

import numpy as np
from numpy.typing import NDArray

from kbus.capture import pcapng, sections
from kbus.capture.blocks import Damage
from kbus.capture.input import MaybeGzip, Window
from kbus.capture.pcapng import Block
from kbus.capture.sections import Blocks

from .beginning import Beginning
from .parse import recordings
from .paths import is_gzip
from .sections import SectionHead, section
from .walk import Packets, Run

#: Bytes that are looked at together. A longer block is looked at alone.
PIECE = 2 << 20
#: Bytes in which packets are looked for together, behind one that only Blocks can place; more each time
_LEAST_ROOM = 1 << 12
#: The damage that it is when a file lacks what a range of it is to have
SHORTER = "the file is shorter than when it was looked at"


class Piece(NamedTuple):
    """Packets of one section that follow on one another.

    ``data`` begins at ``offset`` of the file; ``words`` are the same in the byte order of the section.
    """

    data: bytes
    words: NDArray[np.uint32]
    offset: int
    run: Run
    section: SectionHead


class Counts(NamedTuple):
    """What the recorder says of a section: messages of one interface that it wrote, and that it lost."""

    received: int
    dropped: int


class End(NamedTuple):
    """Where reading ended: behind the last whole block, or behind all if the rest is damage."""

    offset: int
    section: Optional[SectionHead]


Found = Union[Piece, Damage, Counts, End]


class Range(NamedTuple):
    """Part of a file that can be scanned alone.

    Its first byte, the one after its last (None: as far as there is), the section that it begins in, and how
    the file must begin (None: that is not known).
    """

    begin: int
    end: Optional[int]
    section: Optional[SectionHead]
    begins: Optional[Beginning] = None


class Outline(NamedTuple):
    """A file: ``capture`` of its sections, ranges that can be read apart, and the first section's device.

    The last range is open.
    """

    captures: list[str]
    ranges: list[Range]
    device: str


def outline(file: BinaryIO, size: Optional[int]) -> Outline:
    """Return what a file consists of, in ranges of about ``size`` bytes, or one range. It is all read for
    that.

    A file that has a section several times is one range, so that one task sees all of them.
    """
    captures: dict[str, int] = {}
    is_repeated = False
    ranges = []
    begin, known = 0, None
    first: Optional[SectionHead] = None
    for found in scan(file):
        if isinstance(found, (Piece, End)):
            first = first or found.section
        if not isinstance(found, Piece):
            continue
        is_repeated |= captures.setdefault(found.section.capture, found.section.begin) != found.section.begin
        ends = found.run.ends * 4 + found.offset
        while size is not None and ends[-1] - begin >= size:
            end = int(ends[np.searchsorted(ends, begin + size)])
            ranges.append(Range(begin, end, known))
            begin, known = end, found.section
    if is_repeated:
        ranges, begin, known = [], 0, None
    return Outline(list(captures), [*ranges, Range(begin, None, known)], first.device if first else "")


def scan(
    file: BinaryIO,
    begin: int = 0,
    end: Optional[int] = None,
    known: Optional[SectionHead] = None,
    may_grow: bool = False,
) -> Iterator[Found]:
    """Yield what begins in a file from ``begin`` on and before ``end``, if that is given, and an ``End``.

    A block must begin at ``begin``, and ``known`` be the section there. ``file`` must be seekable. ``end``
    counts bytes as they are without gzip. If the file ``may_grow``, what is not whole at its end is no
    damage, but left for later. Raises ValueError for gzip that is not to be read from its beginning.
    """
    size = file.seek(0, os.SEEK_END)
    is_zipped = is_gzip(file)
    if begin and is_zipped:
        raise ValueError(f"gzip can not be read from byte {begin} on")
    file.seek(begin)
    window = Window(MaybeGzip(file) if is_zipped else file, begin, PIECE)
    blocks = Blocks(window, known.known() if known else None, may_grow)
    now, room = known, PIECE
    order, data = "", b""
    while not blocks.is_between or end is None or window.offset < end:
        if now and blocks.is_between:
            if data is not window.data or order != now.order:
                order, data = now.order, window.data
                words = _words(data, order)
                packets = Packets(words)
            limit = window.at + room
            run = packets.run(window.at // 4, limit if end is None else min(limit, end - window.base))
            count = _usual(words, run, now)
            if count:
                run = Run(run.begins[:count], run.ends[:count])
                now = now.with_packet(data, int(run.begins[0]) * 4, int(run.ends[0]) * 4)
                yield Piece(data, words, window.base, run, now)
                window.at = int(run.ends[-1]) * 4
                room = min(4 * room, PIECE)
                continue
            if len(run.begins):
                # There may be many like this one: the others are not to be looked at again for each.
                room = _LEAST_ROOM
            elif _is_more(window, now.order):
                continue
        offset = window.offset
        found = next(blocks, None)
        if found is None:
            break
        if isinstance(found, Damage):
            yield found
            continue
        try:
            now = yield from _take(found, now, blocks.section)
        except ValueError as error:
            yield Damage(found.offset, len(found.raw), str(error))
    else:
        offset = window.offset
    if not may_grow and (begin > size or window.offset < (end or 0)):
        yield Damage(window.offset, (end or begin) - window.offset, SHORTER)
    yield End(offset, now)


def scan_part(file: BinaryIO, part: Range) -> Iterator[Found]:
    """Yield what begins in a part of a file, see ``scan``.

    Gzip, as the file may be by now, is read from its beginning, and what is before the part is left out.
    """
    if not part.begin or not is_gzip(file):
        yield from scan(file, *part[:3])
        return
    for found in scan(file, 0, part.end):
        if isinstance(found, Piece):
            begins, ends = found.run
            is_in = begins * 4 + found.offset >= part.begin
            if is_in.any():
                yield found._replace(run=Run(begins[is_in], ends[is_in]))
        elif not isinstance(found, Damage) or found.offset >= part.begin:
            yield found


def _is_more(window: Window, order: str) -> bool:
    """Return whether a block's end has been read that had not been: packets need not be taken one by one."""
    left = window.left()
    length = pcapng.HEAD[order].unpack_from(window.data, window.at)[1] if left >= 8 else 8
    return left < length <= pcapng.MAX_LENGTH and window.have(length)


def _usual(words: NDArray[np.uint32], run: Run, now: SectionHead) -> int:
    """Return how many packets of a run there are before one that nobody but ``Blocks`` can place."""
    is_odd = words[run.begins + 2] >= len(now.interfaces)
    if now.recording is not None:
        said = recordings(words, run, now.order)
        is_odd |= (said >= 0) & (said != now.recording)
    odd = np.flatnonzero(is_odd)
    return int(odd[0]) if len(odd) else len(run.begins)


def _take(
    block: Block, now: Optional[SectionHead], said: Optional[sections.Section]
) -> Generator[Found, None, Optional[SectionHead]]:
    """Yield what a block is, and return the section behind it, of which ``said`` tells what its header says.

    Raises ValueError if the block is damaged.
    """
    # No block comes before a section header, or one in place of it.
    assert said is not None
    if block.kind == pcapng.SECTION_HEADER or now is None:
        return section(block, said)
    if block.kind == pcapng.INTERFACE_DESCRIPTION:
        return now.with_interface(said.interfaces[len(now.interfaces)])
    if block.kind == pcapng.INTERFACE_STATISTICS:
        yield Counts(*sections.statistics_of(block, said)[-2:])
    elif block.kind == pcapng.ENHANCED_PACKET:
        # It may be longer than a packet: then its rest is joined to it.
        data = pcapng.joined(block)
        words = _words(data, block.order)
        now = now.with_packet(block.raw)
        yield Piece(data, words, block.offset, Run(np.array([0]), np.array([len(words)])), now)
    return now


def _words(data: bytes, order: str) -> NDArray[np.uint32]:
    return np.frombuffer(data, np.dtype(f"{order}u4"), len(data) // 4)
