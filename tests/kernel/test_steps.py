# SPDX-License-Identifier: MIT
"""What could take long is done in steps, between which others can go on: as the function tracer sees it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbus import Ksock
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.test_tracing import TRACEFS, tracefs

__all__ = ["tracefs"]

STEP = 64
"""KBUS_STEP of kernel/kbus.h."""
MANY = 10 * STEP + 1


@pytest.fixture
def callees(tracefs: None) -> Iterator[Callable[[str, Callable[[], None]], list[str]]]:
    """Tells what one function of the kernel calls itself, in order, while something is done."""
    if "function_graph" not in (TRACEFS / "available_tracers").read_text().split():
        pytest.skip("this kernel has no such tracer")

    def of(function: str, body: Callable[[], None]) -> list[str]:
        switch("set_graph_function", function)
        switch("max_graph_depth", "2")
        switch("current_tracer", "function_graph")
        body()
        switch("tracing_on", "0")
        return re.findall(r"\|    (\w+)(?: \[kbus\])?\(\);", (TRACEFS / "trace").read_text())

    yield of
    for name, value in (("current_tracer", "nop"), ("max_graph_depth", "0"), ("set_graph_function", "")):
        switch(name, value)
    switch("tracing_on", "1")


def switch(name: str, value: str) -> None:
    Path(TRACEFS / name).write_text(value)


@pytest.mark.rule(27)
@pytest.mark.axiom("isolation", "lifetime")
def test_a_close_with_many_unanswered_requests(
    ksock: OpenKsock, callees: Callable[[str, Callable[[], None]], list[str]]
) -> None:
    """The asker closes: its Requests stay with their replier, without the status that each had ready."""
    replier, asker = ksock(), Ksock()
    for one in (replier, asker):
        one.set_max_messages(2 * MANY)
    replier.bind("$.A", replier=True)
    for _ in range(MANY):
        raw.send(asker, raw.message(b"$.A", flags=raw.WANT_A_REPLY))
    called = callees("kbus_requests_disown", asker.close)
    unlocks = [number for number, name in enumerate(called) if "spin_unlock" in name]
    freed = [
        called[begin:end].count("kbus_msg_put") for begin, end in zip([0, *unlocks], [*unlocks, len(called)])
    ]
    assert sum(freed) == MANY
    assert max(freed) <= STEP
