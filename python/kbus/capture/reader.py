# SPDX-License-Identifier: MIT
"""Reading captures."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Optional, Union

from .. import Message, names, wire
from ..messages import received
from . import assumed, frame, header, pcapng
from .assumed import Interface
from .blocks import MOST_DAMAGE, Damage, is_of_another_recording, read_blocks
from .gunzip import MaybeGzip
from .pcapng import Block


class CaptureError(ValueError):
    """A capture is damaged, or a file is no capture. The text has the file, the offset and the cause."""


@dataclass(frozen=True)
class Section:
    """What a section's header says: byte order, and ``info``, which is empty if some tool has lost it.

    ``info`` may have the keys device, boot_id, load_id, bus, recorder, bindings, bindings_left_out and
    lost_before, with values of the kinds that the format says.
    """

    order: str
    offset: int
    info: dict[str, Any]
    interfaces: list[Interface] = field(default_factory=list)

    @cached_property
    def buses(self) -> list[int]:
        """The numbers of the devices, in the order of the interfaces; none if they are not known."""
        return assumed.buses_of(self.info)

    @cached_property
    def recording(self) -> Optional[int]:
        """The number by which packets tell that they are of this section; None if no recorder tells it."""
        return header.recording_of(self.info) if "recorder" in self.info else None


#: Sections and statistics that a Reader keeps
MOST_SECTIONS, _MOST_STATISTICS = 1000, 10_000
#: Bytes of what describes the sections that it keeps
_ROOM = 4 << 20
_LATEST = (1 << 64) - 1
#: What is open already, such as a pipe from another program
_DESCRIPTOR = re.compile(r"/dev/(stdin|fd/\d+)|/proc/(self|\d+)/fd/\d+")


class Facts(NamedTuple):
    """What a capture says of a message besides time and content; see also ``Frame``.

    ``offset`` is where the message's block begins, in bytes of the file as it is without gzip.
    """

    sequence: int
    mono_ns: int
    lost: int
    bus: Optional[int]
    offset: int
    section: Section


class Record(NamedTuple):
    """A message, when it was sent (CLOCK_REALTIME, ns), and what else the capture says of it."""

    time_ns: int
    message: Message
    facts: Facts


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


class Reader:
    """The messages of a capture, in the order in which they were recorded.

    ``source`` is a path, or a file that is open for reading bytes; either may be of gzip. A path must be that
    of a regular file, or lead to a pipe of the shell such as ``/dev/stdin``. Whoever gives a file closes it.
    Use it with ``with``, and iterate: each :class:`Record` is read when it is asked for.

    ``strict``: what is damaged raises CaptureError. Otherwise it is passed over, and said in ``damage``, so
    that nothing is left out in silence; what is undamaged after it is found again. ``damage`` has the first
    1000 places, and ``more_damage`` counts those that come after them.

    ``section`` is the section that has been read last. ``sections`` has the first 1000, fewer if their
    headers and descriptions are longer than 4 MiB, and ``more_sections`` counts those that come after them.
    ``latest`` is the last of the recorded statistics, and ``statistics`` has those of ``sections``, the first
    10000. Memory for all of them would be many times the size of a file of gzip.

    Raises OSError if the file can't be read.
    """

    def __init__(self, source: Union[str, os.PathLike[str], BinaryIO], strict: bool = True) -> None:
        self._close = contextlib.ExitStack()
        if isinstance(source, (str, os.PathLike)):
            self.name = str(source)
            file: BinaryIO = self._close.enter_context(open_file(source))
        else:
            self.name = str(getattr(source, "name", "capture"))
            file = source
        self.strict = strict
        self.damage: list[Damage] = []
        self.more_damage = 0
        self.latest: Optional[Statistics] = None
        self.statistics: list[Statistics] = []
        self.section: Optional[Section] = None
        self.sections: list[Section] = []
        self.more_sections = 0
        self._room = _ROOM
        self._blocks = self._read(MaybeGzip(file))

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if this opened it. Can be repeated."""
        self._close.close()

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> Record:
        for _, record in self._blocks:
            if record:
                return record
        raise StopIteration

    def blocks(self) -> Iterator[tuple[Block, Optional[Record]]]:
        """Yield all blocks that are undamaged, with the record of each that has a message."""
        return self._blocks

    def _read(self, file: MaybeGzip) -> Iterator[tuple[Block, Optional[Record]]]:
        for found in read_blocks(file):
            if isinstance(found, Damage):
                self._damaged(found)
                continue
            try:
                record = self._take(found)
            except ValueError as error:
                self._damaged(Damage(found.offset, len(found.raw), str(error)))
                continue
            yield found, record

    def leave_out(self, damage: Damage) -> None:
        """Note in ``damage`` what is of no use to who reads ``blocks``. Raises CaptureError if ``strict``."""
        self._damaged(damage)

    def _damaged(self, damage: Damage) -> None:
        if self.strict:
            raise CaptureError(f"{self.name}: at byte {damage.offset}: {damage.reason}")
        if len(self.damage) < MOST_DAMAGE:
            self.damage.append(damage)
        else:
            self.more_damage += 1

    def _take(self, block: Block) -> Optional[Record]:
        if block.kind == pcapng.SECTION_HEADER:
            self._begin(block).info.update(info_of(block))
            return None
        # No block comes before a section header, or one in place of it.
        assert self.section is not None
        section = self.section
        if block.kind == pcapng.INTERFACE_DESCRIPTION:
            self._room -= len(block.raw)
            self._describe(block, section)
        elif block.kind == pcapng.INTERFACE_STATISTICS:
            self.latest = _statistics(block, section)
            if not self.more_sections and len(self.statistics) < _MOST_STATISTICS:
                self.statistics.append(self.latest)
        elif block.kind == pcapng.ENHANCED_PACKET:
            if is_of_another_recording(block, section.recording):
                self._damaged(Damage(block.offset, 0, assumed.HEADER_IS_LOST))
                section = self._begin(block)
            count = len(section.interfaces)
            if pcapng.interface_of(block) >= count and not self.strict:
                self._assume(assumed.for_packet(block, section.buses, count), block, section)
            return _record(block, section)
        return None

    def _begin(self, block: Block) -> Section:
        """Begin a section with this block."""
        self.section = Section(block.order, block.offset, {})
        if len(self.sections) < MOST_SECTIONS and self._room > 0:
            self.sections.append(self.section)
        else:
            self.more_sections += 1
        if block.kind == pcapng.SECTION_HEADER:
            self._room -= len(block.raw)
        return self.section

    def _describe(self, block: Block, section: Section) -> None:
        missing, interface, wrong = assumed.described(block, section.buses, len(section.interfaces))
        self._assume(missing, block, section)
        section.interfaces.append(interface)
        if wrong:
            raise ValueError(wrong)

    def _assume(self, missing: list[Interface], block: Block, section: Section) -> None:
        """Go on as if these had been described before the block."""
        if missing:
            self._damaged(Damage(block.offset, 0, assumed.reason(len(section.interfaces), missing)))
            section.interfaces.extend(missing)


