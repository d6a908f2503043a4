# SPDX-License-Identifier: MIT
"""Finding the packets in a piece of a capture with numpy, many at a time.

Whether a block is one, and where reading goes on after damage, is what ``kbus.capture.blocks`` says.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from kbus.capture import pcapng

_HEAD_WORDS = 2
_LEAST_PACKET = pcapng.OVERHEAD + pcapng.PACKET[pcapng.NATIVE].size


class Run(NamedTuple):
    """Packets that follow on one another: where each begins and ends, in words of the piece."""

    begins: NDArray[np.int64]
    ends: NDArray[np.int64]


class Packets:
    """All that looks like an enhanced packet block in ``words``, which are in the byte order of the section.

    A packet's data may look like a packet too. So ``run`` follows the chain of lengths from a place where a
    block is known to begin; that takes a step in Python only where the chain leaves what looks like packets.
    """

    def __init__(self, words: NDArray[np.uint32]) -> None:
        begins = np.flatnonzero(words[:-1] == pcapng.ENHANCED_PACKET)
        lengths = words[begins + 1].astype(np.int64)
        fits = (lengths >= _LEAST_PACKET) & (lengths % 4 == 0) & (lengths <= pcapng.MAX_LENGTH)
        begins, lengths = begins[fits], lengths[fits]
        ends = begins + lengths // 4
        fits = ends <= len(words)
        begins, ends, lengths = begins[fits], ends[fits], lengths[fits]
        # What is not all of a packet may have its rest behind it, and is looked at alone.
        fits = (words[ends - 1] == lengths) & (words[begins + 5] == words[begins + 6])
        self.begins: NDArray[np.int64] = begins[fits]
        self._ends: NDArray[np.int64] = ends[fits]
        # The last of each series in which every packet ends where the next begins.
        self._last = np.append(np.flatnonzero(self._ends[:-1] != self.begins[1:]), len(self.begins) - 1)

    def run(self, at: int, end: Optional[int] = None) -> Run:
        """Return the packets that follow on one another from word ``at`` on; there may be none.

        None begins at byte ``end`` or after it.
        """
        limit = len(self.begins) if end is None else int(np.searchsorted(self.begins, (end + 3) // 4))
        begins, ends = [], []
        while True:
            first = int(np.searchsorted(self.begins, at))
            if first >= limit or self.begins[first] != at:
                break
            last = min(int(self._last[np.searchsorted(self._last, first)]), limit - 1)
            begins.append(self.begins[first : last + 1])
            ends.append(self._ends[first : last + 1])
            at = int(self._ends[last])
        empty = np.empty(0, np.int64)
        return Run(np.concatenate([empty, *begins]), np.concatenate([empty, *ends]))
