# SPDX-License-Identifier: MIT
"""How long a packet keeps the daemon busy: everybody else waits meanwhile."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack

import pytest

from kbus.sbus.bridge import Bridge
from kbus.sbus.flow import DISCARD
from kbus.sbus.limits import DEEPEST_WILDCARD, SEARCH_COST
from kbus.sbus.peer import Peer
from tests.sbus.bystander import Bystander
from tests.sbus.conftest import StartDaemon, connected
from tests.sbus.worst import WORST

LONG = 200_000
"""Bytes that fit into a socket's buffer of the usual size."""
HOSTILE = {
    "a key of separators": [b"MSG " + b"/" * LONG + b"\0"],
    "a key to escape": [b"MSG " + b"\xff" * LONG + b"\0"],
    "a pattern of separators": [b"SUB " + b"/" * LONG, b"UNSUB " + b"/" * LONG],
    "a pattern of separators and *": [b"SUB " + b"*/" * (LONG // 2), b"UNSUB " + b"*/" * (LONG // 2)],
    "servers in between": [b"MSG " + b"!/cred////" * (LONG // 10) + b"x\0"],
    "a secret pattern": [b"SUB !/cred////" + b"/" * LONG, b"UNSUB !/cred////" + b"/" * LONG],
    "another order": [b"CMSG order/random", b"MSG a\0", b"CMSG order/queue", b"MSG a\0"],
}


def seconds(bridge: Bridge, peer: Peer, packets: list[bytes]) -> float:
    """How long the daemon is busy with one of them."""
    bridge.take(peer, packets)
    began = time.process_time()
    for _ in range(10):
        bridge.take(peer, packets)
    bridge.traffic.drain()
    return (time.process_time() - began) / 10 / len(packets)


@pytest.mark.long("measures time")
@pytest.mark.parametrize("what", HOSTILE)
def test_no_packet_takes_long(bridge: Bridge, peer: Peer, what: str) -> None:
    bridge.take(peer, [b"SUB a"])
    bridge.take(peer, [b"MSG a\0"] * 4000)
    bridge.traffic.drain()
    assert peer.backlog.count > 3000
    assert seconds(bridge, peer, HOSTILE[what]) < 0.005


@pytest.mark.long("measures time")
@pytest.mark.parametrize("pattern", [b"*a" * 480, b"*a" * (LONG // 2)], ids=["a name", "a packet"])
def test_stars_are_counted(bridge: Bridge, peer: Peer, pattern: bytes) -> None:
    """However many there are in one pattern: new keys do not take longer than with as many patterns."""
    for number in range(1000):
        bridge.take(peer, [b"SUB %s%d*" % (pattern, number)])
    assert peer.user.wildcards <= bridge.limits.wildcards
    packets = [b"MSG " + b"a" * 980 + b"%d\0" % number for number in range(10)]
    assert seconds(bridge, peer, packets) < 0.005


def cost_of_keys(bridge: Bridge, peer: Peer, begin: bytes) -> float:
    """Seconds that a message takes whose key is new: the quickest attempt, as others use the machine."""
    attempts = []
    for attempt in range(5):
        packets = [b"MSG %s%d\0" % (begin, 1000 * attempt + number) for number in range(200)]
        began = time.process_time()
        bridge.take(peer, packets)
        bridge.traffic.drain()
        attempts.append((time.process_time() - began) / len(packets))
    return min(attempts)


@pytest.mark.long("measures time")
@pytest.mark.parametrize("what", WORST)
def test_the_worst_patterns_of_others(bridge: Bridge, what: str) -> None:
    """A message with a key that is new takes half a millisecond more at most: their limits see to that."""
    with ExitStack() as stack:
        publisher, hostile = (stack.enter_context(connected(bridge)) for _ in range(2))
        idle = cost_of_keys(bridge, publisher, WORST[what].key)
        bridge.take(hostile, [b"SUB " + pattern for pattern in WORST[what].patterns])
        assert not hostile.counts.dropped
        hostile.settings.soft = DISCARD
        assert cost_of_keys(bridge, publisher, WORST[what].key + b"0") < max(3 * idle, idle + 500e-6)


def test_limits_of_patterns_are_for_all_clients_of_a_user(bridge: Bridge) -> None:
    """However many connect; and who leaves can come back with as many at once."""
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(bridge)) for _ in range(20)]
        for number, client in enumerate(clients):
            bridge.take(client, [b"SUB */%d/%d" % (number, each) for each in range(2000)])
        assert clients[0].user.wildcards == bridge.limits.wildcards - 1
        assert sum(client.counts.dropped["too-many-subscriptions"] for client in clients) == 40_000 - 21_845
    with connected(bridge) as client:
        bridge.take(client, [b"SUB %d/*" % number for number in range(bridge.limits.wildcards // 2)])
        assert not client.counts.dropped


def test_stars_beside_other_bytes_count_more(bridge: Bridge, peer: Peer) -> None:
    """So a user may have as many as take little time with a new key."""
    most = bridge.limits.wildcards // (SEARCH_COST + 1)
    bridge.take(peer, [b"SUB %d*" % number for number in range(most + 1)])
    assert (len(peer.patterns), peer.counts.dropped) == (most, {"too-many-subscriptions": 1})
    bridge.take(peer, [b"UNSUB 0*", b"SUB other*", b"UNSUB 1*", b"SUB a/*/b"])
    assert peer.counts.dropped == {"too-many-subscriptions": 1}


def test_others_are_served_meanwhile(without_kbus: StartDaemon) -> None:
    running = without_kbus()
    bystander = Bystander(running)
    pid = os.fork()
    if pid == 0:
        with running.socket() as hostile:
            while True:
                for packets in HOSTILE.values():
                    for packet in packets:
                        hostile.send(packet)
    try:
        with bystander.client:
            bystander.is_served()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_patterns_with_stars_have_no_more_segments_than_that(bridge: Bridge, peer: Peer) -> None:
    for segments in (DEEPEST_WILDCARD, DEEPEST_WILDCARD + 1):
        bridge.take(peer, [b"SUB " + b"/".join([b"*"] * segments)])
        bridge.take(peer, [b"SUB " + b"/".join([b"a"] * segments)])
    assert (len(peer.patterns), peer.counts.dropped) == (3, {"too-many-subscriptions": 1})
