# SPDX-License-Identifier: MIT
"""The tables that ``kbus top`` has, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .rates import KsockRates
from .tables import ScreenColumn, ScreenTable
from .traffic import NameCounts, Waiting

__all__ = ["KSOCKS", "NAMES", "VIEWS", "WAITING", "Look", "WaitingFor", "amount", "duration"]


class WaitingFor(NamedTuple):
    """A Request that waits, for how many seconds, and the program that sent it."""

    request: Waiting
    seconds: float
    command: str


class Look(NamedTuple):
    """What there is to show at one time."""

    device: int
    clock: str
    #: a second
    messages: float
    bytes: float
    names: Sequence[NameCounts]
    ksocks: Sequence[KsockRates]
    waiting: Sequence[WaitingFor]
    #: Requests that wait too, but did not come by here
    unseen: int
    #: copies that KSocks of the device have missed, and of these the ones that ``kbus top`` has
    lost: int
    lost_here: int
    #: messages and Requests that ``kbus top`` has no room to follow
    not_followed: int

    def rows(self, view: int) -> Sequence[Any]:
        """The rows of one of ``VIEWS``."""
        rows: tuple[Sequence[Any], ...] = (self.names, self.ksocks, self.waiting)
        return rows[view]


def amount(number: float) -> str:
    """A number, or bytes, in four digits at most; K, M and so on are powers of 1000."""
    if number < 10 and number != int(number):
        return f"{number:.1f}"
    for unit in ("", "K", "M", "G", "T"):
        if round(number) < 1000:
            return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{round(number)}{unit}"
        number /= 1000
    return f"{round(number)}P"


def duration(seconds: float) -> str:
    """A time with its unit, in three digits or so."""
    for unit, size in (("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if seconds < 999.5 * size:
            return f"{seconds / size:.3g}{unit}"
    return f"{round(seconds)}s"


NAMES = ScreenTable(
    "names",
    (
        ScreenColumn("RATE", lambda row: row.rate, amount),
        ScreenColumn("BYTES/S", lambda row: row.byte_rate, amount, rank=5),
        ScreenColumn("MSGS", lambda row: row.messages, rank=2),
        ScreenColumn("BYTES", lambda row: row.bytes, amount, rank=8),
        ScreenColumn("ANSWERED", lambda row: row.answered, rank=6),
        ScreenColumn("FAILED", lambda row: row.failed, rank=4),
        ScreenColumn("LATENCY", lambda row: row.latency, duration, rank=3),
        ScreenColumn("LONGEST", lambda row: row.longest if row.answered else None, duration, rank=7),
        ScreenColumn("NAME", lambda row: row.name, is_text=True),
    ),
    first=0,
)
KSOCKS = ScreenTable(
    "ksocks",
    (
        ScreenColumn("KSOCK", lambda row: row.stats.ksock_id),
        ScreenColumn("PID", lambda row: row.stats.pid, rank=2),
        ScreenColumn("QUEUED", lambda row: row.stats.queued),
        ScreenColumn("LIMIT", lambda row: row.stats.queue_limit, rank=8),
        ScreenColumn("MOST", lambda row: row.stats.queued_max, rank=10),
        ScreenColumn("BYTES", lambda row: row.stats.bytes, amount, rank=9),
        ScreenColumn("SENT/S", lambda row: row.sent_rate, amount, rank=5),
        ScreenColumn("READ/S", lambda row: row.received_rate, amount, rank=4),
        ScreenColumn("LOST", lambda row: row.stats.lost, rank=1),
        ScreenColumn("LOST/S", lambda row: row.lost_rate, amount, rank=7),
        ScreenColumn("AWAITS", lambda row: row.stats.awaiting, rank=6),
        ScreenColumn("OWES", lambda row: row.stats.owed, rank=3),
        ScreenColumn("COMMAND", lambda row: row.command, is_text=True),
    ),
    first=2,
)
WAITING = ScreenTable(
    "waiting requests",
    (
        ScreenColumn("WAITS", lambda row: row.seconds, duration),
        ScreenColumn("ID", lambda row: str(row.request.id), is_text=True, rank=2),
        ScreenColumn("FROM", lambda row: row.request.from_, rank=1),
        ScreenColumn("COMMAND", lambda row: row.command, is_text=True),
        ScreenColumn("NAME", lambda row: row.request.name, is_text=True),
    ),
    first=0,
)
VIEWS = (NAMES, KSOCKS, WAITING)