def open_file(path: Union[str, os.PathLike[str]], flags: int = 0) -> BinaryIO:
    """Open a file to read, with these ``flags`` too, and nothing that may have to be waited for.

    Raises OSError.
    """
    # Without O_NONBLOCK this waits until somebody writes to a FIFO.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        # A link in a directory may lead to a pipe of somebody who never writes.
        may_be_pipe = _DESCRIPTOR.fullmatch(os.fspath(path)) and stat.S_ISFIFO(mode)
        if not (stat.S_ISREG(mode) or may_be_pipe):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb")


def info_of(block: Block) -> dict[str, Any]:
    """Return what the recorder says in a section's header. Raises ValueError if that is damaged."""
    for code, value in pcapng.options_of(block, pcapng.SECTION[block.order].size):
        if code == pcapng.OPT_COMMENT and (info := header.info_in(value)) is not None:
            return info
    return {}


def _nanoseconds(ticks: int, interface: Interface) -> int:
    """Return the time in ns; if 64 bits can't tell it, the latest that they can."""
    return min(ticks * (1_000_000_000 // interface.ticks), _LATEST)


@lru_cache(maxsize=4096)
def check_name(name: str) -> None:
    """Raise ValueError if no message that KBUS has sent can have this name."""
    names.check(name)
    if names.is_wildcard(name):
        raise ValueError(f"a message whose name is the wildcard {name!r}")


def _interface_of(section: Section, index: int) -> Interface:
    if index >= len(section.interfaces):
        raise ValueError(f"interface {index}, which nothing describes")
    return section.interfaces[index]


def _statistics(block: Block, section: Section) -> Statistics:
    index, high, low = pcapng.STATISTICS[block.order].unpack_from(block.body)
    interface = _interface_of(section, index)
    counts = {pcapng.ISB_IFRECV: 0, pcapng.ISB_IFDROP: 0}
    for code, value in pcapng.options_of(block, pcapng.STATISTICS[block.order].size):
        if code in counts and len(value) == 8:
            (counts[code],) = pcapng.U64[block.order].unpack(value)
    time_ns = _nanoseconds(high << 32 | low, interface)
    received, dropped = counts[pcapng.ISB_IFRECV], counts[pcapng.ISB_IFDROP]
    return Statistics(section, index, interface.bus, time_ns, received, dropped)


def _record(block: Block, section: Section) -> Record:
    index, ticks, packet = pcapng.packet_of(block)
    interface = _interface_of(section, index)
    if interface.linktype != pcapng.LINKTYPE_KBUS:
        raise ValueError(f"a packet of link type {interface.linktype}, and KBUS has {pcapng.LINKTYPE_KBUS}")
    order = frame.order_of(packet)
    said, origin, recorded = frame.decode(packet, order)
    message = frame.native(recorded, order)
    wire.check(message)
    check_name(wire.name_of(message))
    facts = Facts(*said, origin.bus if origin else interface.bus, block.offset, section)
    return Record(_nanoseconds(ticks, interface), received(message, 1)[0], facts)
