# SPDX-License-Identifier: MIT
"""Whose turn it is among those who have connected, and who has left before that."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus.sbus.newcomers import Newcomers, has_left

Pair = tuple[socket.socket, socket.socket]


@given(st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=60))
def test_rule_nobody_waits_for_a_second_one_of_another_user(steps: list[int | None]) -> None:
    """Between two that are taken of one user comes one of each that waited all the time."""
    newcomers: Newcomers[tuple[int, int]] = Newcomers()
    waiting: dict[int, list[int]] = {}
    passed_over: dict[int, list[int]] = {}
    for number, uid in enumerate(steps):
        if uid is not None:
            newcomers.add(uid, (uid, number))
            if not waiting.setdefault(uid, []):
                passed_over[uid] = []
            waiting[uid].append(number)
        elif (taken := newcomers.take()) is None:
            assert not any(waiting.values())
        else:
            assert waiting[taken[0]].pop(0) == taken[1]
            passed_over[taken[0]] = []
            for other, numbers in waiting.items():
                if numbers and other != taken[0]:
                    passed_over[other].append(taken[0])
        assert len(newcomers) == sum(map(len, waiting.values()))
        assert all(len(set(uids)) == len(uids) for uids in passed_over.values())


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def test_one_who_stays_has_not_left(pair: Pair) -> None:
    ours, theirs = pair
    assert not has_left(ours)
    theirs.shutdown(socket.SHUT_WR)
    assert not has_left(ours)


@pytest.mark.parametrize(("packets", "expected"), [([], True), ([b""], True), ([b"", b"SUB a"], False)])
def test_one_who_has_left_something_to_read_has_its_turn(
    pair: Pair, packets: list[bytes], expected: bool
) -> None:
    ours, theirs = pair
    for packet in packets:
        theirs.send(packet)
    theirs.close()
    assert has_left(ours) == expected
