# SPDX-License-Identifier: MIT
"""Reading captures."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, Optional, Union

from .. import Message, names
from .. import _wire as wire
from ..messages import received
from . import frame, pcapng
from .blocks import MOST_DAMAGE, Damage
from .header import LOST_BEFORE
from .input import MaybeGzip, Window, open_file
from .pcapng import Block
from .sections import Blocks, Section, Statistics, statistics_of


class CaptureError(ValueError):
    """A capture is damaged, or a file is no capture. The text has the file, the offset and the cause."""


#: Sections that a Reader keeps
MOST_SECTIONS = 100


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


class Reader:
    """The messages of a capture, in the order in which they were recorded.

    ``source`` is a path, or a file that is open for reading bytes; either may be of gzip. A path must be that
    of a regular file, or lead to a pipe of the shell such as ``/dev/stdin``. The caller closes its file.
    Use it with ``with``, and iterate: each :class:`Record` is read when it is asked for.

    ``strict``: what is damaged raises CaptureError. Otherwise it is passed over. It is said in ``damage``, so
    that nothing is left out in silence; what is undamaged after it is found again. ``damage`` has the first
    1000 places, and ``more_damage`` counts those that come after them.

    ``section`` is the section that has been read last. ``sections`` has the first 100, and ``more_sections``
    counts those that come after them. ``latest`` is the last of the recorded statistics. Memory for all of
    them would be many times the size of a file of gzip.

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
        self.section: Optional[Section] = None
        self.sections: list[Section] = []
        self.more_sections = 0
        self._found = Blocks(Window(MaybeGzip(file)))
        self._blocks = self._read()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
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

    def _read(self) -> Iterator[tuple[Block, Optional[Record]]]:
        for found in self._found:
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
        if len(self.damage) < MOST_DAMAGE:
            self.damage.append(damage)
        else:
            self.more_damage += 1
        if self.strict:
            raise CaptureError(f"{self.name}: at byte {damage.offset}: {damage.reason}")

    def _take(self, block: Block) -> Optional[Record]:
        section = self._found.section
        # No block comes before a section header, or one in place of it.
        assert section is not None
        if block.kind == pcapng.ENHANCED_PACKET:
            return _record(block, section)
        if block.kind == pcapng.SECTION_HEADER:
            self.section = section
            if len(self.sections) < MOST_SECTIONS:
                self.sections.append(section)
            else:
                self.more_sections += 1
        elif block.kind == pcapng.INTERFACE_STATISTICS:
            self.latest = statistics_of(block, section)
        return None


def _record(block: Block, section: Section) -> Record:
    index, ticks, packet = pcapng.packet_of(block)
    interface = section.interface(index)
    said, origin, order, recorded = frame.decode(packet)
    message = frame.native(recorded, order)
    wire.check(message)
    names.check_sent(wire.name_of(message))
    facts = Facts(*said, origin.bus if origin else interface.bus, block.offset, section)
    return Record(interface.time_ns(ticks), received(message, 1)[0], facts)


class Tally:
    """What is in one ``section``: how many messages of each interface, which are ``sealed`` by statistics.

    What its messages say of losses it knows only of a section that says what it is a recording of: a tool
    that has put several together leaves one section for them all.
    """

    def __init__(self, section: Section) -> None:
        self.section = section
        self.messages: Counter[int] = Counter()
        self.sealed: set[int] = set()
        #: What the statistics count
        self.received = self.dropped = 0
        self.last: Optional[Record] = None
        #: What each device had lost before, and by now
        self._before: dict[Optional[int], int] = dict(zip(section.buses, section.info.get(LOST_BEFORE, ())))
        self._lost: dict[Optional[int], int] = {}

    def add(self, block: Block, record: Optional[Record], latest: Optional[Statistics]) -> None:
        """Count a block, which has the record or the ``latest`` statistics. They come in their order."""
        if record:
            self.messages[pcapng.interface_of(block)] += 1
            self.last = record
            if self.section.recording is not None:
                self._before.setdefault(record.facts.bus, record.facts.lost)
                self._lost[record.facts.bus] = record.facts.lost
        elif block.kind == pcapng.INTERFACE_STATISTICS and latest:
            self.sealed.add(latest.interface)
            self.received += latest.received
            self.dropped += latest.dropped

    def unsealed(self) -> Iterator[tuple[int, int]]:
        """Yield the interfaces without statistics, and how many messages were lost up to the last one."""
        for index, interface in enumerate(self.section.interfaces):
            if index not in self.sealed:
                # Several interfaces may be of one device.
                lost = self._lost.pop(interface.bus, 0)
                yield index, max(0, lost - self._before.get(interface.bus, 0))
