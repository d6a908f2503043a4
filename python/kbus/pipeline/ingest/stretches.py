# SPDX-License-Identifier: MIT
"""Where a recording is without a hole: gathered while it is read, in the order of the file."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta, timezone
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from ..decode.batches import Messages
from ..decode.sections import SectionHead
from .known import Numbers, covered_by

_DAY_NS = 86_400 * 1_000_000_000
#: ns by which a clock is set, and not made slower or faster
_SET = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def to_datetime(ns: int) -> datetime:
    """Return a time, given in ns since 1970, cut to microseconds."""
    return _EPOCH + timedelta(microseconds=ns // 1000)


class _Stretch:
    """Messages of one session without a loss between them, nor a clock that was set."""

    def __init__(self, section: SectionHead, session: int, bus: int) -> None:
        self.section = section
        self.session = session
        self.bus = bus
        self.first: Optional[tuple[int, int]] = None
        self.dates: set[int] = set()
        self.messages = 0
        self.ts = (0, 0)

    def extend(self, begins: NDArray[np.int64], found: Messages, rows: NDArray[np.int64]) -> None:
        parsed = found.parsed
        if self.first is None:
            self.begin = int(begins[rows[0]])
            self.first = int(parsed.lost[rows[0]]), int(parsed.mono_ns[rows[0]])
            self.ts = int(parsed.ts_ns[rows[0]]), int(parsed.ts_ns[rows[0]])
        last = rows[-1]
        self.end = int(begins[last] + (parsed.ends[last] - parsed.begins[last]) * 4)
        self.last_lost, self.last_mono = int(parsed.lost[last]), int(parsed.mono_ns[last])
        self.offset = int(parsed.ts_ns[last]) - self.last_mono
        times = parsed.ts_ns[rows]
        if self.section.recorder:
            self.ts = self.ts[0], int(times[-1])
        else:
            # Their times are all that tells which messages these are.
            self.ts = min(self.ts[0], int(times.min())), max(self.ts[1], int(times.max()))
        self.dates.update(np.unique(times // _DAY_NS).tolist())
        self.messages += len(rows)

    def row(self, first_seq: int, last_seq: int) -> dict[str, Any]:
        assert self.first is not None
        section = self.section
        return {
            "session": self.session,
            "device": section.device,
            "boot": section.boot,
            "load": section.load,
            "bus": self.bus,
            "recorder": section.recorder,
            "capture": section.capture,
            "begin": self.begin,
            "end": self.end,
            "first_seq": first_seq,
            "last_seq": last_seq,
            "first_lost": self.first[0],
            "last_lost": self.last_lost,
            "first_mono_ns": self.first[1],
            "last_mono_ns": self.last_mono,
            "first_ts": to_datetime(self.ts[0]),
            "last_ts": to_datetime(self.ts[1]),
            "messages": self.messages,
            "dates": [(_EPOCH + timedelta(days=day)).date() for day in sorted(self.dates)],
            "catches_all": section.catches_all,
        }


class Stretches:
    """Gathers the stretches of a file or a part of it. ``rows`` are those of the table, when all has been
    added.

    A sequence number that does not follow on the one before is a hole for every bus; a higher count of lost
    messages only for the bus that has lost them. Where the clock was set there is no hole, but another
    stretch, so that each has one time.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._by_capture: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._capture = ""
        self._first_seq = self._last_seq = 0
        self._open: dict[int, _Stretch] = {}
        self._closed: list[_Stretch] = []

    def add(self, found: Messages, keep: Optional[NDArray[np.bool_]] = None) -> None:
        """Add messages that follow on those before, only those to ``keep`` if that is given."""
        all_rows = np.arange(len(found)) if keep is None else np.flatnonzero(keep)
        if not len(all_rows):
            return
        if found.section.capture != self._capture:
            self.finish()
            self._capture = found.section.capture
        seq = found.parsed.seq[all_rows]
        sessions = found.columns["session"].to_numpy()
        begins = found.parsed.begins * 4 + (found.offset - found.section.begin)
        for rows in np.split(all_rows, np.flatnonzero(seq[1:] != seq[:-1] + 1) + 1):
            if found.parsed.seq[rows[0]] != self._last_seq + 1 or not self._open:
                self.finish()
                self._first_seq = int(found.parsed.seq[rows[0]])
            self._last_seq = int(found.parsed.seq[rows[-1]])
            for session in np.unique(sessions[rows]).tolist():
                self._add_session(session, begins, found, rows[sessions[rows] == session])

    def _add_session(
        self, session: int, begins: NDArray[np.int64], found: Messages, rows: NDArray[np.int64]
    ) -> None:
        parsed = found.parsed
        lost, offset = parsed.lost[rows], parsed.ts_ns[rows] - parsed.mono_ns[rows]
        # Without a recorder there is no CLOCK_MONOTONIC.
        set_by = _SET if found.section.recorder else np.inf
        ends = (lost[1:] != lost[:-1]) | (np.abs(np.diff(offset)) > set_by)
        for part in np.split(rows, np.flatnonzero(ends) + 1):
            stretch = self._open.get(session)
            first = int(parsed.ts_ns[part[0]] - parsed.mono_ns[part[0]])
            if (
                stretch is None
                or stretch.last_lost != parsed.lost[part[0]]
                or abs(first - stretch.offset) > set_by
            ):
                if stretch:
                    self._closed.append(stretch)
                bus = int(parsed.bus[part[0]])
                stretch = self._open[session] = _Stretch(found.section, session, bus)
            stretch.extend(begins, found, part)

    def finish(self) -> None:
        """Nothing follows on what has been added."""
        stretches = [*self._closed, *self._open.values()]
        for each in stretches:
            self.rows.append(each.row(self._first_seq, self._last_seq))
            self._by_capture[each.section.capture].append(self.rows[-1])
        self._closed, self._open = [], {}

    def count(self, capture: str) -> int:
        """Return how many rows there are of a section."""
        return len(self._by_capture.get(capture, []))

    def covered(self, capture: str) -> list[Numbers]:
        """Return what the rows say is there of a section."""
        return covered_by(self._by_capture.get(capture, [])).get(capture, [])
