# SPDX-License-Identifier: MIT
"""What there is to TRANSFER in Python without a device: batches, deadlines, errors."""

from __future__ import annotations

import errno
import math
import os
import time
from io import FileIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus import MessageId, SendManyError
from kbus import _abi as abi
from kbus import _transfer as transfer
from kbus._device import DeviceFile
from kbus._transfer import deadline_after

lengths = st.integers(11, 70) | st.integers(11, 5000)


@given(st.lists(lengths.map(lambda words: bytes(4 * words)), max_size=300))
def test_batches_have_every_message_in_order(messages: list[bytes]) -> None:
    batches = list(transfer._batches(messages))
    padded = b"".join(message.ljust((len(message) + 7) & ~7, b"\0") for message in messages)
    assert b"".join(batches) == padded
    assert all(batches)


def test_a_batch_has_no_more_than_there_is_room_for() -> None:
    small, large = bytes(44), bytes(100_000)
    assert [len(batch) for batch in transfer._batches([small] * 300)] == [128 * 48, 128 * 48, 44 * 48]
    assert [len(batch) for batch in transfer._batches([small, large, small])] == [48, 100_000, 48]
    assert [len(batch) for batch in transfer._batches([bytes(8192)] * 3)] == [16384, 8192]
    assert list(transfer._batches([])) == []


def test_a_time_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="timeout is NaN"):
        deadline_after(math.nan)


@pytest.mark.parametrize("timeout", [0, 0.25, 5, 1e9])
def test_deadlines(timeout: float) -> None:
    before = time.monotonic_ns()
    deadline = deadline_after(timeout)
    assert before <= deadline - int(timeout * 1e9) <= time.monotonic_ns()


@pytest.mark.parametrize("timeout", [-1, -1e30, -math.inf])
def test_a_deadline_that_was_before_is_now(timeout: float) -> None:
    before = time.monotonic_ns()
    assert before <= deadline_after(timeout) <= time.monotonic_ns()


@pytest.mark.parametrize("timeout", [1e9, 1e30, math.inf])
def test_a_very_long_time_fits(timeout: float) -> None:
    assert time.monotonic_ns() + 9e17 < deadline_after(timeout) < abi.TRANSFER_NEVER


def test_never() -> None:
    assert deadline_after(None) == abi.TRANSFER_NEVER


def test_the_parts_of_the_argument_are_where_they_are() -> None:
    """By the order that test_abi.py compares with the header."""
    argument = abi.TRANSFER.pack(*range(1, 17), *(0,) * 6)
    assert transfer.INPUT.unpack_from(argument, 0) == tuple(range(1, 11))
    assert transfer._PROGRESS.unpack_from(argument, transfer._PROGRESS_AT) == (8, 9, 10)
    assert transfer._RECEIVED.unpack_from(argument, transfer._RECEIVED_AT) == (11, 12, 13, 14)
    assert transfer._U64.unpack_from(argument, transfer._RECEIVE_AT) == (3,)
    assert transfer._U64.unpack_from(argument, transfer._DEADLINE_AT) == (4,)
    assert abi.U32.unpack_from(argument, transfer._RECEIVE_LEN_AT) == (7,)
    assert abi.U32.unpack_from(argument, transfer._RECEIVE_MAX_AT) == (15,)
    assert transfer._U64.unpack_from(argument, transfer._TIMES_AT) == (16,)


def test_a_send_many_error_tells_how_far_it_came() -> None:
    error = SendManyError(errno.EBUSY, os.strerror(errno.EBUSY), [MessageId(0, 7), MessageId(0, 8)], False)
    assert isinstance(error, OSError)
    assert error.errno == errno.EBUSY
    assert error.sent == [MessageId(0, 7), MessageId(0, 8)]
    assert error.kept is False
    assert str(error) == f"[Errno {errno.EBUSY}] {os.strerror(errno.EBUSY)}: message 2 of those to be sent"


class Kernel:
    """In the place of ioctl: what TRANSFER brings, call by call. Each is how long the next message is."""

    def __init__(self, *next_lengths: int) -> None:
        self.next_lengths = list(next_lengths)
        self.rooms: list[int] = []

    def __call__(self, _file: FileIO, _request: int, argument: bytearray) -> None:
        self.rooms.append(*abi.U32.unpack_from(argument, transfer._RECEIVE_LEN_AT))
        transfer._RECEIVED.pack_into(argument, transfer._RECEIVED_AT, 0, 0, 0, self.next_lengths.pop(0))


def test_a_message_that_came_too_late_takes_no_memory_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The length of the next message is told of one, too, that fits and has come after the last look."""
    kernel = Kernel(48, 0, 48, 0, 100_000, 0, 0)
    monkeypatch.setattr(DeviceFile, "ioctl", kernel)
    with DeviceFile(os.devnull) as file:
        under_test = transfer.Transfer(file)
        assert under_test.receive(abi.TRANSFER_NOW, 0, []) == []
        assert under_test.receive_bytes(16_384, []) == ([], [], 0, 0)
        assert under_test.receive(abi.TRANSFER_NOW, 0, []) == []
        assert under_test.receive(abi.TRANSFER_NOW, 0, []) == []
    assert kernel.rooms == [16_384] * 5 + [131_072] * 2
