# SPDX-License-Identifier: MIT
"""When a worker wakes those who wait at a KSock: rule 45."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kbus import Ksock, reply_to
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import take
from tests.kernel.processes import Polling
from tests.kernel.test_tracing import TRACEFS, pytestmark, tracefs

__all__ = ["pytestmark", "tracefs"]

MOST_AT_ONCE = 16
"""How many waiters of a KSock are woken by whoever has something for it."""
OFTEN = 500
"""Requests, of which each wakes the replier, and the reply the sender."""


@pytest.fixture
def times_late(tracefs: None) -> Iterator[Callable[[], int]]:
    """Tells how often the worker that wakes was asked for, since the test began."""
    instance = TRACEFS / "instances" / "kbus-late"
    instance.mkdir()
    switch = instance / "events" / "workqueue" / "workqueue_queue_work" / "enable"
    switch.write_text("1")
    yield lambda: (instance / "trace").read_text().count("=kbus_wake_late ")
    switch.write_text("0")
    instance.rmdir()


def wake(listener: Ksock, sender: Ksock, count: int) -> None:
    """Have so many threads poll, and send what all of them find."""
    polling = [Polling(listener, select.POLLIN) for _ in range(count)]
    raw.send(sender, raw.message(b"$.A"))
    for each in polling:
        assert each.result() & select.POLLIN
    take(listener)


@pytest.mark.rule(45)
def test_a_crowd_that_has_gone_is_nobodys_concern(ksock: OpenKsock, times_late: Callable[[], int]) -> None:
    """The KSock is woken at once again, and not by a worker for ever."""
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    wake(listener, sender, MOST_AT_ONCE)
    assert times_late() == 0
    wake(listener, sender, MOST_AT_ONCE + 1)
    before = times_late()
    assert before == 1
    for _ in range(3):
        wake(listener, sender, MOST_AT_ONCE)
    assert times_late() == before


@pytest.mark.rule(45)
def test_who_is_often_woken_by_its_user_is_woken_at_once(
    ksock: OpenKsock, times_late: Callable[[], int]
) -> None:
    """However long that takes on a busy machine: it is a user's own time."""
    replier, sender = ksock(), ksock()
    replier.bind("$.A", replier=True)

    def answer() -> None:
        for _ in range(OFTEN):
            request = replier.wait_for_msg()
            assert request
            replier.send_msg(reply_to(request))

    with ThreadPoolExecutor() as executor:
        answering = executor.submit(answer)
        for _ in range(OFTEN):
            sender.call("$.A")
        answering.result()
    assert times_late() == 0
