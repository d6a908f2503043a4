# SPDX-License-Identifier: MIT
"""What KBUS is to reach, and whether it does."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import NamedTuple, Optional

from . import cases
from .cases import (
    DAMAGE,
    NOT_IN_C,
    PYTHON,
    READ,
    ROUND_TRIP,
    SEND,
    SEND_UNDISTURBED,
    Case,
    among,
    bound,
    one_to_many,
    one_to_one,
)

Results = Mapping[str, Mapping[str, list[dict[str, float]]]]
"""By case and transport: what was printed at each repetition."""


class Which(NamedTuple):
    """One column of the results."""

    case: str
    transport: str
    figure: str


class Goal(NamedTuple):
    """A ratio of two figures, and what it should be."""

    title: str
    of: Which
    to: Which
    limit: float
    at_most: bool = False
    """Whether the ratio should be at most, not at least, the limit."""

    def says(self) -> str:
        """The limit as it is shown."""
        return f"{'≤' if self.at_most else '≥'} {self.limit:g}"

    def is_met(self, ratio: float) -> bool:
        """Whether this ratio is good enough."""
        return ratio <= self.limit if self.at_most else ratio >= self.limit


def _rates(title: str, case: str, limit: float, ours: str = "transfer", theirs: str = "seqpacket") -> Goal:
    figure = "deliveries" if "listeners" in case else "rate"
    return Goal(title, Which(case, ours, figure), Which(case, theirs, figure), limit)


_FIRST = "one, SCHED_FIFO"
_SMALL = one_to_one("64 B")


def _bridge(title: str, of: Which, to: Which, limit: float, at_most: bool = True) -> Goal:
    return Goal(f"bridge: {title}", of, to, limit, at_most)


BRIDGE_GOALS = (
    *(
        _bridge(
            f"one to {listeners}, deliveries to those of SEQPACKET",
            Which(cases.bridge_to(listeners), "sbus", "deliveries"),
            Which(cases.bridge_to(listeners), "seqpacket", "deliveries"),
            limit,
            at_most=False,
        )
        for listeners, limit in ((1, 0.2), (8, 0.5), (100, 0.5))
    ),
    _bridge(
        "round trip to oneself, p50, to that of a socket echo",
        Which(cases.BRIDGE_ROUND_TRIP, "sbus", "p50"),
        Which(cases.BRIDGE_ROUND_TRIP, "seqpacket", "p50"),
        4,
    ),
    _bridge(
        "round trip, p50, with 100,000 unrelated subscriptions to that with 10",
        Which(cases.bridge_among(100_000), "sbus", "p50"),
        Which(cases.bridge_among(10), "sbus", "p50"),
        1.1,
    ),
    _bridge(
        "p99 of a round trip with one who does not read to that without",
        Which(cases.BRIDGE_STUCK, "sbus", "p99"),
        Which(cases.BRIDGE_ROUND_TRIP, "sbus", "p99"),
        1.5,
    ),
)

GOALS = (
    Goal(
        "round trip of 64 B, p50, TRANSFER to SEQPACKET",
        Which(ROUND_TRIP, "transfer", "p50"),
        Which(ROUND_TRIP, "seqpacket", "p50"),
        0.75,
        at_most=True,
    ),
    _rates("one to one, 64 B, one a call, TRANSFER to SEQPACKET", _SMALL, 1.2),
    _rates("one to one, 64 B, TRANSFER of 32 to SEQPACKET", _SMALL, 4, "transfer32"),
    _rates(
        "one to one, 64 B, TRANSFER of 32 to sendmmsg and recvmmsg of 32", _SMALL, 1.5, "transfer32", "mmsg"
    ),
    _rates("one to 8 listeners, deliveries, TRANSFER to SEQPACKET", one_to_many(8), 3),
    _rates("one to one, 64 KiB, TRANSFER to SEQPACKET", one_to_one("64 KiB"), 1.3),
    Goal(
        "a TRANSFER to send with 10,000 unrelated bindings to one with 10",
        Which(bound(10000), "transfer", "p50"),
        Which(bound(10), "transfer", "p50"),
        1.1,
        at_most=True,
    ),
    _rates("Python, one to one, 64 B, Ksock, received one by one, to socket", PYTHON, 0.8, "kbus"),
    _rates("Python, one to one, 64 B, Ksock with receive_many to socket", PYTHON, 0.8, "kbus-many"),
    Goal(
        "p99 of a round trip while 8 flood the bus to that of an idle bus, TRANSFER, SCHED_FIFO",
        Which(among("8 flood the bus", _FIRST), "transfer", "p99"),
        Which(among("nobody", _FIRST), "transfer", "p99"),
        3,
        at_most=True,
    ),
    Goal(
        "messages recorded without loss to those that a Python listener can read at all",
        Which(READ, "recorder", "recorder"),
        Which(READ, "recorder", "listener"),
        0.7,
    ),
    Goal(
        "time to read what is no capture, the worst of seven kinds, to that for a capture of that size",
        Which(DAMAGE, "recorder", "worst"),
        Which(DAMAGE, "recorder", "healthy"),
        3,
        at_most=True,
    ),
    *(
        Goal(title, Which(case, "recorder", "recorded"), Which(case, "recorder", "alone"), 1.1, at_most=True)
        for title, case in (
            ("what a send from Python costs with a recorder to what it costs without", SEND),
            ("the same, SCHED_BATCH", SEND_UNDISTURBED),
        )
    ),
)


def cases_of_goals(python: bool) -> list[tuple[Case, str]]:
    """What goals are about, on one processor: what Python has a part in, or the rest."""
    wanted = {which[:2] for goal in (*GOALS, *BRIDGE_GOALS) for which in (goal.of, goal.to)}
    return [
        (case, name)
        for case in cases.ONE_CPU
        for name in case.transports
        if (case.title, name) in wanted and python == (case.program in NOT_IN_C or "sbus" in case.transports)
    ]


def values(results: Results, which: Which) -> list[float]:
    """The figure at each repetition; none if it was not measured."""
    return [each[which.figure] for each in results.get(which.case, {}).get(which.transport, [])]


def median(results: Results, which: Which) -> Optional[float]:
    """The median of the repetitions, None if there are none."""
    measured = values(results, which)
    return statistics.median(measured) if measured else None


def ratio(results: Results, of: Which, to: Which) -> Optional[float]:
    """The median of the ratios at each repetition; None if there are none."""
    pairs = list(zip(values(results, of), values(results, to)))
    return statistics.median(one / other for one, other in pairs) if pairs else None


def case_figure(title: str) -> str:
    """Which figure is the result of the case with this title. Raises KeyError if there is no such case."""
    return {case.title: case.figure for each in cases.MACHINES.values() for case in each}[title]
