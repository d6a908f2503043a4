# SPDX-License-Identifier: MIT
"""The last messages, in memory: what a snapshot is made of."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from .files import Files


class _Chunk(NamedTuple):
    data: bytes
    received: list[int]
    lost: list[int]


class Ring:
    """The newest blocks, ``size`` bytes of them at most."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._chunks: deque[_Chunk] = deque()
        self._length = 0

    def append(self, data: bytes, received: Sequence[int], lost: Sequence[int]) -> None:
        """Add blocks, as ``Files.append`` does, and forget the oldest if there is no room for them."""
        self._chunks.append(_Chunk(data, list(received), list(lost)))
        self._length += len(data)
        while self._length > self.size and len(self._chunks) > 1:
            self._length -= len(self._chunks.popleft().data)

    def write_out(self, files: Files) -> int:
        """Make a sealed file of all that is here, forget it, and return how many messages these are.

        Raises OSError; then what is not in a file is still here.
        """
        count = 0
        files.begin()
        while self._chunks:
            files.append(*self._chunks[0])
            chunk = self._chunks.popleft()
            self._length -= len(chunk.data)
            count += sum(chunk.received)
        files.seal()
        return count
