# SPDX-License-Identifier: MIT
"""A descriptor that can be read when it is time."""

from __future__ import annotations

import errno
import resource
import select
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from kbus.sbus.timer import Timer


@pytest.fixture
def timer() -> Iterator[Timer]:
    with closing(Timer()) as made:
        yield made


def is_due(timer: Timer, seconds: float) -> bool:
    """Whether it can be read, or can within so many seconds."""
    return bool(select.select([timer], [], [], seconds)[0])


def test_it_is_due_when_it_is_time(timer: Timer) -> None:
    at = time.monotonic() + 0.2
    timer.set(at)
    assert is_due(timer, 60)
    assert time.monotonic() >= at
    assert is_due(timer, 0), "it stays so"


def test_it_is_due_in_the_past(timer: Timer) -> None:
    for at in (0.0, time.monotonic() - 1):
        timer.set(at)
        assert is_due(timer, 0)


def test_it_is_due_when_it_was_set_last(timer: Timer) -> None:
    assert not is_due(timer, 0)
    timer.set(time.monotonic())
    timer.set(time.monotonic() + 3600)
    assert not is_due(timer, 0.1)
    timer.set(time.monotonic())
    timer.set(None)
    assert not is_due(timer, 0.1)


def test_there_may_be_no_descriptor() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(OSError) as raised:
            Timer()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert raised.value.errno == errno.EMFILE
