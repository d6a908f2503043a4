# SPDX-License-Identifier: MIT
"""Making a whole capture of a damaged one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from . import pcapng
from .blocks import Damage
from .losses import Losses
from .part import PartFile
from .pcapng import Block
from .reader import CaptureError, Reader, Record, Section

#: FILE.part may be what is recovered.
RECOVERING = ".recovering"


class Recovered(NamedTuple):
    """What became of a capture: where it is now, how many messages it has, and what was left out."""

    path: Path
    messages: int
    damage: list[Damage]


class _Section:
    """What a section lacks: the descriptions that are damaged, and the statistics that are not there."""

    def __init__(self, section: Section) -> None:
        self.section = section
        self.described = 0
        self.received: dict[int, int] = {}
        self.losses = Losses()
        self.time_ns = 0
        self.sealed: set[int] = set()

    def descriptions_before(self, block: Block) -> bytes:
        """The blocks of the interfaces, made anew, which should be before this block and are not."""
        return self._descriptions(int(block.kind == pcapng.INTERFACE_DESCRIPTION))

    def _descriptions(self, besides: int = 0) -> bytes:
        """Those that are missing, but for the last ``besides``, which are there."""
        interfaces = self.section.interfaces
        missing = interfaces[self.described : len(interfaces) - besides]
        self.described = len(interfaces)
        return b"".join(pcapng.interface_description(self.section.order, each.name) for each in missing)

    def add(self, interface: int, record: Record) -> None:
        """Count a message."""
        self.received[interface] = self.received.get(interface, 0) + 1
        self.losses.add(record.facts)
        self.time_ns = record.time_ns

    def end(self) -> bytes:
        """The blocks with statistics, one for each interface that has none; no such block without messages.

        Descriptions of interfaces that are still missing come before them.
        """
        blocks = [self._descriptions()]
        for index, interface in enumerate(self.section.interfaces if self.received else []):
            if index in self.sealed:
                continue
            count, lost = self.received.get(index, 0), self.losses.of(interface.bus)
            time = self.time_ns // (1_000_000_000 // interface.ticks)
            blocks.append(pcapng.interface_statistics(self.section.order, index, time, count, lost))
        return b"".join(blocks)


def recover(source: Path, target: Path) -> Recovered:
    """Copy to a new file ``target`` all blocks of a capture that are whole, byte for byte.

    A section's header, or an interface's description, that is damaged is made anew, without what it said. An
    interface that has no statistics gets them: the messages that are there, and how many were lost from its
    beginning to the last of them. Raises OSError, for instance FileExistsError, and CaptureError if nothing
    of it is a capture.
    """
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
    return Recovered(target, count, reader.damage)


def _copy(reader: Reader, file: PartFile) -> int:
    sections: list[_Section] = []
    for block, record in reader.blocks():
        if not sections or sections[-1].section is not reader.sections[-1]:
            _end(sections, file)
            sections.append(_Section(reader.sections[-1]))
            if block.kind != pcapng.SECTION_HEADER:
                file.append(pcapng.section_header(block.order, "its header was damaged"))
        file.append(sections[-1].descriptions_before(block))
        if block.kind == pcapng.INTERFACE_STATISTICS:
            sections[-1].sealed.add(reader.statistics[-1].interface)
        elif record:
            sections[-1].add(pcapng.packet_of(block)[0], record)
        file.append(block.raw)
    _end(sections, file)
    return sum(sum(section.received.values()) for section in sections)


def _end(sections: list[_Section], file: PartFile) -> None:
    if sections:
        file.append(sections[-1].end())
