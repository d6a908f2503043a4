# SPDX-License-Identifier: MIT
"""Making a whole capture of a damaged one."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NamedTuple, Optional

from . import pcapng
from .blocks import Damage
from .losses import Losses
from .part import PartFile, is_being_written
from .pcapng import Block
from .reader import CaptureError, Reader, Record, Section

#: Bytes that are made anew, at most: so many, and twice what has been read of the file
_MADE, _MADE_FOR_EACH = 1 << 20, 2
#: Said of a block that would need more
_TOO_MUCH = "more descriptions of interfaces would have to be made anew than a damaged capture can lack"
#: FILE.part may be what is recovered.
RECOVERING = ".recovering"
_OF_INTERFACES = (pcapng.INTERFACE_DESCRIPTION, pcapng.INTERFACE_STATISTICS, pcapng.ENHANCED_PACKET)
#: The lengths of what is made; a description is longer by the digits of the number
_LEAST_DESCRIPTION = len(pcapng.interface_description(pcapng.NATIVE, "kbus0000"))
_STATISTICS = len(pcapng.interface_statistics(pcapng.NATIVE, 0, 0, 0, 0))


class Recovered(NamedTuple):
    """What became of a capture: where it is now, how many messages it has, and what was left out.

    ``damage`` and ``more_damage`` are those of a ``Reader``.
    """

    path: Path
    messages: int
    damage: list[Damage]
    more_damage: int


class _Section:
    """What a section lacks: the descriptions that are damaged, and the statistics that are not there."""

    def __init__(self, section: Section, room: _Room) -> None:
        self.section = section
        self._room = room
        self.described = 0
        self.received: dict[int, int] = {}
        self.losses = Losses()
        self.time_ns = 0
        self.sealed: set[int] = set()

    def descriptions_before(self, block: Block) -> Optional[bytes]:
        """The blocks of the interfaces, made anew, which should be before this block and are not.

        None if there is no room for them.
        """
        end = block.offset + len(block.raw)
        return self._descriptions(end, int(block.kind == pcapng.INTERFACE_DESCRIPTION))

    def _descriptions(self, end: int, besides: int = 0) -> Optional[bytes]:
        """Those that are missing, but for the last ``besides``, which are there."""
        interfaces = self.section.interfaces
        count = len(interfaces) - besides - self.described
        if count and not self._room.take(count * _LEAST_DESCRIPTION, end):
            return None
        missing = interfaces[self.described : len(interfaces) - besides]
        self.described = len(interfaces)
        return b"".join(pcapng.interface_description(self.section.order, each.name) for each in missing)

    def add(self, interface: int, record: Record) -> None:
        """Count a message."""
        self.received[interface] = self.received.get(interface, 0) + 1
        self.losses.add(record.facts)
        self.time_ns = record.time_ns

    def end(self, end: int) -> bytes:
        """The blocks with statistics, one for each interface that has none; no such block without messages.

        Descriptions of interfaces that are still missing come before them. If there is no room for all, the
        statistics of interfaces without messages are left out. ``end`` is where the section ends.
        """
        blocks = [self._descriptions(end) or b""]
        interfaces = self.section.interfaces[: self.described] if self.received else []
        has_room = self._room.take(max(0, len(interfaces) - len(self.sealed)) * _STATISTICS, end)
        for index in range(len(interfaces)) if has_room else sorted(self.received):
            if index in self.sealed:
                continue
            interface = interfaces[index]
            count, lost = self.received.get(index, 0), self.losses.of(interface.bus)
            time = self.time_ns // (1_000_000_000 // interface.ticks)
            blocks.append(pcapng.interface_statistics(self.section.order, index, time, count, lost))
        return b"".join(blocks)


class _Room:
    """How many bytes may still be made anew, so that a small file can't become a large one."""

    def __init__(self) -> None:
        self._made = 0

    def take(self, length: int, end: int) -> bool:
        """Take that many, if there are, when the file has been read up to ``end``."""
        if self._made + length > _MADE + _MADE_FOR_EACH * end:
            return False
        self._made += length
        return True


def recover(source: Path, target: Path) -> Recovered:
    """Copy to a new file ``target`` all blocks of a capture that are whole, byte for byte.

    A section's header, or an interface's description, that is damaged is made anew, without what it said. An
    interface that has no statistics gets them: the messages that are there, and how many were lost from its
    beginning to the last of them. What is made anew takes a MiB and twice the size of the capture at most: a
    block that would need more is left out. Raises OSError, for instance FileExistsError, or with EBUSY if the
    capture is still being recorded; and CaptureError if nothing of it is a capture.
    """
    if is_being_written(source):
        raise OSError(errno.EBUSY, "it is still being recorded", str(source))
    file = PartFile(target, RECOVERING)
    try:
        with Reader(source, strict=False) as reader:
            count = _copy(reader, file)
            if not file.size:
                raise CaptureError(f"{source}: {reader.damage[0].reason if reader.damage else 'it is empty'}")
        file.seal(sync=True)
    except BaseException:
        file.discard()
        raise
    return Recovered(target, count, reader.damage, reader.more_damage)


def _copy(reader: Reader, file: PartFile) -> int:
    section: Optional[_Section] = None
    count = end = 0
    room = _Room()
    for block, record in reader.blocks():
        assert reader.section is not None
        if section is None or section.section is not reader.section:
            if section:
                file.append(section.end(block.offset))
            section = _Section(reader.section, room)
            if block.kind != pcapng.SECTION_HEADER:
                file.append(pcapng.section_header(block.order, "its header was damaged"))
        descriptions = section.descriptions_before(block)
        if descriptions is None and block.kind in _OF_INTERFACES:
            reader.leave_out(Damage(block.offset, len(block.raw), _TOO_MUCH))
            continue
        file.append(descriptions or b"")
        end = block.offset + len(block.raw)
        if block.kind == pcapng.INTERFACE_STATISTICS and reader.latest:
            section.sealed.add(reader.latest.interface)
        elif record:
            section.add(pcapng.interface_of(block), record)
            count += 1
        file.append(block.raw)
    if section:
        file.append(section.end(end))
    return count
