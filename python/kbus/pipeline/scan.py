# SPDX-License-Identifier: MIT
"""Reading a capture in pieces of bounded size: runs of packets, and what is between them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Optional, Union

import numpy as np
from numpy.typing import NDArray

from kbus.capture import pcapng, reader
from kbus.capture.blocks import Damage, Search, block_at
from kbus.capture.gunzip import MaybeGzip
from kbus.capture.pcapng import Block

from .sections import Section, section
from .walk import Packets, Run

#: Bytes that are looked at together. A longer block is looked at alone.
PIECE = 2 << 20


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


class _Window:
    """What has been read of a file and not been dealt with. Reading goes beyond ``end`` only if it must."""

    def __init__(self, file: MaybeGzip, begin: int, end: Optional[int]) -> None:
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
    """A file: ``capture`` of its sections, and ranges that can be read apart. The last one is open."""

    captures: list[str]
    ranges: list[Range]


def outline(file: BinaryIO, size: Optional[int]) -> Outline:
    """Return what a file consists of, in ranges of about ``size`` bytes, or one range. It is all read for
    that.
    """
    captures: list[str] = []
    ranges = []
    begin, known = 0, None
    for found in scan(file):
        if not isinstance(found, Piece):
            continue
        if found.section.capture not in captures:
            captures.append(found.section.capture)
        ends = found.run.ends * 4 + found.offset
        while size is not None and ends[-1] - begin >= size:
            end = int(ends[np.searchsorted(ends, begin + size)])
            ranges.append(Range(begin, end, known))
            begin, known = end, found.section
    return Outline(captures, [*ranges, Range(begin, None, known)])


def scan(
    file: BinaryIO,
    begin: int = 0,
    end: Optional[int] = None,
    known: Optional[Section] = None,
    may_grow: bool = False,
) -> Iterator[Found]:
    """Yield what begins in a file from ``begin`` on and before ``end``, if that is given, and an ``End``.

    ``file`` stands at ``begin``, which must be where a block begins, and ``known`` be the section there.
    ``end`` counts bytes as they are without gzip. If the file ``may_grow``, what is not whole at its end is
    no damage, but left for later.
    """
    window = _Window(MaybeGzip(file), begin, end)
    search = Search(begin)
    section_now = known
    damage: Optional[tuple[int, str]] = None
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
                if section_now and len(run.begins):
                    first = slice(int(run.begins[0]) * 4, int(run.ends[0]) * 4)
                    section_now = _named(section_now, window.data[first])
                    yield Piece(window.data, words, window.base, run, section_now)
                    window.at = int(run.ends[-1]) * 4
                    continue
                if not window.have(1):
                    break
                found = block_at(window, section_now.order if section_now else None)
                if isinstance(found, Block):
                    try:
                        if found.kind == pcapng.SECTION_HEADER:
                            section_now = section(found, {})
                            section_now = section(found, reader.info_of(found))
                        elif section_now and found.kind == pcapng.INTERFACE_DESCRIPTION:
                            without, section_now = section_now, section_now.with_interface(reader.RECORDED)
                            section_now = without.with_interface(reader.interface_from(found))
                        elif section_now and found.kind == pcapng.INTERFACE_STATISTICS:
                            yield _counts(found, section_now)
                        elif section_now and found.kind == pcapng.ENHANCED_PACKET:
                            section_now = _named(section_now, found.raw)
                            yield _alone(found, section_now)
                    except ValueError as error:
                        yield Damage(found.offset, len(found.raw), str(error))
                    if found.kind == pcapng.SECTION_HEADER and found.order != order:
                        order, packets = found.order, None
                    window.at += len(found.raw)
                    continue
                reason, is_torn = found
                if is_torn:
                    if not may_grow or window.error:
                        yield Damage(window.offset, window.left(), window.error or reason)
                        window.at = len(window.data)
                    break
                damage = window.offset, reason
                window.at += min(4, window.left())
            search.go_on(window, section_now.order if section_now else None)
            if may_grow and not window.left():
                # What follows may yet show that this is less.
                window.at = damage[0] - window.base
                break
            yield Damage(damage[0], window.offset - damage[0], damage[1])
            damage = None
        except _MoreNeeded:
            window.more()
            packets = None
    if window.error and not window.left() and not may_grow:
        yield Damage(window.offset, 0, window.error)
    yield End(window.offset, section_now)


def _named(section: Section, packet: bytes) -> Section:
    return section if section.capture else section.with_first_packet(packet)


def _alone(found: Block, section: Section) -> Piece:
    """Return a packet, and its rest joined to it, as a piece. Raises ValueError if that is missing."""
    data = pcapng.joined(found)
    words = _words(data, found.order)
    return Piece(data, words, found.offset, Run(np.array([0]), np.array([len(words)])), section)


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
