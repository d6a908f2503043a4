# SPDX-License-Identifier: MIT
"""The last messages, in memory: what a snapshot is made of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import Any

from .files import Files

#: Blocks are kept in chunks of up to so many bytes, and of no more than this part of the ring
_CHUNK = 1 << 16
_PARTS = 64


@dataclass
class _Chunk:
    info: dict[str, Any]
    lost_before: list[int]
    data: bytearray
    received: list[int]
    lost: list[int]


class Ring:
    """The newest blocks, ``size`` bytes of them at most. ``info`` gives the facts of a section's header."""

    def __init__(self, size: int, info: Callable[[], dict[str, Any]]) -> None:
        self.size = size
        self._info = info
        self._chunks: deque[_Chunk] = deque()
        self._length = 0
        self._lost: list[int] = []

    def append(self, data: bytes, received: Sequence[int], lost: Sequence[int]) -> None:
        """Add blocks, as ``Files.append`` does, and forget the oldest if there is no room for them."""
        info, before, self._lost = self._info(), self._lost or [0] * len(lost), list(lost)
        last = self._chunks[-1] if self._chunks else None
        if last and last.info == info and len(last.data) + len(data) <= min(_CHUNK, self.size // _PARTS):
            last.data += data
            last.received = list(map(add, last.received, received))
            last.lost = self._lost
        else:
            self._chunks.append(_Chunk(info, before, bytearray(data), list(received), self._lost))
        self._length += len(data)
        while self._length > self.size and len(self._chunks) > 1:
            self._length -= len(self._chunks.popleft().data)

    def write_out(self, files: Files) -> Iterator[tuple[Path, int]]:
        """Make sealed files of all that is here, and forget it; yield each, and how many messages it has.

        It is one file, unless the module has been loaded anew meanwhile. Raises OSError; then what is not in
        a file is still here.
        """
        while True:
            count = 0
            first = self._chunks[0] if self._chunks else _Chunk(self._info(), self._lost, bytearray(), [], [])
            files.begin(first.info, first.lost_before)
            while self._chunks and self._chunks[0].info == first.info:
                chunk = self._chunks[0]
                files.append(bytes(chunk.data), chunk.received, chunk.lost)
                self._chunks.popleft()
                self._length -= len(chunk.data)
                count += sum(chunk.received)
            files.seal()
            assert files.last
            yield files.last, count
            if not self._chunks:
                return
