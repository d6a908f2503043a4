# SPDX-License-Identifier: MIT
"""MessageId and OrigFrom as values."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Union

import pytest
from hypothesis import given

import kbus
from kbus import MessageId, OrigFrom

from .strategies import message_ids, orig_froms


@given(message_ids, message_ids)
def test_order_is_by_network_then_serial(one: MessageId, other: MessageId) -> None:
    pairs = (one.network_id, one.serial_num), (other.network_id, other.serial_num)
    assert (one < other) == (pairs[0] < pairs[1])
    assert (one == other) == (pairs[0] == pairs[1])


@given(message_ids | orig_froms)
def test_repr_makes_the_same(pair: Union[MessageId, OrigFrom]) -> None:
    assert eval(repr(pair), vars(kbus)) == pair


@given(message_ids | orig_froms)
def test_copies_are_equal(pair: Union[MessageId, OrigFrom]) -> None:
    assert copy.copy(pair) == pair
    assert pickle.loads(pickle.dumps(pair)) == pair


def test_text() -> None:
    assert str(MessageId(0, 5)) == "[0:5]"
    assert repr(MessageId(0, 5)) == "MessageId(0, 5)"
    assert str(OrigFrom(1, 2)) == "[1:2]"
    assert repr(OrigFrom(1, 2)) == "OrigFrom(1, 2)"


def test_they_are_hashable() -> None:
    assert {MessageId(0, 1): "one"}[MessageId(0, 1)] == "one"
    assert len({OrigFrom(1, 2), OrigFrom(1, 2), OrigFrom(2, 1)}) == 2


def test_the_two_are_never_equal() -> None:
    pairs: list[object] = [MessageId(1, 2), OrigFrom(1, 2)]
    assert pairs[0] != pairs[1]


def test_they_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        MessageId(0, 1).serial_num = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        OrigFrom(0, 1).local_id = 2  # type: ignore[misc]


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_numbers_must_fit_32_bits(number: int) -> None:
    with pytest.raises(ValueError, match=f"network_id is {number}"):
        MessageId(number, 1)
    with pytest.raises(ValueError, match=f"serial_num is {number}"):
        MessageId(1, number)
    with pytest.raises(ValueError, match=f"network_id is {number}"):
        OrigFrom(number, 1)
    with pytest.raises(ValueError, match=f"local_id is {number}"):
        OrigFrom(1, number)
