# SPDX-License-Identifier: MIT
"""Making a whole capture of a damaged one."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Optional

from . import pcapng
from .part import PartFile, is_being_written
from .reader import CaptureError, Reader, Tally

#: FILE.part may be what is recovered.
RECOVERING = ".recovering"


def recover(source: Path, target: Path) -> tuple[int, Reader]:
    """Copy to a new file ``target`` all blocks of a capture that are whole, byte for byte.

    Return how many messages there are, and their reader, whose ``damage`` says what was left out.

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
    return count, reader


def _copy(reader: Reader, file: PartFile) -> int:
    count = 0
    tally: Optional[Tally] = None
    for block, record in reader.blocks():
        if block.kind == pcapng.SECTION_HEADER:
            assert reader.section is not None
            file.append(_missing(tally))
            tally = Tally(reader.section)
        # No block comes before that.
        assert tally is not None
        tally.add(block, record, reader.latest)
        count += record is not None
        file.append(block.raw)
    file.append(_missing(tally))
    return count


def _missing(tally: Optional[Tally]) -> bytes:
    """Return the blocks with the statistics that a section lacks; none without messages."""
    if not (tally and tally.last):
        return b""
    blocks = []
    for index, lost in tally.unsealed():
        time = tally.last.time_ns // (1_000_000_000 // tally.section.interfaces[index].ticks)
        count = tally.messages[index]
        blocks.append(pcapng.interface_statistics(tally.section.order, index, time, count, lost))
    return b"".join(blocks)
