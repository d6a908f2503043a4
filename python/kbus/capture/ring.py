# SPDX-License-Identifier: MIT
"""The last messages, in memory: what a snapshot is made of."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from pathlib import Path

from .files import Files

#: Blocks are kept in chunks of up to so many bytes, and of no more than this part of the ring's size
_CHUNK = 1 << 16
_PARTS = 64


@dataclass
class _Chunk:
    lost_before: list[int]
    data: bytearray
    received: list[int]
    lost: list[int]


class Ring:
    """The newest blocks, ``size`` bytes of them at most."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._chunks: deque[_Chunk] = deque()
        self._length = 0
        self._lost: list[int] = []

    def counts(self) -> list[int]:
        """Return how many messages of each device are here."""
        return [sum(each) for each in zip(*(chunk.received for chunk in self._chunks))]

    def append(self, data: bytes, received: Sequence[int], lost: Sequence[int]) -> None:
        """Add blocks, as ``Files.append`` does, and forget the oldest if there is no room for them."""
        before, self._lost = self._lost or [0] * len(lost), list(lost)
        last = self._chunks[-1] if self._chunks else None
        if last and len(last.data) + len(data) <= min(_CHUNK, self._size // _PARTS):
            last.data += data
            last.received = list(map(add, last.received, received))
            last.lost = self._lost
        else:
            self._chunks.append(_Chunk(before, bytearray(data), list(received), self._lost))
        self._length += len(data)
        while self._length > self._size and len(self._chunks) > 1:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        self._length -= len(self._chunks.popleft().data)

    def write_out(self, files: Files) -> tuple[Path, int]:
        """Make a sealed file of all that is here, and forget it; return it, and how many messages it has.

        Raises OSError; then what is not in a file is still here.
        """
        files.begin(self._chunks[0].lost_before if self._chunks else self._lost)
        while self._chunks:
            chunk = self._chunks[0]
            files.append(bytes(chunk.data), chunk.received, chunk.lost)
            self._forget_oldest()
        count = files.messages
        files.seal()
        assert files.last
        return files.last, count
