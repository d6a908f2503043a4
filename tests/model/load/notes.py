# SPDX-License-Identifier: MIT
"""What a process notes of the calls that it makes, so that it is on record even if the process is killed."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

from kbus.testing.model.wire import NO_ID, MsgId

SENT, READ, ABANDONED, MISSED = range(4)

_LAYOUT = struct.Struct("=IQQ6I")


class Note(NamedTuple):
    """One call that succeeded. `begin` and `end` are CLOCK_MONOTONIC in ns, around the call alone.

    SENT: `id` and `flags` of the message. READ: the same and `in_reply_to`, of NEXTMSG. ABANDONED: the
    Request's `id`. MISSED: `missed` is what LOSTMSGS said.
    """

    kind: int
    begin: int
    end: int
    id: MsgId
    in_reply_to: MsgId = NO_ID
    flags: int = 0
    missed: int = 0


class Notebook:
    """A process's notes, each in the file as soon as it has been added."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def add(self, note: Note) -> None:
        """Write a note down."""
        os.write(self._fd, _LAYOUT.pack(*note[:3], *note.id, *note.in_reply_to, *note[5:]))


def notes(path: Path) -> list[Note]:
    """All the notes in a file, in the order of their making."""
    rows = _LAYOUT.iter_unpack(path.read_bytes())
    return [Note(row[0], row[1], row[2], MsgId(*row[3:5]), MsgId(*row[5:7]), *row[7:]) for row in rows]


def now() -> int:
    """CLOCK_MONOTONIC in ns; it is one clock for all processes."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
