# SPDX-License-Identifier: MIT
"""The blocks of a capture in their sections, and in place of what damage has taken what is assumed.

This is the one way in which captures are read: ``Reader``, ``recover`` and the data pipeline stand on it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Optional, Union

from . import header, pcapng
from .blocks import (
    FILE_ENDS,
    Damage,
    Search,
    block_at,
    has_frame,
    is_of_another_recording,
)
from .input import Window
from .pcapng import Block

#: Devices of a machine, as the module has no more. A section's header with more has none, and of no
#: more interfaces the description may be missing.
MOST_DEVICES = 256
#: Interfaces of a section, which tools may have put together. The description of another one is damage.
MOST_INTERFACES = 4096
#: Said of a file in which there is nothing
EMPTY = "it is empty"
_PCAP = (
    "it is a pcap file of the old format: `editcap -F pcapng OLD.pcap NEW.pcapng` makes a capture of it if"
    " its packets are those of KBUS"
)
#: What a file is that begins like this. If there is a capture inside, this is not the way to read it.
_FOREIGN = {
    # Of both byte orders, with times in microseconds and in nanoseconds
    b"\xa1\xb2\xc3\xd4": _PCAP,
    b"\xd4\xc3\xb2\xa1": _PCAP,
    b"\xa1\xb2\x3c\x4d": _PCAP,
    b"\x4d\x3c\xb2\xa1": _PCAP,
    b"\x28\xb5\x2f\xfd": "it is compressed with zstd: `zstd -d` makes it readable",
    b"\xfd7zXZ\0": "it is compressed with xz: `xz -d` makes it readable",
    b"BZh": "it is compressed with bzip2: `bunzip2` makes it readable",
    b"PK\x03\x04": "it is a zip archive: `unzip` makes readable what is in it",
}
#: Said of what is no capture
NO_CAPTURE = frozenset([EMPTY, *_FOREIGN.values()])
#: Said of the first packet behind a section header that is damaged
HEADER_IS_LOST = "a packet of another recording: the section header before it is damaged"
#: Said of the first block of an interface whose description is missing
NOT_DESCRIBED = "descriptions of interfaces are missing: times are taken for ns"
#: Values of if_tsresol: those of a recorder, and of tools that know no more than microseconds
_TICKS = {b"\x06": 1_000_000, b"\x09": 1_000_000_000}
_NANO = _TICKS[b"\x09"]
_LATEST = (1 << 64) - 1
#: Bytes of an interface's name that are kept; a device of KBUS's has far fewer.
_MOST_NAME = 64
_NAME = re.compile("kbus([0-9]{1,9})")


class Interface(NamedTuple):
    """A KBUS device of a section: its name there, its number if that has one, units of time a second."""

    name: str
    bus: Optional[int]
    ticks: int

    def time_ns(self, ticks: int) -> int:
        """Return the time in ns; if 64 bits can't hold it, the latest that they can."""
        return min(ticks * (_NANO // self.ticks), _LATEST)


#: What nothing describes, and no header has
_UNKNOWN = Interface("", None, _NANO)


@dataclass(frozen=True)
class Section:
    """What a section's header says: byte order, and ``info``, which is empty if some tool has lost it.

    ``info`` may have the keys device, boot_id, load_id, bus, recorder, bindings and lost_before, with values
    of the kinds that the format says. ``buses`` are the numbers of the devices in the order of the
    interfaces, none if they are not known; those of ``interfaces`` have been read. ``recording`` is the
    number that packets of this section have; None if no recorder wrote it.
    """

    order: str
    offset: int
    info: dict[str, Any]
    interfaces: list[Interface] = field(default_factory=list)
    buses: list[int] = field(default_factory=list)
    recording: Optional[int] = None

    def interface(self, index: int) -> Interface:
        """Return one of the interfaces. Raises ValueError if there are not so many."""
        if index >= len(self.interfaces):
            raise ValueError(f"interface {index}, which nothing describes")
        return self.interfaces[index]


class Statistics(NamedTuple):
    """How many messages of a device a recorder says it has written to a section, and how many were lost.

    ``interface`` is the device's index in ``section.interfaces``.
    """

    section: Section
    interface: int
    bus: Optional[int]
    time_ns: int
    received: int
    dropped: int


class Blocks:
    """Iterates over the blocks of a capture, and the ``Damage`` between them.

    ``section`` is the one that the last block is of. ``known`` is that in which reading begins. If the file
    ``may_grow``, what is not whole at its end is no damage, but left for later.

    Where a section's header is damaged, or an interface's description, a block that is made anew comes in its
    place, after the ``Damage``; ``recover`` has nothing to add to that. A header made anew says nothing. What
    is no block is passed over up to the next that can be trusted: a section's header, or a whole packet. A
    file that ends inside a packet has no more blocks: its last bytes are the data of a message,
    whatever they look like.
    """

    def __init__(self, window: Window, known: Optional[Section] = None, may_grow: bool = False) -> None:
        self.section = known
        self._window = window
        self._may_grow = may_grow
        self._search = Search(window.offset)
        self._next: deque[Union[Block, Damage]] = deque()
        if known is None and not may_grow and not window.have(1) and window.error is None:
            self._next.append(Damage(0, 0, EMPTY))

    def __iter__(self) -> Iterator[Union[Block, Damage]]:
        return self

    def __next__(self) -> Union[Block, Damage]:
        if not self._next:
            found = block_at(self._window, self.section.order if self.section else None)
            if isinstance(found, Block):
                self._window.at += len(found.raw)
                self._take(found)
            else:
                self._pass_over(*found)
        return self._next.popleft()

    @property
    def is_between(self) -> bool:
        """Whether what comes next is what the window has next, and has not been looked at."""
        return not self._next

    def _pass_over(self, reason: str, is_torn: bool) -> None:
        """Go on to the next block that can be trusted. Raises StopIteration at the end."""
        window, lost = self._window, None
        begin, order = window.offset, self.section.order if self.section else None
        if not window.left() and window.error is None:
            raise StopIteration
        foreign = (what for magic, what in _FOREIGN.items() if window.data.startswith(magic))
        if not (begin or order or self._may_grow) and (what := next(foreign, None)):
            reason, is_torn = what, True
            while window.have(1):
                window.at += window.left()
        if is_torn:
            window.at += window.left()
        else:
            lost = self._search.go_on(window, order)
        if self._may_grow and not window.left() and window.error is None:
            # What follows may yet show that this is less.
            raise StopIteration
        if reason == FILE_ENDS and not window.left() and window.error is not None:
            reason = window.error
            window.error = None
        self._next.append(Damage(begin, window.offset - begin, reason))
        if lost:
            self._begin(lost, begin)

    def _take(self, block: Block) -> None:
        if block.kind == pcapng.SECTION_HEADER:
            try:
                self.section = _section_of(block)
            except ValueError as error:
                self._next.append(Damage(block.offset, len(block.raw), str(error)))
                self._begin(block.order, block.offset)
            else:
                self._next.append(block)
            return
        # No block comes before a section header, or one in place of it.
        assert self.section is not None
        if block.kind == pcapng.INTERFACE_DESCRIPTION:
            self._describe(block, self.section)
            return
        is_packet = block.kind == pcapng.ENHANCED_PACKET
        if is_packet and is_of_another_recording(block, self.section.recording):
            self._next.append(Damage(block.offset, 0, HEADER_IS_LOST))
            self._begin(block.order, block.offset)
        if is_packet or block.kind == pcapng.INTERFACE_STATISTICS:
            self._assume(block, self.section)
        elif has_frame(block):
            self._next.append(Damage(block.offset, len(block.raw), f"a packet of kind {block.kind}"))
            return
        self._next.append(block)

    def _begin(self, order: str, offset: int) -> None:
        """Begin a section of which nothing is known, with a header that says so."""
        self.section = Section(order, offset, {})
        raw = pcapng.section_header(order, "its header was damaged")
        self._next.append(Block(pcapng.SECTION_HEADER, order, offset, raw))

    def _describe(self, block: Block, section: Section) -> None:
        if len(section.interfaces) >= MOST_INTERFACES:
            reason = f"more than {MOST_INTERFACES} interfaces in a section"
            self._next.append(Damage(block.offset, len(block.raw), reason))
            return
        try:
            interface = _interface_from(block, _told(section))
        except ValueError as error:
            self._next += Damage(block.offset, len(block.raw), str(error)), _made(section, block.offset)
        else:
            section.interfaces.append(interface)
            self._next.append(block)

    def _assume(self, block: Block, section: Section) -> None:
        """Make the descriptions that should be before a block, if it is of an interface that there can be."""
        index, count = pcapng.interface_of(block), len(section.interfaces)
        if not count <= index < (len(section.buses) or MOST_DEVICES):
            return
        # Else what follows may describe the interface.
        if section.buses or (block.kind == pcapng.ENHANCED_PACKET and has_frame(block)):
            self._next.append(Damage(block.offset, 0, NOT_DESCRIBED))
            self._next += (_made(section, block.offset) for _ in range(count, index + 1))


def _made(section: Section, offset: int) -> Block:
    """Return a description of the section's next interface, where there is none."""
    interface = _told(section) or _UNKNOWN
    section.interfaces.append(interface)
    raw = pcapng.interface_description(section.order, interface.name)
    return Block(pcapng.INTERFACE_DESCRIPTION, section.order, offset, raw)


def _section_of(block: Block) -> Section:
    """Return the section that a header begins. Raises ValueError if that is damaged."""
    options = pcapng.options_of(block, pcapng.SECTION[block.order].size)
    comments = (value for code, value in options if code == pcapng.OPT_COMMENT)
    info = next(filter(None, map(header.info_in, comments)), None)
    if info is None:
        return Section(block.order, block.offset, {})
    recording = header.recording_of(info)
    buses = info.get("bus", [])
    buses = buses if isinstance(buses, list) else [buses]
    if len(buses) > MOST_DEVICES:
        # A list that is not believed may be long, and there may be many sections.
        del info["bus"]
        buses = []
    return Section(block.order, block.offset, info, [], buses, recording)


def statistics_of(block: Block, section: Section) -> Statistics:
    """Return what a block of statistics says. Raises ValueError if it is damaged, or of no interface."""
    index, high, low = pcapng.STATISTICS[block.order].unpack_from(block.body)
    interface = section.interface(index)
    options = dict(pcapng.options_of(block, pcapng.STATISTICS[block.order].size))
    said = (options.get(code, b"") for code in (pcapng.ISB_IFRECV, pcapng.ISB_IFDROP))
    counts = (pcapng.U64[block.order].unpack(each)[0] if len(each) == 8 else 0 for each in said)
    return Statistics(section, index, interface.bus, interface.time_ns(high << 32 | low), *counts)


def _told(section: Section) -> Optional[Interface]:
    """Return the section's next interface, if its header has it."""
    count = len(section.interfaces)
    return _interface_of(section.buses[count]) if count < len(section.buses) else None


# There may be hundreds of them in each section, and there is memory for one.
@lru_cache(maxsize=MOST_INTERFACES)
def _interface_of(bus: int) -> Interface:
    return Interface(f"kbus{bus}", bus, _NANO)


def _interface_from(block: Block, told: Optional[Interface]) -> Interface:
    """Return the interface that a block describes. Raises ValueError if that is damaged.

    It is damaged, too, if it is not what the header has ``told``.
    """
    options = dict(pcapng.options_of(block, pcapng.INTERFACE[block.order].size))
    tsresol = options.get(pcapng.IF_TSRESOL, b"\x06")
    if tsresol not in _TICKS:
        raise ValueError(f"an interface with if_tsresol {tsresol[:4].hex()}, and not 06 or 09")
    name = options.get(pcapng.IF_NAME, b"")[:_MOST_NAME].decode("utf-8", "backslashreplace")
    number = _NAME.fullmatch(name)
    interface = Interface(name, int(number[1]) if number else None, _TICKS[tsresol])
    if told and interface != told:
        raise ValueError(f"an interface {name}, which is not {told.name} with times in ns")
    return told or interface
