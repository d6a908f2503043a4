# SPDX-License-Identifier: MIT
"""The last messages, in memory: what a snapshot is made of."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import add
from pathlib import Path
from typing import Any

from .files import Files

#: Blocks are kept in chunks of up to so many bytes, and of no more than this part of the ring's size and time
_CHUNK = 1 << 16
_PARTS = 64


@dataclass
class _Chunk:
    info: dict[str, Any]
    lost_before: list[int]
    data: bytearray
    received: list[int]
    lost: list[int]
    began: float = 0.0
    ended: float = 0.0


class Ring:
    """The newest blocks, ``size`` bytes of them at most. ``info`` gives the facts of a section's header.

    Of blocks that were added more than ``seconds`` ago, none are kept but those that are in a chunk with
    younger ones, which is a small part of that time. ``now`` is a clock that nobody sets.
    """

    def __init__(
        self,
        size: int,
        info: Callable[[], dict[str, Any]],
        seconds: float = math.inf,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.size = size
        self._info = info
        self._seconds = seconds
        self._now = now
        self._chunks: deque[_Chunk] = deque()
        self._length = 0
        self._lost: list[int] = []
        self._forgotten: list[int] = []

    def counts(self) -> list[int]:
        """Return how many messages of each device are here."""
        return [sum(each) for each in zip(*(chunk.received for chunk in self._chunks))]

    def append(self, data: bytes, received: Sequence[int], lost: Sequence[int]) -> None:
        """Add blocks, as ``Files.append`` does, and forget the oldest if there is no room for them."""
        info, before, self._lost = self._info(), self._lost or [0] * len(lost), list(lost)
        last = self._chunks[-1] if self._chunks else None
        now = self._now()
        if (
            last
            and last.info == info
            and len(last.data) + len(data) <= min(_CHUNK, self.size // _PARTS)
            and now - last.began <= self._seconds / _PARTS
        ):
            last.data += data
            last.ended = now
            last.received = list(map(add, last.received, received))
            last.lost = self._lost
        else:
            self._chunks.append(_Chunk(info, before, bytearray(data), list(received), self._lost, now, now))
        self._length += len(data)
        while self._length > self.size and len(self._chunks) > 1:
            self._forget_oldest()
        self._forget_old()

    def _forget_old(self) -> None:
        since = self._now() - self._seconds
        while self._chunks and self._chunks[0].ended < since:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        chunk = self._chunks.popleft()
        self._length -= len(chunk.data)
        self._forgotten = list(map(add, self._forgotten or repeat(0), chunk.received))

    def take_forgotten(self) -> list[int]:
        """Return how many messages of each device were forgotten since this was asked last."""
        forgotten, self._forgotten = self._forgotten, [0] * len(self._lost)
        return forgotten

    def write_out(self, files: Files) -> Iterator[tuple[Path, int]]:
        """Make sealed files of all that is here, and forget it; yield each, and how many messages it has.

        It is one file, unless the module has been loaded anew meanwhile. Raises OSError; then what is not in
        a file is still here.
        """
        self._forget_old()
        while True:
            first = self._chunks[0] if self._chunks else _Chunk(self._info(), self._lost, bytearray(), [], [])
            files.begin(first.info, first.lost_before)
            while self._chunks and self._chunks[0].info == first.info:
                chunk = self._chunks[0]
                files.append(bytes(chunk.data), chunk.received, chunk.lost)
                self._chunks.popleft()
                self._length -= len(chunk.data)
            count = files.messages
            files.seal()
            assert files.last
            yield files.last, count
            if not self._chunks:
                return
