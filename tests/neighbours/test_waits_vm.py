# SPDX-License-Identifier: MIT
"""What messages of others that wait for room cost whoever binds beside them."""

from __future__ import annotations

import errno
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator

import pytest

from kbus import Ksock
from tests.effort import DIVISOR, reduced
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import fails, fill
from tests.kernel.processes import NOBODY, opened_by
from tests.kernel.room import waiting

pytestmark = [pytest.mark.axiom("isolation"), pytest.mark.rule(22, 41)]

KEPT = reduced(800)
"""KSocks of a user, each with a Request that waits."""
CALLS = 200
GOAL = 2.0
"""How many times its idle value the median may be."""


@pytest.fixture(autouse=True)
def room_for_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def processor_time(call: Callable[[], object]) -> float:
    """Microseconds of this thread's that a call takes, as the median of many."""
    times = []
    for _ in range(CALLS):
        began = time.thread_time_ns()
        call()
        times.append(time.thread_time_ns() - began)
    return statistics.median(times) / 1000


def keep(sender: Ksock, packet: bytes) -> None:
    """Have a message wait for room that nobody sleeps for."""
    os.write(sender.fileno(), packet)
    with fails(errno.EAGAIN):
        sender.send()


def bind_replier(name: str) -> Callable[[Ksock], None]:
    def rebind(ksock: Ksock) -> None:
        ksock.bind(name, replier=True)
        ksock.unbind(name, replier=True)

    return rebind


def bind_listener(ksock: Ksock) -> None:
    ksock.bind("$.Mine")
    ksock.unbind("$.Mine")


@pytest.mark.skipif(DIVISOR > 1, reason="no place to measure times")
@pytest.mark.parametrize(
    "rebind",
    [bind_replier("$.Mine"), bind_replier("$.Mine.*"), bind_listener],
    ids=["a replier", "a replier to a wildcard", "a listener for whom somebody waits"],
)
def test_requests_of_others_that_wait_cost_no_bind(ksock: OpenKsock, rebind: Callable[[Ksock], None]) -> None:
    """They wait for a replier of their sender's own."""
    binder = ksock()
    fill(binder, "$.A")
    keep(ksock(nonblocking=True), waiting())
    idle = processor_time(lambda: rebind(binder))
    replier = opened_by(ksock, NOBODY)
    replier.bind("$.Strange", replier=True)
    replier.set_max_messages(1)
    request = raw.message(b"$.Strange", flags=raw.WANT_A_REPLY | raw.ALL_OR_WAIT)
    first, *others = (opened_by(lambda: ksock(nonblocking=True), NOBODY) for _ in range(KEPT))
    raw.send(first, request)
    for sender in others:
        keep(sender, request)
    beside = processor_time(lambda: rebind(binder))
    print(f"BIND and UNBIND take {idle:.1f} us, and {beside:.1f} us beside {KEPT} Requests that wait")
    assert beside < GOAL * idle
