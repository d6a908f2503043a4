# SPDX-License-Identifier: MIT
"""Reading a capture in pieces of bounded size: runs of packets, and what is between them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator, Iterator
from typing import BinaryIO, NamedTuple, Optional, Protocol, Union

import numpy as np
from numpy.typing import NDArray

from kbus.capture import assumed, pcapng, reader
from kbus.capture.blocks import (
    Damage,
    Search,
    block_at,
    header_in_place,
    is_header,
    is_header_lost,
    is_of_another_recording,
)
from kbus.capture.gunzip import MaybeGzip
from kbus.capture.pcapng import Block

from .parse import recordings
from .paths import is_gzip
from .sections import Section, section
from .walk import Packets, Run

#: Bytes that are looked at together. A longer block is looked at alone.
PIECE = 2 << 20
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
    section: Section


class Counts(NamedTuple):
    """What the recorder says of a section: messages of one interface that it wrote, and that it lost."""

    received: int
    dropped: int


class End(NamedTuple):
    """Where reading ended: behind the last whole block, or behind all if the rest is damage."""

    offset: int
    section: Optional[Section]


Found = Union[Piece, Damage, Counts, End]


class _MoreNeeded(Exception):
    """What is to be looked at is longer than what has been read."""


class Range(NamedTuple):
    """Part of a file that can be scanned alone.

    Its first byte, the one after its last (None: as far as there is), and the section that it begins in.
    """

    begin: int
    end: Optional[int]
    section: Optional[Section]


class _Readable(Protocol):
    """Bytes, one after the other: ``read`` returns none only at the end."""

    def read(self, count: int, /) -> bytes:
        """Return up to ``count`` bytes."""


class _Window:
    """What has been read of a file and not been dealt with. Reading goes beyond ``end`` only if it must."""

    def __init__(self, file: _Readable, begin: int, end: Optional[int]) -> None:
        self._file = file
        self._end = end
        self.data = b""
        self.at = 0
        self.base = begin
        self.error: Optional[str] = None
        self.is_all = False

    @property
    def offset(self) -> int:
        """Where ``at`` is in the file."""
        return self.base + self.at

    def have(self, count: int) -> bool:
        """Return whether there are ``count`` more bytes in the file."""
        if self.left() >= count:
            return True
        if self.is_all:
            return False
        raise _MoreNeeded

    def left(self) -> int:
        """Return how many bytes of what has been read are left."""
        return len(self.data) - self.at

    def more(self) -> None:
        """Forget what is behind, and read on: a piece, or as much again as is left."""
        wanted = max(PIECE, self.left())
        if self._end is not None and self.base + len(self.data) < self._end:
            wanted = min(wanted, self._end - self.base - len(self.data))
        parts = [self.data[self.at :]]
        while wanted and not self.is_all:
            try:
                part = self._file.read(wanted)
            except (EOFError, zlib.error) as error:
                part, self.error = b"", str(error)
            parts.append(part)
            wanted -= len(part)
            self.is_all = not part
        self.base += self.at
        self.at = 0
        self.data = b"".join(parts)


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
    first: Optional[Section] = None
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
    known: Optional[Section] = None,
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
    window = _Window(MaybeGzip(file) if is_zipped else file, begin, end)
    search = Search(begin)
    sections = _Sections(known)
    damage: Optional[_Damaged] = None
    order = known.order if known else pcapng.NATIVE
    packets: Optional[Packets] = None
    words = np.empty(0, np.uint32)
    while damage or end is None or window.offset < end:
        try:
            if packets is None:
                words = _words(window.data, order)
                packets = Packets(words)
            if damage is None:
                run = packets.run(window.at // 4, None if end is None else end - window.base)
                if sections.now and len(run.begins):
                    yield from sections.take_run(Piece(window.data, words, window.base, run, sections.now))
                    window.at = int(run.ends[-1]) * 4
                    continue
                if not window.have(1):
                    break
                found = block_at(window, sections.order)
                if isinstance(found, Block):
                    yield from sections.take(found)
                    if found.kind == pcapng.SECTION_HEADER and found.order != order:
                        order, packets = found.order, None
                    window.at += len(found.raw)
                    continue
                reason, is_torn = found
                if is_torn:
                    if not may_grow or window.error:
                        yield Damage(window.offset, window.left(), window.error or reason)
                        window.at, window.error = len(window.data), None
                    break
                damage = _Damaged(window.offset, reason)
                search.header_is_lost = is_header_lost(window, sections.order)
            next_order = search.go_on(window, sections.order)
            if may_grow and not window.left():
                # What follows may yet show that this is less.
                window.at = damage.offset - window.base
                break
            yield Damage(damage.offset, window.offset - damage.offset, damage.reason)
            if search.header_is_lost and next_order and not is_header(window):
                yield from sections.take(header_in_place(next_order, damage.offset))
                if next_order != order:
                    order, packets = next_order, None
            damage = None
        except _MoreNeeded:
            window.more()
            packets = None
    if window.error and not window.left() and not may_grow:
        yield Damage(window.offset, 0, window.error)
    if not may_grow and (begin > size or window.offset < (end or 0)):
        yield Damage(window.offset, (end or begin) - window.offset, SHORTER)
    yield End(window.offset, sections.now)


def scan_part(file: BinaryIO, part: Range) -> Iterator[Found]:
    """Yield what begins in a part of a file, see ``scan``.

    Gzip, as the file may be by now, is read from its beginning, and what is before the part is left out.
    """
    if not part.begin or not is_gzip(file):
        yield from scan(file, *part)
        return
    for found in scan(file, 0, part.end):
        if isinstance(found, Piece):
            begins, ends = found.run
            is_in = begins * 4 + found.offset >= part.begin
            if is_in.any():
                yield found._replace(run=Run(begins[is_in], ends[is_in]))
        elif not isinstance(found, Damage) or found.offset >= part.begin:
            yield found


class _Damaged(NamedTuple):
    """Where damage begins, and why."""

    offset: int
    reason: str


class _Sections:
    """The section that reading has come to, ``now``, and what is found in it."""

    def __init__(self, known: Optional[Section]) -> None:
        self.now = known

    @property
    def order(self) -> Optional[str]:
        """The byte order of the section; None if there is none."""
        return self.now.order if self.now else None

    def take(self, block: Block) -> Iterator[Found]:
        """Yield what a block is. If it has no section, it is nothing."""
        try:
            if block.kind == pcapng.SECTION_HEADER:
                self.now = section(block, {})
                self.now = section(block, reader.info_of(block))
            elif self.now and block.kind == pcapng.INTERFACE_DESCRIPTION:
                yield from self._describe(block, self.now)
            elif self.now and block.kind == pcapng.INTERFACE_STATISTICS:
                yield _counts(block, self.now)
            elif self.now and block.kind == pcapng.ENHANCED_PACKET:
                # It is longer than a packet, and its rest is joined to it.
                data = pcapng.joined(block)
                words = _words(data, block.order)
                run = Run(np.array([0]), np.array([len(words)]))
                yield from self.take_run(Piece(data, words, block.offset, run, self.now), block.raw)
        except ValueError as error:
            yield Damage(block.offset, len(block.raw), str(error))

    def take_run(self, piece: Piece, first: bytes = b"") -> Iterator[Found]:
        """Yield packets of this section, and of another one if a header before one of them is damaged.

        ``first`` is the first one, if it is another in the file.
        """
        begins, ends = piece.run
        count = _of_recording(piece)
        if count:
            own = piece._replace(run=Run(begins[:count], ends[:count]))
            yield from self._take_own(own, first)
        if count < len(begins):
            block = _packet(piece, count)
            yield Damage(block.offset, 0, assumed.HEADER_IS_LOST)
            other = section(header_in_place(block.order, block.offset), {})
            run = Run(begins[count:], ends[count:])
            yield from self._take_own(piece._replace(run=run, section=other), first)

    def _take_own(self, piece: Piece, first: bytes) -> Iterator[Found]:
        now = piece.section
        done = 0
        for at in np.flatnonzero(piece.words[piece.run.begins + 2] >= len(now.interfaces)).tolist():
            block = _packet(piece, at)
            missing = assumed.for_packet(block, now.buses, len(now.interfaces))
            if missing and done < at:
                # Who begins there does not know yet what is missing, and is to be told.
                now = yield from self._give(piece, slice(done, at), now, first)
                done = at
            now = yield from self._assume(missing, block, now)
        yield from self._give(piece, slice(done, None), now, first)

    def _give(self, piece: Piece, part: slice, now: Section, first: bytes) -> Generator[Found, None, Section]:
        """Yield packets of a piece, and return the section as it is behind them."""
        if not now.capture:
            now = now.with_first_packet(first or _packet(piece, 0).raw)
        self.now = now
        run = Run(piece.run.begins[part], piece.run.ends[part])
        yield piece._replace(run=run, section=now)
        return now

    def _describe(self, block: Block, now: Section) -> Iterator[Found]:
        missing, interface, wrong = assumed.described(block, now.buses, len(now.interfaces))
        now = yield from self._assume(missing, block, now)
        self.now = now.with_interfaces([interface])
        if wrong:
            raise ValueError(wrong)

    def _assume(
        self, missing: list[assumed.Interface], block: Block, now: Section
    ) -> Generator[Found, None, Section]:
        """Go on as if these had been described before the block: return the section that has them."""
        if missing:
            yield Damage(block.offset, 0, assumed.reason(len(now.interfaces), missing))
        return now.with_interfaces(missing)


def _packet(piece: Piece, at: int) -> Block:
    """Return one of the packets of a piece."""
    begin, end = int(piece.run.begins[at]) * 4, int(piece.run.ends[at]) * 4
    return Block(pcapng.ENHANCED_PACKET, piece.section.order, piece.offset + begin, piece.data[begin:end])


def _of_recording(piece: Piece) -> int:
    """Return how many packets of a piece there are before the first one of another recording."""
    own = piece.section.recording
    if own is not None:
        said = recordings(piece.words, piece.run, piece.section.order)
        for at in np.flatnonzero((said >= 0) & (said != own)).tolist():
            if is_of_another_recording(_packet(piece, at), own):
                return int(at)
    return len(piece.run.begins)


def _words(data: bytes, order: str) -> NDArray[np.uint32]:
    return np.frombuffer(data, np.dtype(f"{order}u4"), len(data) // 4)


def _counts(block: Block, section: Section) -> Counts:
    """Raise ValueError if the block is damaged."""
    index, _, _ = pcapng.STATISTICS[block.order].unpack_from(block.body)
    if index >= len(section.interfaces):
        raise ValueError(f"interface {index}, which nothing describes")
    counts = {pcapng.ISB_IFRECV: 0, pcapng.ISB_IFDROP: 0}
    for code, value in pcapng.options_of(block, pcapng.STATISTICS[block.order].size):
        if code in counts and len(value) == 8:
            (counts[code],) = pcapng.U64[block.order].unpack(value)
    return Counts(counts[pcapng.ISB_IFRECV], counts[pcapng.ISB_IFDROP])
