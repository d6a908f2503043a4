# SPDX-License-Identifier: MIT
"""Axiom 'No one else pays', in figures: how long others' messages take while a neighbour does its worst."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.kernel.helpers import device_stats, wait_until
from tests.kernel.processes import NOBODY
from tests.neighbours.bystanders import Bystanders, Window
from tests.neighbours.figures import QUANTILES, Figure, figure, keep
from tests.neighbours.neighbour import Neighbour
from tests.neighbours.scenarios import BUSY_ELSEWHERE, HOSTILE, ORDINARY, Scenario

pytestmark = pytest.mark.axiom("isolation")

GOAL = 2.0
"""How many times its idle value others' latency may be."""
WINDOWS = 3
"""How many there are in a row."""
ROUNDS, MOST_ROUNDS = 2, 12
"""How often windows without the neighbour and with it take turns: always, and before it is too much."""
ATTEMPTS = 3
"""How often that is measured before it is a failure."""


class Judge:
    """Compares, by the highest quantile that says something on this machine, and keeps the figures."""

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {}
        self.quantile = ""

    def trust(self, bystanders: Bystanders) -> None:
        """Find the highest quantile at which an ordinary neighbour is within the goal; there must be one."""
        seen = self._measure(bystanders, ORDINARY, QUANTILES[0])
        trusted = [quantile for quantile in QUANTILES if seen.ratio(quantile) <= GOAL]
        assert trusted, f"a neighbour who does nothing wrong was too much: {seen}"
        self.quantile = trusted[0]

    def is_good(self, bystanders: Bystanders, scenario: Scenario) -> bool:
        """Whether the neighbours are within the goal."""
        return self._measure(bystanders, scenario, self.quantile).ratio(self.quantile) <= GOAL

    def _measure(self, bystanders: Bystanders, scenario: Scenario, quantile: str) -> Figure:
        """Windows by turns until the quantile is within the goal, or MOST_ROUNDS times."""
        idle: list[Window] = []
        hostile: list[Window] = []
        rounds = 0
        while True:
            rounds += 1
            idle += _windows(bystanders, BUSY_ELSEWHERE)
            hostile += _windows(bystanders, scenario)
            seen = figure(scenario.title, scenario.limit, idle, hostile)
            if rounds >= ROUNDS and (rounds == MOST_ROUNDS or seen.ratio(quantile) <= GOAL):
                self.figures[scenario.title] = seen
                print(seen)
                return seen


def _windows(bystanders: Bystanders, scenario: Scenario) -> list[Window]:
    with ExitStack() as stack:
        started = [
            stack.enter_context(Neighbour(orders, NOBODY - number))
            for number, orders in enumerate(scenario.orders)
        ]
        assert started[0].refused_with == scenario.limit
        return [bystanders.window() for _ in range(WINDOWS)]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge()
    yield judge
    keep(list(judge.figures.values()), judge.quantile)


def test_an_ordinary_neighbour(judge: Judge, bystanders: Bystanders) -> None:
    """How far the machine can be trusted: a host that stops a processor with a lock delays others, too."""
    judge.trust(bystanders)


@pytest.mark.parametrize("scenario", HOSTILE, ids=[scenario.title for scenario in HOSTILE])
def test_hostile(judge: Judge, bystanders: Bystanders, scenario: Scenario) -> None:
    if not judge.quantile:
        judge.trust(bystanders)
    for _ in range(ATTEMPTS):
        if judge.is_good(bystanders, scenario):
            break
        # The host may have more to do now than when that was last looked at.
        judge.trust(bystanders)
    else:
        pytest.fail(f"{judge.quantile}: {judge.figures[scenario.title]}")
    wait_until(lambda: device_stats()["ksocks"] == 2, "only the bystanders are left")
    assert device_stats()["bindings"] == 1
