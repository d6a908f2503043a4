# SPDX-License-Identifier: MIT
"""Flood control: what each mode does when a socket would block, and when a queue is full."""

from __future__ import annotations

from contextlib import suppress

import pytest

from kbus import Announcement
from kbus.sbus import Client
from tests.kernel.helpers import PATIENCE
from tests.sbus.conftest import OpenKsock, StartDaemon
from tests.sbus.running import Daemon, is_closed, nothing_more, receive, settle

FLOOD = 2000
"""More than a socket takes: with the usual buffer about 280 small packets fit."""


def reader(running: Daemon, *controls: str) -> Client:
    """A client that is subscribed to `a` and has sent these control messages; it does not read."""
    client = running.client()
    for key in controls:
        client.control(key)
    client.subscribe("a")
    settle(client)
    return client


def flood(running: Daemon, count: int = FLOOD) -> None:
    """Publish that many messages, as fast as one can, and come back when all are delivered or dropped."""
    with running.client() as publisher:
        for number in range(count):
            publisher.publish("a", b"%d" % number)
        settle(publisher)


def waits(running: Daemon) -> bool:
    """Whether a publisher waits."""
    return any(each.get("waits") for each in running.stats())


def fill(running: Daemon, publisher: Client) -> int:
    """Publish until the publisher waits and its socket is full; tell how many, which differs by processor."""
    publisher.set_blocking(False)
    sent = 0
    while True:
        try:
            publisher.publish("a", b"%d" % sent)
        except BlockingIOError:
            if waits(running):
                break
        else:
            sent += 1
    publisher.set_blocking(True)
    return sent


@pytest.mark.parametrize("controls", [(), ("blocking/soft/discard",)], ids=["queue", "discard"])
def test_what_a_client_asks_for_comes_also_if_there_is_no_room(
    daemon: StartDaemon, controls: tuple[str, ...]
) -> None:
    running = daemon("--max-queued", "10")
    with reader(running, *controls) as slow:
        flood(running)
        slow.control("kbus/serve", "x")
        slow.control("kbus/call", b"17\0nobody\0")
        asked = slow.dropped(PATIENCE) or {}
        assert sum(asked.values()) == sum(running.dropped().values()) > FLOOD // 2
        came = {message.key: message.payload for message in iter(lambda: slow.receive(0), None) if message}
        assert came[b"kbus/served"] == b"x\0\0"
        assert came[b"kbus/answer"] == b"17\0no-replier\0"


def test_soft_queue_is_the_default_and_keeps_everything(daemon: StartDaemon) -> None:
    for controls in ((), ("blocking/soft/queue",)):
        running = daemon(name=f"queue{len(controls)}")
        with reader(running, *controls) as slow:
            flood(running)
            assert running.stats()[0]["queued"] > 1000
            assert receive(slow, FLOOD) == [(b"a", b"%d" % number) for number in range(FLOOD)]
            assert running.dropped() == {}


def test_soft_discard_drops_what_the_socket_does_not_take(daemon: StartDaemon) -> None:
    running = daemon()
    with reader(running, "blocking/soft/discard") as slow:
        flood(running)
        total = running.stats()[0]
        assert (total["queued"], total["queued_max"]) == (0, 0)
        came = receive(slow, FLOOD - total["dropped"]["socket-full"])
        assert came == [(b"a", b"%d" % number) for number in range(len(came))]
        nothing_more(slow)


def test_soft_error_disconnects(daemon: StartDaemon) -> None:
    running = daemon()
    with reader(running, "blocking/soft/error") as slow, running.client() as bystander:
        flood(running)
        assert is_closed(slow._socket)
        settle(bystander)
        assert "is disconnected: it asked for that if a message would have to wait" in running.said()


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_block_stops_the_publisher_that_asked(daemon: StartDaemon, mode: str) -> None:
    """It is not read any more until there is room; nothing is lost, and nobody else waits."""
    running = daemon("--max-queued", "100")
    with reader(running) as slow, running.client() as publisher, running.client() as bystander:
        publisher.control(f"blocking/{mode}/block")
        settle(publisher)
        sent = fill(running, publisher)
        # What had been read of it already comes over the limit.
        assert running.stats()[0]["queued_max"] <= 100 + 128
        bystander.subscribe("b")
        for number in range(1000):
            bystander.publish("b", b"%d" % number)
            assert receive(bystander, 1) == [(b"b", b"%d" % number)]
        assert receive(slow, sent) == [(b"a", b"%d" % number) for number in range(sent)]
        settle(publisher)
        nothing_more(slow)
        assert running.dropped() == {}


def test_block_does_not_stop_control_messages(daemon: StartDaemon) -> None:
    """A publisher that waits can ask not to wait any more, unless it has published more before."""
    running = daemon()
    with reader(running) as slow, running.client() as publisher:
        publisher.control("blocking/soft/block")
        sent = fill(running, publisher)
        receive(slow, sent)
        settle(publisher)
        with reader(running) as other:
            while not waits(running):
                publisher.publish("a", b"x")
            assert publisher.whoami(PATIENCE).startswith(b"!/cred/")
            publisher.control("blocking/soft/queue")
            for _ in range(400):
                publisher.publish("a", b"x")
            settle(publisher)
            other.close()


