# SPDX-License-Identifier: MIT
"""Turns of the clients of several users."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kbus.sbus.turns import USER_TURN, Turns


class Clock:
    """Goes on only when somebody is served."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Client:
    """As much of a client as turns need."""

    def __init__(self, user: str) -> None:
        self.user = user


def clients_of(user: str, count: int) -> list[Any]:
    return [Client(user) for _ in range(count)]


def test_rule_many_clients_of_a_user_are_as_one() -> None:
    """Each turn serves the other user's, and some of theirs, which have their turns one after the other."""
    clock = Clock()
    turns = Turns(clock)
    many, one = clients_of("many", 100), clients_of("one", 1)
    served: Counter[Any] = Counter()

    def serve(client: Any, what: int) -> None:
        clock.now += USER_TURN / 4
        served[client] += what

    ready = dict.fromkeys((*many, *one), 1)
    for turn in range(1, 30):
        turns.serve(ready, serve)
        assert served[one[0]] == turn
        times = [served[client] for client in many]
        assert max(times) - min(times) <= 1
    assert min(times) == 1


def test_whoever_has_left_or_has_nothing_is_passed_over_no_more() -> None:
    clock = Clock()
    turns = Turns(clock)
    first, second, third = clients_of("many", 3)
    served = []

    def serve(client: Any, _: int) -> None:
        clock.now += 2 * USER_TURN
        served.append(client)

    turns.serve({first: 1, second: 1, third: 1}, serve)
    turns.serve({first: 1, third: 1}, serve)
    turns.serve({first: 1}, serve)
    turns.serve({second: 1}, serve)
    assert served == [first, third, first, second]
