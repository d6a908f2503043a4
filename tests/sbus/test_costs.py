# SPDX-License-Identifier: MIT
"""How long a packet keeps the daemon busy: everybody else waits meanwhile."""

from __future__ import annotations

import os
import time

import pytest

from kbus.sbus.bridge import Bridge
from kbus.sbus.peer import Peer
from tests.sbus.bystander import Bystander
from tests.sbus.conftest import StartDaemon

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


@pytest.mark.parametrize("what", HOSTILE)
def test_no_packet_takes_long(bridge: Bridge, peer: Peer, what: str) -> None:
    bridge.take(peer, [b"SUB a"])
    bridge.take(peer, [b"MSG a\0"] * 4000)
    bridge.traffic.drain()
    assert peer.backlog.count > 3000
    assert seconds(bridge, peer, HOSTILE[what]) < 0.005


@pytest.mark.parametrize("pattern", [b"*a" * 480, b"*a" * (LONG // 2)], ids=["a name", "a packet"])
def test_stars_are_counted(bridge: Bridge, peer: Peer, pattern: bytes) -> None:
    """However many there are in one pattern: new keys do not take longer than with as many patterns."""
    for number in range(1000):
        bridge.take(peer, [b"SUB %s%d*" % (pattern, number)])
    assert peer.globs <= bridge.limits.globs
    packets = [b"MSG " + b"a" * 980 + b"%d\0" % number for number in range(10)]
    assert seconds(bridge, peer, packets) < 0.005


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
