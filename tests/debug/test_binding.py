# SPDX-License-Identifier: MIT
"""BIND and UNBIND, with each allocation and copy failing in turn."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

import pytest

from kbus import Ksock
from tests.debug import faults
from tests.debug.faults import Attempt, Call
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import bindings, ksock_stats, names, packets

NAME = b"$.A.Name.Of.Some.Length"
EVENT, UNBOUND = "$.KBUS.ReplierBindEvent", "$.KBUS.Replier.Unbound"


def call(ksock: Ksock, which: str, is_replier: bool) -> Call:
    """BIND or UNBIND of NAME."""
    request = struct.pack("=IIQ", is_replier, len(NAME), ctypes.addressof(_NAME))
    return faults.ioctl(ksock, which, faults.buffer(request))


_NAME = faults.buffer(NAME)


@pytest.fixture
def watcher(ksock: OpenKsock) -> Iterator[Ksock]:
    """A KSock that is told of repliers' binds, six times over, and of every status."""
    one = ksock()
    for _ in range(6):
        one.bind(EVENT)
    one.bind("$.KBUS.Replier.*")
    one.report_replier_binds()
    yield one
    one.report_replier_binds(False)


@pytest.mark.abi("BIND")
@pytest.mark.parametrize(("who", "is_replier"), [("listener", False), ("replier", True)])
def test_bind(ksock: OpenKsock, who: str, is_replier: bool) -> None:
    one = ksock()

    def done(_: Attempt) -> None:
        assert [line.name for line in bindings()] == [NAME.decode()]
        one.unbind(NAME.decode(), is_replier)

    faults.each(f"BIND, {who}", lambda: call(one, "BIND", is_replier), done)


@pytest.mark.abi("UNBIND")
@pytest.mark.parametrize(("who", "is_replier"), [("listener", False), ("replier", True)])
def test_unbind(ksock: OpenKsock, who: str, is_replier: bool) -> None:
    one = ksock()

    def prepare() -> Call:
        if not bindings():
            one.bind(NAME.decode(), is_replier)
        return call(one, "UNBIND", is_replier)

    def done(_: Attempt) -> None:
        assert bindings() == []

    faults.each(f"UNBIND, {who}", prepare, done)


@pytest.mark.rule(32)
@pytest.mark.abi("BIND", "REPORTREPLIERBINDS")
def test_bind_with_events(ksock: OpenKsock, watcher: Ksock) -> None:
    one = ksock()

    def done(_: Attempt) -> None:
        assert names(watcher) == [EVENT] * 6
        one.unbind(NAME.decode(), replier=True)
        assert names(watcher) == [EVENT] * 6

    faults.each("BIND, replier, with events", lambda: call(one, "BIND", True), done)


@pytest.mark.rule(10, 32)
@pytest.mark.axiom("answer", "loss")
@pytest.mark.abi("UNBIND", "REPORTREPLIERBINDS")
def test_unbind_with_events_and_unread_requests(ksock: OpenKsock, watcher: Ksock) -> None:
    sender, replier = ksock(), ksock()
    asked: list[raw.Pair] = []

    def prepare() -> Call:
        if not asked:
            replier.bind(NAME.decode(), replier=True)
            assert names(watcher) == [EVENT] * 6
            asked.extend(raw.send(sender, raw.message(NAME, flags=raw.WANT_A_REPLY)) for _ in range(6))
        return call(replier, "UNBIND", True)

    def done(_: Attempt) -> None:
        answers = packets(sender)
        assert [answer.in_reply_to for answer in answers] == asked
        assert {answer.name for answer in answers} == {UNBOUND.encode()}
        asked.clear()
        seen = names(watcher)
        assert seen[:6] == [EVENT] * 6
        statuses.extend(seen[6:])
        rounds.append(6)
        # A copy for which there was no memory counts as missed.
        assert set(statuses) <= {UNBOUND}
        assert len(statuses) + ksock_stats(watcher)["lost"] == sum(rounds)

    statuses: list[str] = []
    rounds: list[int] = []
    faults.each("UNBIND, replier, with events and unread Requests", prepare, done)
