# SPDX-License-Identifier: MIT
"""How long a packet keeps the daemon busy: everybody else waits meanwhile."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack

import pytest

from kbus.sbus.bridge import Bridge
from kbus.sbus.flow import DISCARD
from kbus.sbus.limits import DEEPEST_WILDCARD
from kbus.sbus.peer import Peer
from tests.sbus.bystander import Bystander
from tests.sbus.conftest import StartDaemon, connected, take_all
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
    take_all(bridge, peer, packets)
    began = time.process_time()
    for _ in range(10):
        take_all(bridge, peer, packets)
    bridge.traffic.drain()
    return (time.process_time() - began) / 10 / len(packets)


@pytest.mark.long("measures time")
@pytest.mark.parametrize("what", HOSTILE)
def test_no_packet_takes_long(bridge: Bridge, peer: Peer, what: str) -> None:
    take_all(bridge, peer, [b"SUB a"])
    take_all(bridge, peer, [b"MSG a\0"] * 4000)
    bridge.traffic.drain()
    assert peer.backlog.count > 3000
    assert seconds(bridge, peer, HOSTILE[what]) < 0.005


@pytest.mark.parametrize("pattern", [b"*a" * 480, b"*a" * (LONG // 2)], ids=["a name", "a packet"])
def test_stars_are_counted(bridge: Bridge, peer: Peer, pattern: bytes) -> None:
    """However many there are in one pattern: new keys do not take longer than with as many patterns."""
    for number in range(1000):
        take_all(bridge, peer, [b"SUB %s%d*" % (pattern, number)])
    assert peer.usage.globs <= bridge.limits.globs
    packets = [b"MSG " + b"a" * 980 + b"%d\0" % number for number in range(10)]
    assert seconds(bridge, peer, packets) < 0.005


def cost_of_keys(bridge: Bridge, peer: Peer, begin: bytes) -> float:
    """Seconds that a message takes whose key is new: the quickest attempt, as others use the machine."""
    attempts = []
    for attempt in range(5):
        packets = [b"MSG %s%d\0" % (begin, 1000 * attempt + number) for number in range(200)]
        began = time.process_time()
        take_all(bridge, peer, packets)
        bridge.traffic.drain()
        attempts.append((time.process_time() - began) / len(packets))
    return min(attempts)


@pytest.mark.long("measures time")
@pytest.mark.parametrize("what", WORST)
def test_the_worst_patterns_of_others(bridge: Bridge, what: str) -> None:
    """A message with a key that is new takes little longer than without them, matching or not."""
    with ExitStack() as stack:
        publisher, hostile = (stack.enter_context(connected(bridge)) for _ in range(2))
        idle = cost_of_keys(bridge, publisher, WORST[what].key)
        take_all(bridge, hostile, [b"SUB " + pattern for pattern in WORST[what].patterns])
        assert not hostile.counts.dropped
        hostile.settings.soft = DISCARD
        assert cost_of_keys(bridge, publisher, WORST[what].key + b"0") < max(3 * idle, idle + 50e-6)


def test_limits_of_patterns_are_for_all_clients_of_a_user(bridge: Bridge) -> None:
    """However many connect; and who leaves can come back with as many at once."""
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(bridge)) for _ in range(20)]
        for number, client in enumerate(clients):
            take_all(bridge, client, [b"SUB */%d/%d" % (number, each) for each in range(2000)])
        assert sum(client.usage.segments for client in clients) == bridge.limits.wildcards - 1
        assert sum(client.counts.dropped["too-many-subscriptions"] for client in clients) == 40_000 - 21_845
    with connected(bridge) as client:
        take_all(bridge, client, [b"SUB %d/*" % number for number in range(bridge.limits.wildcards // 2)])
        assert not client.counts.dropped


def test_what_everybody_subscribes_to_counts_once(bridge: Bridge) -> None:
    """A search in a key that is made once is no matter of how many want it."""
    with ExitStack() as stack:
        for _ in range(2 * bridge.limits.globs):
            client = stack.enter_context(connected(bridge))
            take_all(bridge, client, [b"SUB log*", b"SUB log*"])
            assert not client.counts.dropped
        take_all(bridge, client, [b"UNSUB log*"])
        take_all(bridge, client, [b"SUB %d*" % number for number in range(bridge.limits.globs)])
        assert client.counts.dropped == {"too-many-subscriptions": 1}


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


@pytest.mark.parametrize("slow", [b"SUB a", b"UNSUB a", b"CMSG echo/off", b"MSG new\0", b"garbage", b""])
def test_what_takes_longer_is_the_last_of_a_turn(bridge: Bridge, peer: Peer, slow: bytes) -> None:
    """Others come between; messages with keys that are known are sent together."""
    take_all(bridge, peer, [b"MSG a\0"])
    left = bridge.take(peer, [b"MSG a\0", b"MSG a\0", slow, b"MSG a\0", slow])
    assert list(left) == [b"MSG a\0", slow]
    assert peer.counts.received == 4


def test_patterns_with_stars_have_no_more_segments_than_that(bridge: Bridge, peer: Peer) -> None:
    for segments in (DEEPEST_WILDCARD, DEEPEST_WILDCARD + 1):
        take_all(bridge, peer, [b"SUB " + b"/".join([b"*"] * segments)])
        take_all(bridge, peer, [b"SUB " + b"/".join([b"a"] * segments)])
    assert (len(peer.patterns), peer.counts.dropped) == (3, {"too-many-subscriptions": 1})
