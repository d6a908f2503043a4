# SPDX-License-Identifier: MIT
"""The thread that has the bus, and those that make calls there."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from queue import SimpleQueue
from typing import Any, Optional

import pytest

from kbus import _abi as abi
from kbus.testing.core import WAITS, BusClosed, Call, Core
from kbus.testing.model.bus import DeviceLimits
from kbus.testing.ready import Ready
from tests.python.test_interrupted import HandlerError, Interrupting


@pytest.fixture
def core() -> Iterator[Core]:
    """One with a device."""
    core = Core(DeviceLimits(), 1)
    yield core
    with suppress(BusClosed):
        core.stop()


def test_a_call_that_an_exception_has_ended_does_nothing_more(core: Core) -> None:
    """Whose memory it would write to may have another use by then."""
    done: list[int] = []
    for at in count(1):
        busy, waits = threading.Event(), threading.Event()

        def open_up() -> None:
            waits.set()  # noqa: B023
            busy.set()  # noqa: B023

        core._calls.put(Call(lambda is_over: busy.wait()))  # noqa: B023
        # By then the call waits, and is interrupted only when it is done.
        timer = threading.Timer(0.5, open_up)
        timer.start()
        with Interrupting(at), suppress(HandlerError):
            core.do(Call(lambda is_over: done.append(at)))  # noqa: B023
        timer.cancel()
        busy.set()
        core.at_once(lambda: None)
        if waits.is_set():
            break
        assert done == [], at
    assert at > 5
    assert done == [at]


def test_a_bus_that_has_ended_says_so(core: Core) -> None:
    core.stop()
    with pytest.raises(BusClosed):
        core.at_once(lambda: None)


def test_what_is_queued_at_the_end_ends(core: Core) -> None:
    """As it is when calls race with the end."""
    busy = threading.Event()
    core._calls.put(Call(lambda is_over: busy.wait()))
    core._calls.put(None)
    late = Call(lambda is_over: None)
    core._calls.put(late)
    busy.set()
    is_good, error = late.outcome.get(timeout=10)
    assert not is_good
    assert isinstance(error, BusClosed)


def test_what_is_queued_after_the_end_ends(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bus ends between the check that it has not, and when the call is queued."""

    class Late(SimpleQueue[Optional[Call]]):
        def put(self, call: Optional[Call], *options: Any) -> None:
            queue.put(None)
            core._thread.join()
            super().put(call)

    queue = core._calls
    monkeypatch.setattr(core, "_calls", Late())
    ended: SimpleQueue[object] = SimpleQueue()

    def ask() -> None:
        try:
            ended.put(core.at_once(lambda: None))
        except BusClosed as error:
            ended.put(error)

    threading.Thread(target=ask, daemon=True).start()
    assert isinstance(ended.get(timeout=10), BusClosed)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_call_under_way_ends_if_the_thread_fails(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise SystemExit

    monkeypatch.setattr(core, "_go_on_with_those_that_wait", fail)
    call = Call(lambda is_over: None)
    core._calls.put(call)
    is_good, error = call.outcome.get(timeout=10)
    assert not is_good
    assert isinstance(error, BusClosed)


@pytest.mark.parametrize("deadline", [2**63 - 1, abi.TRANSFER_NEVER - 1])
def test_a_deadline_that_is_far_off(core: Core, deadline: int) -> None:
    waits = Call(lambda is_over: WAITS, deadline)
    core._calls.put(waits)
    core._calls.put(Call(lambda is_over: None))
    done = Call(lambda is_over: None)
    core._calls.put(done)
    assert done.outcome.get(timeout=10) == (True, None)


def test_a_descriptor_that_its_program_uses_itself() -> None:
    """As one that takes the stand-in for the device does."""
    ready = Ready()
    with socket.socket(fileno=ready.descriptor()) as theirs:
        ready.show(select.POLLIN | select.POLLOUT)
        assert theirs.recv(100) == b"\0"
        ready.show(0)
        ready.show(select.POLLIN | select.POLLOUT)
        theirs.shutdown(socket.SHUT_RDWR)
        for mask in (0, select.POLLIN, select.POLLOUT, 0):
            ready.show(mask)
    ready.close()
