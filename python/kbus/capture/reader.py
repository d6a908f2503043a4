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
from .blocks import Damage, bus_of, read_blocks
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


#: Values of if_tsresol: those of a recorder, and of tools that know no more than microseconds
_TICKS = {b"\x06": 1_000_000, b"\x09": 1_000_000_000}
_NAME = re.compile("kbus([0-9]{1,9})")
_LATEST = (1 << 64) - 1


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
    that nothing is left out in silence; what is undamaged after it is found again. Recorded statistics are in
    ``statistics``, the sections in ``sections``, as far as has been read.

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
        self.statistics: list[Statistics] = []
        self.sections: list[Section] = []
        self._has_packets = False
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

    def _damaged(self, damage: Damage) -> None:
        if self.strict:
            raise CaptureError(f"{self.name}: at byte {damage.offset}: {damage.reason}")
        self.damage.append(damage)

    def _take(self, block: Block) -> Optional[Record]:
        if block.kind == pcapng.SECTION_HEADER:
            self._begin_section(block)
            self.sections[-1].info.update(info_of(block))
        elif block.kind == pcapng.INTERFACE_DESCRIPTION:
            section = self.sections[-1]
            is_lost = assumed.is_of_another_section(section.buses, len(section.interfaces), bus_of(block))
            if self._has_packets and "recorder" in section.info and is_lost:
                self._begin_section(block)
                self._damaged(Damage(block.offset, 0, assumed.HEADER_IS_LOST))
            self._describe(block, self.sections[-1])
        elif block.kind == pcapng.INTERFACE_STATISTICS:
            self.statistics.append(_statistics(block, self.sections[-1]))
        elif block.kind == pcapng.ENHANCED_PACKET:
            self._has_packets = True
            section, count = self.sections[-1], len(self.sections[-1].interfaces)
            if pcapng.interface_of(block) >= count and not self.strict:
                self._assume(assumed.for_packet(block, section.buses, count), block, section)
            return _record(block, section)
        return None

    def _begin_section(self, block: Block) -> None:
        self.sections.append(Section(block.order, block.offset, {}))
        self._has_packets = False

    def _describe(self, block: Block, section: Section) -> None:
        interfaces = section.interfaces
        assumed.check_room(len(interfaces))
        # If it is damaged, the messages need not be lost with it.
        interfaces.append(assumed.damaged(section.buses, len(interfaces)))
        described = interface_from(block)
        interfaces.pop()
        self._assume(assumed.before(section.buses, len(interfaces), described.bus), block, section)
        interfaces.append(described)

    def _assume(self, missing: list[Interface], block: Block, section: Section) -> None:
        """Go on as if these had been described before the block."""
        for each in missing:
            self._damaged(Damage(block.offset, 0, assumed.reason(len(section.interfaces), each)))
            section.interfaces.append(each)


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
        if not (stat.S_ISREG(mode) or os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:")):
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


def interface_from(block: Block) -> Interface:
    """Return the interface that a block describes. Raises ValueError if that is damaged."""
    linktype, _, _ = pcapng.INTERFACE[block.order].unpack_from(block.body)
    name, ticks = "", _TICKS[b"\x06"]
    for code, value in pcapng.options_of(block, pcapng.INTERFACE[block.order].size):
        if code == pcapng.IF_NAME:
            name = value.decode("utf-8", "backslashreplace")
        elif code == pcapng.IF_TSRESOL:
            if value not in _TICKS:
                raise ValueError(f"an interface with if_tsresol {value[:4].hex()}, and not 06 or 09")
            ticks = _TICKS[value]
    number = _NAME.fullmatch(name)
    if number and linktype != pcapng.LINKTYPE_KBUS:
        raise ValueError(f"{name} with link type {linktype}, and KBUS has {pcapng.LINKTYPE_KBUS}")
    return Interface(name, int(number[1]) if number else None, linktype, ticks)


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
    said, recorded = frame.decode(packet, order)
    message = frame.native(recorded, order)
    wire.check(message)
    check_name(wire.name_of(message))
    facts = Facts(*said, interface.bus, block.offset, section)
    return Record(_nanoseconds(ticks, interface), received(message, 1)[0], facts)
