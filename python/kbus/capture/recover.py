# SPDX-License-Identifier: MIT
"""Making a whole capture of a damaged one."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NamedTuple, Optional

from . import pcapng
from .blocks import Damage
from .part import PartFile, is_being_written
from .reader import CaptureError, Losses, Reader, Record
from .sections import Section

#: FILE.part may be what is recovered.
RECOVERING = ".recovering"


class Recovered(NamedTuple):
    """What became of a capture: where it is now, how many messages it has, and what was left out.

    ``damage`` and ``more_damage`` are those of a ``Reader``.
    """

    path: Path
    messages: int
    damage: list[Damage]
    more_damage: int


class _Section:
    """What a section lacks: the statistics that are not there."""

    def __init__(self, section: Section) -> None:
        self._section = section
        self._received: dict[int, int] = {}
        self._losses = Losses()
        self._time_ns = 0
        self.sealed: set[int] = set()

    def add(self, interface: int, record: Record) -> None:
        """Count a message."""
        self._received[interface] = self._received.get(interface, 0) + 1
        self._losses.add(record.facts)
        self._time_ns = record.time_ns

    def end(self) -> bytes:
        """The blocks with statistics, one for each interface that has none; none without messages."""
        blocks = []
        for index, interface in enumerate(self._section.interfaces if self._received else ()):
            if index not in self.sealed:
                count, lost = self._received.get(index, 0), self._losses.of(interface.bus)
                time = self._time_ns // (1_000_000_000 // interface.ticks)
                blocks.append(pcapng.interface_statistics(self._section.order, index, time, count, lost))
        return b"".join(blocks)


def recover(source: Path, target: Path) -> Recovered:
    """Copy to a new file ``target`` all blocks of a capture that are whole, byte for byte.

    A section's header, or an interface's description, that is damaged is made anew, without what it said. An
    interface that has no statistics gets them: the messages that are there, and how many were lost from its
    beginning to the last of them. Raises OSError, for instance FileExistsError, or with EBUSY if the
    capture is still being recorded; and CaptureError if nothing of it is a capture.
    """
    if is_being_written(source):
        raise OSError(errno.EBUSY, "it is still being recorded", str(source))
    file = PartFile(target, RECOVERING)
    try:
        with Reader(source, strict=False) as reader:
            count = _copy(reader, file)
            if not file.size:
                raise CaptureError(f"{source}: {reader.damage[0].reason}")
        file.seal(sync=True)
    except BaseException:
        file.discard()
        raise
    return Recovered(target, count, reader.damage, reader.more_damage)


def _copy(reader: Reader, file: PartFile) -> int:
    count = 0
    section: Optional[_Section] = None
    for block, record in reader.blocks():
        if block.kind == pcapng.SECTION_HEADER:
            assert reader.section is not None
            file.append(section.end() if section else b"")
            section = _Section(reader.section)
        # No block comes before that.
        assert section is not None
        if block.kind == pcapng.INTERFACE_STATISTICS and reader.latest:
            section.sealed.add(reader.latest.interface)
        elif record:
            section.add(pcapng.interface_of(block), record)
            count += 1
        file.append(block.raw)
    file.append(section.end() if section else b"")
    return count
