# SPDX-License-Identifier: MIT
"""Messages between clients and a KBUS on which others send, too."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from kbus import _abi as abi
from kbus.sbus import traffic
from kbus.sbus.bridge import Bridge
from kbus.sbus.bus import announcement
from kbus.sbus.limits import BridgeLimits
from kbus.sbus.packets import DOT, SLASH
from kbus.sbus.peer import Peer
from tests.sbus.conftest import connected
from tests.sbus.echo import EchoBus

OTHER = 2
"""The id of another KSock."""


class BusyBus(EchoBus):
    """A bus on which others send so many messages before each call, which brings a few."""

    def __init__(self, queue_length: int = 1000) -> None:
        super().__init__(receive_size=1000)
        self.queue_length = queue_length
        self.flood = 0
        self.message = announcement(b"$.other", b"", 0)
        self.calls = 0

    def exchange(self, outgoing: bytes) -> tuple[int, int, bytes]:
        self.calls += 1
        assert self.calls < 1000, "the clients have no turn"
        for _ in range(self.flood):
            self.arrive(self.message, OTHER)
        return super().exchange(outgoing)


@pytest.fixture
def bus() -> Iterator[BusyBus]:
    bus = BusyBus()
    yield bus
    bus.close()


def test_a_flood_of_others_ends_a_turn(bus: BusyBus, bridge: Bridge, peer: Peer) -> None:
    """What clients have published waits meanwhile, and goes when there is room."""
    bus.flood = 100
    for _ in range(10):
        bridge.traffic.exchange()
    bridge.take(peer, [b"MSG a\0"] * 20)
    for _ in range(10):
        bridge.traffic.exchange()
    assert peer.counts.published == 0
    bus.flood = 0
    while bus.queued:
        bridge.traffic.exchange()
    assert peer.counts.published == 20


def test_no_more_is_taken_of_clients_while_what_they_have_sent_waits(
    bus: BusyBus, bridge: Bridge, peer: Peer
) -> None:
    bus.flood = 100
    for _ in range(10):
        bridge.traffic.exchange()
    assert not bridge.traffic.is_stuck
    bridge.take(peer, [b"MSG a\0"] * 200)
    assert bridge.traffic.is_stuck
    bus.flood = 0
    while bus.queued:
        bridge.traffic.exchange()
    assert not bridge.traffic.is_stuck
    assert peer.counts.published == 200


@pytest.mark.parametrize("flags", [0, abi.BIT_URGENT])
def test_a_flood_of_others_does_not_keep_a_client_from_subscribing(
    bus: BusyBus, bridge: Bridge, peer: Peer, flags: int
) -> None:
    """All that had come before is to be delivered before, which does not mean all that comes meanwhile."""
    bus.message = bus.message[:28] + abi.U32.pack(flags) + bus.message[32:]
    bus.flood = 100
    bridge.traffic.exchange()
    bridge.take(peer, [b"MSG a\0", b"SUB a"])
    assert peer.counts.published == 1
    assert peer.patterns


@pytest.mark.parametrize("root", ["$", "$.Home", "$.KBUS"])
def test_rule_nothing_is_published_below_kbus(bus: BusyBus, peer: Peer, root: str) -> None:
    """Of the root, whatever that is."""
    bridge = Bridge(bus, SLASH, root, BridgeLimits())  # type: ignore[arg-type]
    bridge.take(peer, [b"MSG KBUS/x\0", b"MSG KBUSx\0"])
    bridge.traffic.drain()
    dropped = 2 if root == "$.KBUS" else 1
    assert (peer.counts.published, peer.counts.dropped) == (2 - dropped, {"names-of-kbus": dropped})


def test_dot_has_no_secret_patterns(bus: BusyBus, peer: Peer) -> None:
    """What begins like one is a pattern as any other."""
    bridge = Bridge(bus, DOT, "$", BridgeLimits())  # type: ignore[arg-type]
    bridge.take(peer, [b"SUB !/cred/1/2/3/x", b"MSG !/cred/1/2/3/x\0"])
    bridge.traffic.drain()
    assert peer.counts.delivered == 1
    bridge.take(peer, [b"UNSUB !/cred/1/2/3/x", b"MSG !/cred/1/2/3/x\0"])
    bridge.traffic.drain()
    assert peer.counts.delivered == 1


def test_rule_keys_that_are_too_long_are_told_of_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, bridge: Bridge, peer: Peer
) -> None:
    seconds = itertools.count(step=2)
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    for _ in range(5):
        bridge.take(peer, [b"MSG a", b"MSG " + b"a" * 999 + b"\0"])
    assert peer.counts.dropped == {"malformed": 5, "name-too-long": 5}
    said = capsys.readouterr().err
    assert (said.count("malformed"), said.count("name-too-long")) == (5, 1)


def test_rule_what_clients_publish_has_room(bus: BusyBus, bridge: Bridge, peer: Peer) -> None:
    """Also when others have sent since KBUS was asked last, and when little is allowed."""
    bus.queue_length = 50
    bridge = Bridge(bus, SLASH, "$", BridgeLimits())  # type: ignore[arg-type]
    for _ in range(40):
        bus.arrive(bus.message, OTHER)
    bridge.take(peer, [b"MSG a\0"] * 300)
    bridge.traffic.drain()
    assert peer.counts.published == 300
    assert bus.lost == 0


def test_rule_packets_up_to_the_limit(bus: BusyBus, bridge: Bridge, peer: Peer) -> None:
    """That many bytes and no more, from clients and to them; what is dropped is counted, and never cut."""
    most = bridge.limits.packet
    before = len(b"MSG a\0")
    bridge.take(peer, [b"SUB a", b"MSG a\0" + bytes(most - before), b"MSG a\0" + bytes(most - before + 1)])
    bridge.traffic.drain()
    assert (peer.counts.delivered, peer.counts.dropped) == (1, {"too-large": 1})
    for length in (most - before, most - before + 1):
        bus.arrive(announcement(b"$.a", bytes(length), 0), OTHER)
    bridge.traffic.drain()
    assert peer.counts.delivered + peer.backlog.count == 2
    assert peer.counts.dropped == {"too-large": 1, "too-large-for-client": 1}


def test_rule_the_default_is_what_the_first_daemons_clients_can_send() -> None:
    assert BridgeLimits().packet == 409_600


def test_rule_the_cache_of_routes_is_bounded(
    bus: BusyBus, bridge: Bridge, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By how many clients it has in all, whatever keys there are; and all of them get what they want."""
    monkeypatch.setattr(traffic, "_MOST_TARGETS", 10)
    with connected(bridge) as one, connected(bridge) as other:
        for client in (peer, one, other):
            bridge.take(client, [b"SUB "])
        for number in range(100):
            bridge.take(peer, [b"MSG n%d\0" % number])
            bridge.traffic.drain()
            assert sum(len(route[1]) for route in bridge.traffic._routes.values()) <= 10
        for client in (peer, one, other):
            assert client.counts.delivered == 100
