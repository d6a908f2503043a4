# SPDX-License-Identifier: MIT
"""Which messages of a section are in the tables already.

A recorder numbers its messages, and a section has those of one recorder. So its number tells a message,
wherever in a file it is: what ``kbus recover`` makes has it elsewhere. A tool may have put several recorders'
messages into one section, in which numbers come again. They are of other times; so a number is known only
within the times of the messages that it was recorded with: by the recorder's clock, which the checksum
covers, and in a section that names no recorder by the time of day as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from ..decode.batches import Messages

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
#: How often a number may come in a section and be known each time
_MOST = 64


class Numbers(NamedTuple):
    """Sequence numbers of a section that are there without a hole, both ends included, and the times between
    which those messages were sent: ``mono_ns``, and in microseconds since 1970.
    """

    first: int
    last: int
    mono_since: int
    mono_until: int
    since: int
    until: int


#: What is there of sections, by ``capture``
Covered = dict[str, list[Numbers]]


def covered_by(stretches: Iterable[Mapping[str, Any]]) -> Covered:
    """Return what is in the tables of the sections that these rows of ``stretches`` are of."""
    found: dict[str, dict[tuple[int, int], list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in stretches:
        found[row["capture"]][row["first_seq"], row["last_seq"]].append(row)
    return {
        capture: [numbers for rows in by_ends.values() for numbers in _numbers(rows)]
        for capture, by_ends in found.items()
    }


def _numbers(rows: list[Mapping[str, Any]]) -> list[Numbers]:
    """Return what rows tell that begin and end with the same numbers."""
    each = [
        Numbers(
            *(row[name] for name in ("first_seq", "last_seq", "first_mono_ns", "last_mono_ns")),
            *(_microseconds(row[name]) for name in ("first_ts", "last_ts")),
        )
        for row in rows
    ]
    first, last = each[0][:2]
    if sum(row["messages"] for row in rows) > last - first + 1:
        return each
    # They are of several buses, or of one that has lost messages.
    _, _, mono_since, mono_until, since, until = zip(*each)
    return [Numbers(first, last, min(mono_since), max(mono_until), min(since), max(until))]


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


class Known:
    """What is known of one section. What is known of it more than 64 times over is not remembered."""

    def __init__(self, numbers: Iterable[Numbers]) -> None:
        layers: list[list[Numbers]] = []
        for each in sorted(numbers):
            layer = next((one for one in layers if one[-1].last < each.first), None)
            if layer is None and len(layers) < _MOST:
                layer = []
                layers.append(layer)
            if layer is not None:
                layer.append(each)
        self._layers = [np.array(layer, np.int64).T for layer in layers]

    def lacks(self, found: Messages) -> Optional[NDArray[np.bool_]]:
        """Return which of these messages of the section are not known; None if all are."""
        if not self._layers:
            return None
        seq, mono, time = found.parsed.seq, found.parsed.mono_ns, found.parsed.ts_ns // 1000
        lacks = np.ones(len(found), bool)
        for first, last, mono_since, mono_until, since, until in self._layers:
            at = np.searchsorted(first, seq, "right") - 1
            is_other = (at < 0) | (seq > last[at]) | (mono < mono_since[at]) | (mono > mono_until[at])
            if not found.section.recorder:
                is_other |= (time < since[at]) | (time > until[at])
            lacks &= is_other
        return lacks