def test_rule_block_of_a_subscriber_delays_nobody_who_did_not_ask(daemon: StartDaemon) -> None:
    running = daemon("--max-queued", "100")
    with reader(running, "blocking/soft/block", "blocking/hard/block"):
        flood(running)
        assert running.dropped()["queue-full"] > 0


def test_block_ends_when_the_slow_one_leaves(daemon: StartDaemon) -> None:
    running = daemon()
    with running.client() as publisher:
        publisher.control("blocking/soft/block")
        slow = reader(running)
        publisher.set_blocking(False)
        while not waits(running):
            with suppress(BlockingIOError):
                for _ in range(100):
                    publisher.publish("a", b"x")
        publisher.set_blocking(True)
        slow.close()
        settle(publisher)


def test_hard_discard_is_the_default_and_drops_new_ones(daemon: StartDaemon) -> None:
    for controls in ((), ("blocking/hard/discard",)):
        running = daemon("--max-queued", "50", name=f"hard{len(controls)}")
        with reader(running, *controls) as slow:
            flood(running)
            total = running.stats()[0]
            assert (total["queued"], total["queued_max"]) == (50, 50)
            came = receive(slow, FLOOD - total["dropped"]["queue-full"])
            assert came == [(b"a", b"%d" % number) for number in range(len(came))]
            nothing_more(slow)


def test_the_limit_in_bytes(daemon: StartDaemon) -> None:
    running = daemon("--max-queued-bytes", "10000")
    with reader(running) as slow:
        flood(running)
        total = running.stats()[0]
        assert 9700 < total["queued_bytes_max"] <= 10000
        assert len(receive(slow, FLOOD - total["dropped"]["queue-full"])) < FLOOD


def test_the_limit_of_all_queues(daemon: StartDaemon) -> None:
    running = daemon("--max-queued-bytes-in-all", "10000", "--max-user-queued-bytes", "20000")
    with reader(running), reader(running):
        flood(running)
        total = running.stats()[0]
        assert 9700 < total["queued_bytes"] <= 10000


def test_hard_error_disconnects(daemon: StartDaemon) -> None:
    running = daemon("--max-queued", "50")
    with reader(running, "blocking/hard/error") as slow:
        flood(running)
        assert is_closed(slow._socket)
    assert "is disconnected: it asked for that if its queue is full" in running.said()


@pytest.mark.parametrize("order", ["queue", "stack", "random"])
def test_orders(daemon: StartDaemon, order: str) -> None:
    """random: the largest first, which frees memory as fast as possible."""
    running = daemon()
    with reader(running, f"order/{order}") as slow, running.client() as publisher:
        payloads = [b"x" * (1 + number * 7 % 200) for number in range(FLOOD)]
        for payload in payloads:
            publisher.publish("a", payload)
        settle(publisher)
        queued = running.stats()[0]["queued"]
        at_once, kept = payloads[:-queued], payloads[-queued:]
        expected = {"queue": kept, "stack": kept[::-1], "random": sorted(kept, key=len, reverse=True)}[order]
        assert [payload for _, payload in receive(slow, FLOOD)] == at_once + expected


def test_echo(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """Off: what one publishes oneself does not come, but what others do."""
    running = daemon()
    with running.client() as client, running.client() as other:
        for each in (client, other):
            each.subscribe("a")
            settle(each)
        client.control("echo/off")
        client.publish("a", b"1")
        settle(client)
        ksock().send_msg(Announcement("$.a", b"2"))
        assert receive(other, 2) == [(b"a", b"1"), (b"a", b"2")]
        other.publish("a", b"3")
        assert receive(client, 2) == [(b"a", b"2"), (b"a", b"3")]
        client.control("echo/on")
        client.publish("a", b"4")
        assert receive(client, 1) == [(b"a", b"4")]


def test_echo_of_secret_messages(daemon: StartDaemon) -> None:
    with daemon().client() as client:
        client.subscribe("!/cred////x")
        own = client.whoami(PATIENCE)
        client.control("echo/off")
        client.publish(own + b"/x", b"1")
        client.control("echo/on")
        client.publish(own + b"/x", b"2")
        assert receive(client, 1) == [(own + b"/x", b"2")]


def test_rule_unknown_control_messages_are_ignored_and_counted(daemon: StartDaemon) -> None:
    running = daemon()
    with running.client() as client:
        for key in ("", "blocking", "blocking/soft", "order/none", "ECHO/off"):
            client.control(key, b"payload")
        client.control("blocking/soft/discard", b"a payload\0 that is\0 ignored")
        settle(client)
        assert running.dropped() == {"unknown-control": 5}
        assert [each.get("soft") for each in running.stats()].count("discard") == 1


def test_a_socket_that_would_block_is_no_matter_for_others(daemon: StartDaemon) -> None:
    running = daemon()
    with reader(running), running.client() as bystander:
        bystander.subscribe("a")
        settle(bystander)
        for begin in range(0, FLOOD, 100):
            for number in range(begin, begin + 100):
                bystander.publish("a", b"%d" % number)
            assert receive(bystander, 100) == [(b"a", b"%d" % n) for n in range(begin, begin + 100)]
