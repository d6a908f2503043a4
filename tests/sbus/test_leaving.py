# SPDX-License-Identifier: MIT
"""Clients that leave, or stop sending: what they have sent is dealt with, and nothing of them stays."""

from __future__ import annotations

import gc
import os
import signal
import socket
import weakref
from contextlib import suppress
from pathlib import Path

import pytest

from kbus.sbus import Client
from kbus.sbus.bridge import Bridge
from tests.kernel.helpers import PATIENCE, wait_until
from tests.sbus.conftest import StartDaemon, connected
from tests.sbus.orphan import orphan
from tests.sbus.running import Daemon, nothing_more, receive, settle

PAYLOAD = b"x" * 10_000
IN_ALL = 500_000
"""Bytes of all queues."""


def waiting(running: Daemon) -> bool:
    """Whether a publisher waits for room."""
    return any(each.get("waits") for each in running.stats())


def fill(running: Daemon, reader: Client) -> int:
    """Publish to one that does not read until half of all bytes are queued; return how many messages."""
    reader.subscribe("a")
    settle(reader)
    count = 0
    with running.client() as publisher:
        while running.stats()[0]["queued_bytes"] < IN_ALL // 2:
            publisher.publish("a", PAYLOAD)
            settle(publisher)
            count += 1
    return count


@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "is disconnected"])
def test_who_waits_for_one_that_goes_goes_on(without_kbus: StartDaemon, mode: str, leaves: bool) -> None:
    """In the second case the daemon does not try to send to it again."""
    running = without_kbus("--max-queued", "10")
    with running.client() as publisher:
        publisher.control(f"blocking/{mode}/block")
        slow = running.client()
        slow.subscribe("a")
        settle(slow)
        publisher.set_blocking(False)
        while not waiting(running):
            with suppress(BlockingIOError):
                publisher.publish("a", PAYLOAD)
        publisher.set_blocking(True)
        if leaves:
            slow.close()
        else:
            slow.subscribe("!/cred/*")
        publisher.publish("b")
        settle(publisher)
        assert not waiting(running)
        slow.close()


def test_who_has_room_in_a_queue_does_not_wait_for_other_queues(without_kbus: StartDaemon) -> None:
    """They have all that the user may have; when there is room again, nobody would tell the publisher."""
    running = without_kbus("--max-user-queued-bytes", str(IN_ALL))
    with running.client() as slow, running.client() as other, running.client() as publisher:
        for reader, key in ((slow, "slow"), (other, "other")):
            reader.subscribe(key)
            settle(reader)
        publisher.control("blocking/hard/block")
        for key, queued in (("slow", 1), ("other", IN_ALL - 2 * len(PAYLOAD))):
            while running.stats()[0]["queued_bytes"] < queued:
                publisher.publish(key, PAYLOAD)
                settle(publisher)
        for _ in range(3):
            publisher.publish("slow", PAYLOAD)
        wait_until(lambda: "user-queued-bytes" in running.dropped(), "one is dropped")
        assert not waiting(running)


def test_what_has_been_read_makes_room_in_all(without_kbus: StartDaemon) -> None:
    running = without_kbus("--max-queued-bytes-in-all", str(IN_ALL))
    for _ in range(5):
        with running.client() as reader:
            receive(reader, fill(running, reader))
            wait_until(lambda: running.stats()[0]["queued_bytes"] == 0, "all of it has been sent")
    assert running.dropped() == {}


def test_what_those_who_leave_have_not_read_makes_room_in_all(without_kbus: StartDaemon) -> None:
    running = without_kbus("--max-queued-bytes-in-all", str(IN_ALL))
    for _ in range(5):
        with running.client() as reader:
            fill(running, reader)
        wait_until(lambda: running.stats()[0]["clients"] == 1, "it has left")
    assert set(running.dropped()) == {"client-left"}


@pytest.mark.parametrize("has_mail", [False, True])
def test_the_last_packets_of_one_that_leaves(without_kbus: StartDaemon, has_mail: bool) -> None:
    """More than are read at once, of any kind, also if it has left mail unread."""
    running = without_kbus()
    with running.client() as client:
        client.subscribe("a")
        client.subscribe("b/")
        settle(client)
        with running.client() as leaving:
            if has_mail:
                leaving.subscribe("a")
                settle(leaving)
                client.publish("a", b"mail")
                receive(client, 1)
            running.signal(signal.SIGSTOP)
            for number in range(120):
                leaving.publish("a", b"%d" % number)
            for number in range(20):
                leaving.send(b"UNSUB", "nothing")
                leaving.publish(f"b/{number}", b"")
        running.signal(signal.SIGCONT)
        assert receive(client, 120) == [(b"a", b"%d" % number) for number in range(120)]
        assert receive(client, 20) == [(b"b/%d" % number, b"") for number in range(20)]
        nothing_more(client)
        assert running.dropped()["not-subscribed"] == 20


@pytest.mark.parametrize(
    "packet", [b"SUB a", b"MSG a\0", b"CMSG kbus/reply\0token\0data", b"CMSG kbus/call\0"]
)
def test_nothing_of_a_client_stays(bridge: Bridge, packet: bytes) -> None:
    """Without a search for cycles, as the daemon makes none."""
    gc.disable()
    try:
        with connected(bridge) as peer:
            bridge.take(peer, [packet])
            bridge.traffic.drain()
            left = weakref.ref(peer)
        del peer
        assert left() is None
    finally:
        gc.enable()


def test_one_that_only_listens_takes_no_time(without_kbus: StartDaemon) -> None:
    """After it has closed its sending side, of which the kernel goes on telling."""
    running = without_kbus()
    with running.socket() as half, running.client() as client:
        half.send(b"SUB a")
        half.shutdown(socket.SHUT_WR)
        wait_until(lambda: running.stats()[0]["subscriptions"] == 1, "it is subscribed")
        before = processor_time(running)
        assert client.receive(0.5) is None
        assert processor_time(running) - before < 0.05
        client.publish("a", b"1")
        assert half.recv(100) == b"MSG a\0001"


def processor_time(running: Daemon) -> float:
    """Seconds that a daemon has used."""
    return int(Path(f"/proc/{running.pid}/schedstat").read_text().split()[0]) / 1e9


def test_rule_heirs_get_no_secrets(without_kbus: StartDaemon) -> None:
    """Neither by what the process had subscribed to before it ended, nor by what its heir subscribes to."""
    running = without_kbus()

    def subscribe(client: Client) -> None:
        client.subscribe("!/cred////old")
        client.subscribe("public")

    heir, pid = orphan(running, subscribe)
    key = b"!/cred/%d/%d/%d/" % (os.getgid(), os.getuid(), pid)
    with heir, running.client() as client:
        heir.send(b"SUB " + key + b"new")
        heir.send(b"SUB !/cred////new")
        heir.send(b"CMSG !/cred/whoami")
        wait_until(lambda: running.dropped() == {"credentials": 3}, "none of that has an effect", PATIENCE)
        for rest in (b"old", b"new"):
            client.publish(key + rest, b"secret")
        client.publish("public", b"not secret")
        assert heir.recv(100) == b"MSG public\0not secret"
        own = next(each for each in running.stats() if each.get("pid") == pid)
        assert (own["subscriptions"], own["delivered"]) == (2, 2)
