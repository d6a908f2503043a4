# SPDX-License-Identifier: MIT
"""Calls of clients beside a KSock that is not there: what they take of what all clients share."""

from __future__ import annotations

import itertools
import math
import socket
from contextlib import ExitStack

import pytest

from kbus import MessageId
from kbus.sbus import calling
from kbus.sbus.bridge import Bridge
from kbus.sbus.calling import NOT_POSSIBLE, Calls
from kbus.sbus.counts import Dropped
from kbus.sbus.limits import BridgeLimits
from kbus.sbus.packets import SLASH
from kbus.sbus.peer import Peer
from tests.sbus.conftest import connected

_SERIALS = itertools.count(1)
CALL = b"CMSG kbus/call/60000\0token\0key\0"


class NoKsock:
    """Takes what it is given, and brings nothing."""

    def __init__(self, device: int, nonblocking: bool) -> None:
        self.abandoned: list[MessageId] = []

    def send_msg(self, message: object) -> MessageId:
        return MessageId(0, next(_SERIALS))

    def abandon(self, request: MessageId) -> None:
        self.abandoned.append(request)

    def fileno(self) -> int:
        return -1

    def bind(self, name: str, replier: bool) -> None:
        pass

    def close(self) -> None:
        pass


class Clock:
    """In the place of the module `time`: its moments count how often they are compared."""

    compared = 0

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return Moment(self.now)


class Moment(float):
    """A moment."""

    def __add__(self, other: float) -> float:
        return Moment(float(self) + other)

    def __eq__(self, other: object) -> bool:
        Clock.compared += 1
        return float(self) == other

    def __lt__(self, other: float) -> bool:
        Clock.compared += 1
        return float(self) < other

    def __le__(self, other: float) -> bool:
        Clock.compared += 1
        return float(self) <= other

    def __hash__(self) -> int:
        return hash(float(self))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(calling, "Ksock", NoKsock)
    monkeypatch.setattr(calling, "time", clock)
    return clock


def calls_of(peer: Peer) -> Calls:
    assert peer.calls is not None
    return peer.calls


def compared_by(bridge: Bridge, clock: Clock) -> int:
    """How many moments are compared when nothing is due."""
    before = Clock.compared
    calling.expire(bridge.deadlines)
    return Clock.compared - before


def test_rule_calls_that_are_not_due_take_no_time(bridge: Bridge, clock: Clock) -> None:
    """However many there are, a turn looks at one, and a new one at as many as it takes to find its place."""
    count = 2000
    with connected(bridge) as peer, connected(bridge) as other:
        bridge.take(other, [CALL] * count)
        assert compared_by(bridge, clock) <= 2
        for _ in range(10):
            before = Clock.compared
            bridge.take(peer, [CALL])
            assert Clock.compared - before <= 4 * math.log2(count)
        before = Clock.compared
        calls_of(peer).close()
        assert Clock.compared - before <= 10 * 4 * math.log2(count)


def test_rule_calls_end_in_the_order_of_their_limits(bridge: Bridge, clock: Clock) -> None:
    """Each once, those with equal ones too, and none that has been answered or whose client has left."""
    with connected(bridge) as peer, connected(bridge) as other:
        for limit in (3000, 1000, 2000, 1000):
            bridge.take(peer, [b"CMSG kbus/call/%d\0t\0key\0" % limit])
            bridge.take(other, [b"CMSG kbus/call/%d\0t\0key\0" % limit])
        ksock = calls_of(peer)._ksock
        first, short, middle, again = calls_of(peer)._asked
        calls_of(other).close()
        calls_of(peer)._end_call(middle)
        calling.expire(bridge.deadlines)
        assert ksock.abandoned == []  # type: ignore[union-attr]
        clock.now += 1
        calling.expire(bridge.deadlines)
        assert ksock.abandoned == [short, again]  # type: ignore[union-attr]
        clock.now += 60
        calling.expire(bridge.deadlines)
        assert ksock.abandoned == [short, again, first]  # type: ignore[union-attr]
        assert not bridge.deadlines


@pytest.mark.parametrize("more", [0, 1])
def test_rule_the_answer_to_serve_is_no_longer_than_a_packet_may_be(bus: object, more: int) -> None:
    """A key that would make it so is not served, and what has asked for that is dropped as too long."""
    most = 300
    bridge = Bridge(bus, SLASH, "$", BridgeLimits(packet=most))  # type: ignore[arg-type]
    longest = most - len(b"CMSG kbus/served\0" + b"\0" + NOT_POSSIBLE + b"\0")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        peer = bridge.connect(ours)
        bridge.take(peer, [b"CMSG kbus/serve\0" + b"k" * (longest + more)])
        assert peer.counts.dropped == ({"too-large": 1} if more else {})
        assert len(calls_of(peer)._served) == 1 - more
        bridge.disconnect(peer)


def test_rule_ksocks_of_clients_leave_what_is_reserved(bus: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a descriptor, of which a client has two; only root and the daemon's own user have the last."""
    monkeypatch.setattr("kbus.sbus.bridge.room_for_clients", lambda: 26)
    bridge = Bridge(bus, SLASH, "$", BridgeLimits())  # type: ignore[arg-type]
    with ExitStack() as stack:
        peers = []
        for uid in range(1001, 1005):
            monkeypatch.setattr("kbus.sbus.identity.peer_credentials", lambda _, uid=uid: (1, uid, uid))
            while True:
                try:
                    bridge.users.check_clients(uid)
                except Dropped:
                    break
                peer = stack.enter_context(connected(bridge))
                peers.append(peer)
                bridge.take(peer, [b"CMSG kbus/serve\0a"])
        served = [peer for peer in peers if calls_of(peer)._ksock is not None]
        assert 2 * len(peers) + len(served) <= 2 * (26 - 3)
        assert len(served) > 10
        for _ in range(3):
            bridge.users.check_clients(0)
            bridge.users.connect(0)
        for peer in served:
            calls_of(peer).close()
        assert bridge.users.callers == 0
