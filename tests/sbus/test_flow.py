# SPDX-License-Identifier: MIT
"""Flood control without sockets: every combination of settings, and the order of what is queued."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus.sbus.flow import (
    BLOCK,
    CONTROLS,
    DISCARD,
    ERROR,
    HARD,
    ORDERS,
    QUEUE,
    SOFT,
    Backlog,
    FlowSettings,
    is_room,
    outcome,
)
from kbus.sbus.limits import PACKET_COST


def test_rule_thirteen_control_messages() -> None:
    """whoami is the thirteenth."""
    assert len(CONTROLS) == 12
    assert all(FlowSettings().apply(key) for key in CONTROLS)
    assert not FlowSettings().apply(b"blocking/soft")


def test_rule_the_last_one_counts() -> None:
    settings = FlowSettings()
    for key in (
        b"blocking/soft/discard",
        b"blocking/soft/block",
        b"blocking/hard/error",
        b"echo/off",
        b"order/stack",
    ):
        assert settings.apply(key)
    assert settings == FlowSettings(BLOCK, ERROR, "stack", False)
    for key in (b"blocking/soft/queue", b"echo/on", b"order/random"):
        assert settings.apply(key)
    assert settings == FlowSettings(QUEUE, ERROR, "random", True)


PUBLISHERS = [None, *(FlowSettings(soft=soft, hard=hard) for soft in SOFT for hard in HARD)]


@pytest.mark.parametrize(("soft", "hard", "is_full"), itertools.product(SOFT, HARD, (False, True)))
def test_rule_each_combination(soft: str, hard: str, is_full: bool) -> None:
    """What the table in the docs says."""
    for publisher in PUBLISHERS:
        found = outcome(FlowSettings(soft=soft, hard=hard), publisher, is_full)
        if soft in (DISCARD, ERROR):
            assert found == soft
        elif publisher is not None and publisher.soft == BLOCK:
            assert found == BLOCK
        elif not is_full:
            assert found == QUEUE
        elif hard == ERROR:
            assert found == ERROR
        elif publisher is not None and publisher.hard == BLOCK:
            assert found == BLOCK
        else:
            assert found == DISCARD


def test_rule_nobody_waits_who_has_not_asked() -> None:
    for soft, hard, is_full in itertools.product(SOFT, HARD, (False, True)):
        for publisher in PUBLISHERS:
            if publisher is None or BLOCK not in (publisher.soft, publisher.hard):
                assert outcome(FlowSettings(soft=soft, hard=hard), publisher, is_full) != BLOCK


def test_when_a_publisher_goes_on() -> None:
    soft, hard = FlowSettings(soft=BLOCK), FlowSettings(hard=BLOCK)
    assert [is_room(soft, used) for used in (0, 0.1, 1)] == [True, False, False]
    assert [is_room(hard, used) for used in (0, 0.5, 0.6, 1)] == [True, True, False, False]


class PlainBacklog:
    """A list that is searched each time."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []
        self.order = "queue"

    def pop(self) -> bytes:
        index = {"queue": 0, "stack": -1}.get(self.order)
        if index is None:
            index = self.packets.index(max(self.packets, key=len))
        return self.packets.pop(index)


STEPS = st.lists(st.one_of(st.binary(max_size=4), st.none(), st.sampled_from(ORDERS)), max_size=60)


@given(STEPS)
def test_rule_orders(steps: list[bytes | str | None]) -> None:
    """queue: the oldest first; stack: the newest; random: the largest, of those the oldest."""
    backlog, plain = Backlog(), PlainBacklog()
    for step in steps:
        if isinstance(step, bytes):
            backlog.push(step)
            plain.packets.append(step)
        elif isinstance(step, str):
            backlog.order = step
            plain.order = step
        elif plain.packets:
            assert backlog.first() == plain.packets[_index(plain)]
            assert backlog.pop() == plain.pop()
        assert backlog.count == len(plain.packets)
        assert backlog.bytes == sum(len(packet) + PACKET_COST for packet in plain.packets)
    assert backlog.clear() == len(plain.packets)
    assert (backlog.count, backlog.bytes) == (0, 0)


def _index(plain: PlainBacklog) -> int:
    copy = PlainBacklog()
    copy.packets, copy.order = list(plain.packets), plain.order
    first = copy.pop()
    return plain.packets.index(first) if plain.order != "stack" else -1
