# SPDX-License-Identifier: MIT
"""Hostile and unlucky clients. What comes of each is in the table of docs/sbus/hostile.rst."""

from __future__ import annotations

import os
import random
import resource
import signal
import socket
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread

import pytest

from kbus import Announcement
from kbus.sbus import Client, bridge
from kbus.sbus.limits import SEGMENT_COST, SUBSCRIPTION_COST
from tests.effort import reduced
from tests.kernel import module
from tests.kernel.conftest import StartChild
from tests.kernel.helpers import PATIENCE, wait_until
from tests.kernel.processes import NOBODY, become
from tests.sbus.bystander import Bystander
from tests.sbus.conftest import OpenKsock, StartDaemon
from tests.sbus.running import SNDBUFFORCE, Daemon, is_closed, nothing_more, receive, settle
from tests.sbus.running import daemon as started
from tests.sbus.test_nothing_lost import publish_and_leave

MIB = 1 << 20


def flood(running: Daemon, count: int, payload: bytes = b"x" * 1000) -> None:
    with running.client() as publisher:
        for _ in range(count):
            publisher.publish("flood", payload)
        settle(publisher)


def test_one_that_never_reads(daemon: StartDaemon) -> None:
    running = daemon("--max-queued-bytes", str(MIB))
    bystander = Bystander(running)
    with running.client() as stuck, bystander.client:
        stuck.subscribe("flood")
        settle(stuck)
        flood(running, 100)
        before = running.memory()
        flood(running, 10_000)
        bystander.is_served()
        total = running.stats()[0]
        assert total["queued_bytes"] <= MIB
        assert running.memory() - before < 4 * MIB
        # What is on the way, in the queue, or counted is all of it.
        came = len(receive(stuck, 10_100 - total["dropped"]["queue-full"]))
        assert came + total["dropped"]["queue-full"] == 10_100


def test_what_is_behind_a_fatal_packet_does_nothing(daemon: StartDaemon) -> None:
    """Also if the daemon has read it in the same batch."""
    running = daemon()
    with running.client() as listener, running.socket() as publisher:
        listener.subscribe("a")
        settle(listener)
        running.signal(signal.SIGSTOP)
        messages = [b"MSG a\0x"] * 20
        for packet in (*messages, b"SUB !/cred/*", *messages):
            publisher.send(packet)
        running.signal(signal.SIGCONT)
        assert is_closed(publisher)
        assert receive(listener, 20) == [(b"a", b"x")] * 20
        nothing_more(listener)
        assert running.dropped() == {"credentials": 1, "client-left": 20}


def test_as_many_clients_as_can_be_told_from_each_other(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused, and served when another has left."""
    monkeypatch.setattr(bridge, "MOST_NUMBER", 4)
    with started(place, "--max-user-clients", "9") as running:
        clients = [running.client() for _ in range(3)]
        for client in clients:
            settle(client)
        with running.socket() as refused:
            assert is_closed(refused)
        clients.pop().close()

        def there_is_room_to_ask() -> bool:
            with suppress(ConnectionError):
                return int(running.stats()[0]["refused"]["user-clients"]) > 0
            return False

        wait_until(there_is_room_to_ask, "one has left")
        for client in clients:
            settle(client)
            client.close()


def test_one_that_reads_slowly(daemon: StartDaemon) -> None:
    """A packet at a time, now and then: it gets all of them in the end, in order."""
    running = daemon()
    bystander = Bystander(running)
    with running.client() as slow, bystander.client:
        slow.subscribe("flood")
        settle(slow)
        flood(running, 1000)
        for _ in range(10):
            assert receive(slow, 1)
            bystander.is_served()
        bystander.is_served()
        assert len(receive(slow, 990)) == 990


def test_a_byte_a_second(daemon: StartDaemon) -> None:
    """recv(1) takes a byte and drops the rest of the packet: the client's own loss, and nobody else's."""
    running = daemon()
    with running.socket() as odd, running.client() as client:
        odd.send(b"SUB a")
        client.subscribe("a")
        settle(client)
        for number in range(300):
            client.publish("a", b"%d" % number)
        assert [odd.recv(1) for _ in range(300)] == [b"M"] * 300
        assert len(receive(client, 300)) == 300


GARBAGE = [b"\0", b"MSG", b"MSG ", b"MSG a", b"SUB", b"CMSG", b"SUBa", b" ", b"\xff" * 100, b"\0MSG a\0b"]


def test_garbage(daemon: StartDaemon) -> None:
    """It is counted, told of, but not each time, and the connection stays."""
    running = daemon()
    with running.socket() as odd, running.client() as client:
        for _ in range(100):
            for packet in GARBAGE:
                odd.send(packet)
        odd.send(b"SUB a")
        odd.send(b"MSG a\0still here")
        assert odd.recv(100) == b"MSG a\0still here"
        settle(client)
        assert running.dropped() == {"malformed": 100 * len(GARBAGE)}
        lines = [line for line in running.said().splitlines() if "malformed" in line]
        assert 1 <= len(lines) < 100 * len(GARBAGE)


def test_reconnecting_fills_no_log(daemon: StartDaemon) -> None:
    """Lines are counted whoever they are about."""
    running = daemon()

    def reconnect() -> None:
        with running.socket() as odd:
            odd.send(b"garbage")
            odd.send(b"SUB !/cred/*")
            assert is_closed(odd)

    def is_told() -> bool:
        reconnect()
        return "left out" in running.said()

    for _ in range(300):
        reconnect()
    assert running.dropped() == {"malformed": 300, "credentials": 300}
    lines = running.said().splitlines()
    assert "malformed" in lines[0]
    assert len(lines) < 600
    wait_until(is_told, "with the next line that there is room for it is told how many were left out")


LOOPER = 1234
"""A user who connects in a loop, or holds all the connections that it gets."""


@pytest.mark.long("takes as long as whoever connects in a loop lets it")
@pytest.mark.parametrize("options", [["-u", "nobody"], []], ids=["refused", "permitted"])
def test_one_who_connects_in_a_loop_keeps_nobody_out(
    place: Path, child: StartChild, options: list[str]
) -> None:
    """Neither who may not connect, nor who may and is served: new clients of other users come in."""
    os.chmod(place, 0o755)
    with started(place, "-o", *options) as running:

        def try_again_and_again() -> None:
            become(LOOPER)
            while True:
                with running.socket() as connection, suppress(ConnectionError):
                    connection.send(b"SUB a")
                    connection.send(b"MSG a\0")

        child(Thread(target=try_again_and_again, daemon=True).start)
        wait_until(lambda: running.stats()[0]["refused"] or running.stats()[0]["clients"] > 1, "it tries")
        for _ in range(20):
            be_served(running)


def test_one_who_holds_connections_leaves_room_for_others(place: Path, child: StartChild) -> None:
    """Whoever comes first has half of the room, and not all of it."""
    os.chmod(place, 0o755)
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    with started(place, "-o", prepare=lambda: set_descriptors(200)) as running:

        def hold_all() -> list[socket.socket]:
            become(LOOPER)
            return [running.socket() for _ in range(400)]

        holder = child(hold_all)
        for _ in range(20):
            be_served(running)
        refused = running.stats()[0]["refused"]
        assert refused["user-clients"] > 200
        assert "descriptors" not in refused
        assert "user 1234 " in running.said()
        holder.kill()


def be_served(running: Daemon) -> None:
    """Have a new client get its first answer."""
    with running.client() as client:
        settle(client)


def set_descriptors(most: int) -> None:
    """Let this process, and those that it starts, have so many descriptors."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def test_what_one_user_queues_leaves_room_for_others(place: Path, child: StartChild) -> None:
    """Clients of one user that do not read fill the queues of that user."""
    os.chmod(place, 0o755)
    with started(place, "-o", "--max-user-queued-bytes", str(MIB)) as running, running.client() as mine:

        def never_read() -> list[Client]:
            become(LOOPER)
            clients = [running.client() for _ in range(10)]
            for client in clients:
                client.subscribe("flood")
                settle(client)
            return clients

        holder = child(never_read)
        mine.subscribe("flood")
        settle(mine)
        for _ in range(10):
            flood(running, 200)
            assert len(receive(mine, 200)) == 200
        total = running.stats()[0]
        assert MIB - 2000 < total["queued_bytes"] <= MIB
        assert total["dropped"].keys() == {"user-queued-bytes"}
        assert "clients of user 1234 (--max-user-queued-bytes)" in running.said()
        holder.kill()


def test_random_bytes(daemon: StartDaemon) -> None:
    chance = random.Random(3)
    running = daemon()
    with running.socket() as odd:
        for _ in range(3000):
            head = chance.choice([b"", b"MSG ", b"SUB ", b"UNSUB ", b"CMSG ", b"MSG !/", b"SUB *"])
            odd.send(head + chance.randbytes(chance.randrange(1, 40)))
    with running.client() as client:
        client.subscribe("a")
        client.publish("a", b"1")
        assert receive(client, 1) == [(b"a", b"1")]


def test_empty_packets(daemon: StartDaemon) -> None:
    """They are counted, and are no end of the connection."""
    running = daemon()
    with running.client() as client, running.socket() as odd:
        client.subscribe("a")
        settle(client)
        for number in range(100):
            odd.send(b"")
            odd.send(b"MSG a\0%d" % number)
        assert receive(client, 100) == [(b"a", b"%d" % number) for number in range(100)]
        assert running.dropped() == {"empty": 100}


def test_empty_packets_before_the_end(daemon: StartDaemon) -> None:
    """They are not taken for the end, and the end is not taken for one of them."""
    running = daemon()
    with running.client() as client:
        client.subscribe("a")
        settle(client)
        for number in range(100):
            with running.socket() as odd:
                for packet in (b"", b"", b"MSG a\0%d" % number, b"", b"MSG a\0end"):
                    odd.send(packet)
            assert receive(client, 2) == [(b"a", b"%d" % number), (b"a", b"end")]
        wait_until(lambda: running.stats()[0]["clients"] == 2, "they have left")


def test_the_largest_packet_a_socket_can_carry(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """Up to the limit it comes through, to those whose buffers are small too; above it is dropped."""
    running = daemon("--max-packet", str(MIB))
    with running.socket() as large, running.client() as client, running.client() as other:
        large.setsockopt(socket.SOL_SOCKET, SNDBUFFORCE, 64 * MIB)
        for each in (client, other):
            each.subscribe("a")
            settle(each)
        fits = b"MSG a\0" + os.urandom(MIB - 1000)
        large.send(fits)
        large.send(b"MSG a\0" + bytes(MIB))
        large.send(b"MSG a\0small")
        for each in (client, other):
            assert receive(each, 2) == [(b"a", fits[6:]), (b"a", b"small")]
        assert running.dropped() == {"too-large": 1}


def test_no_packet_is_cut(daemon: StartDaemon, ksock: OpenKsock) -> None:
    """In both directions what is longer than the buffers of the first daemon's clients is dropped."""
    running = daemon()
    most = 409_600
    with running.socket() as large, running.client() as client:
        large.setsockopt(socket.SOL_SOCKET, SNDBUFFORCE, 64 * MIB)
        large.send(b"SUB a")
        payloads = [os.urandom(length - len(b"MSG a\0")) for length in (262_145, most, most + 1)]
        for payload in payloads:
            large.send(b"MSG a\0" + payload)
        assert [large.recv(most)[6:] == payload for payload in payloads[:2]] == [True, True]
        sender = ksock()
        for length in (most - 6, most - 5, 600_000, 10):
            sender.send_msg(Announcement("$.a", bytes(length)))
        assert [len(large.recv(most)) for _ in range(2)] == [most, 16]
        settle(client)
        assert running.dropped() == {"too-large": 1, "too-large-for-client": 2}
    assert "too-large: a packet of more than 409600 bytes" in running.said()


def test_a_message_larger_than_kbus_takes(daemon: StartDaemon, ksock: OpenKsock) -> None:
    running = daemon("--max-packet", str(4 * MIB))
    with running.socket() as large, running.client() as client:
        large.setsockopt(socket.SOL_SOCKET, SNDBUFFORCE, 64 * MIB)
        client.subscribe("a")
        settle(client)
        large.send(b"MSG a\0" + bytes(2 * MIB))
        large.send(b"MSG a\0small")
        assert receive(client, 1) == [(b"a", b"small")]
        assert running.dropped() == {"refused-by-kbus": 1}


@pytest.mark.parametrize(
    ("pattern", "count", "most"),
    [("n{}", reduced(100_000), 4096), ("n{}/*/x", 1000, 400), ("n{}/", 1000, 400)],
)
def test_more_subscriptions_than_bindings(daemon: StartDaemon, pattern: str, count: int, most: int) -> None:
    """They cost their owner's share of memory, no more bindings than KBUS allows, and nobody much time."""
    with module.parameter("max_ksock_bindings", most):
        running = daemon()
        bystander = Bystander(running)
        with bystander.client:
            before = running.memory()
            with running.client() as greedy:
                for number in range(count):
                    greedy.subscribe(pattern.format(number))
                settle(greedy)
                total = running.stats()[0]
                assert total["subscriptions"] == count + 1
                assert total["bindings"] <= most
                each = SUBSCRIPTION_COST + len(pattern) + 5 + SEGMENT_COST * (1 + pattern.count("/"))
                assert running.memory() - before < count * each + MIB
                greedy.publish("n77/a/x", b"1")
                greedy.publish("n77", b"2")
                expected = {"n{}": [(b"n77", b"2")]}.get(pattern, [(b"n77/a/x", b"1")])
                assert receive(greedy, 1) == expected
                bystander.is_served()
            bystander.is_served()
            wait_until(lambda: running.stats()[0]["bindings"] == 1, "all is unbound", 5 * PATIENCE)


def test_many_wildcards_of_an_ordinary_user(place: Path, open_to_all: None) -> None:
    """A daemon without CAP_SYS_RESOURCE is bound to what its clients want, and to nothing else."""
    os.chmod(place, 0o777)
    with started(place, prepare=lambda: become(NOBODY)) as running, ExitStack() as stack:
        clients = [stack.enter_context(running.client()) for _ in range(40)]
        for number, client in enumerate(clients):
            client.subscribe(f"x{number}/")
            client.subscribe(f"name{number}")
            settle(client)
        for number in range(40):
            clients[0].publish(f"x{number}/a", b"%d" % number)
            clients[0].publish(f"name{number}", b"%d" % number)
        for number, client in enumerate(clients):
            payload = b"%d" % number
            assert receive(client, 2) == [(b"x%d/a" % number, payload), (b"name%d" % number, payload)]
        assert running.stats()[0]["bindings"] == 80
        assert running.dropped() == {}
        for client in clients[10:]:
            client.close()
        wait_until(lambda: running.stats()[0]["bindings"] == 20, "what is bound is what is wanted")


def test_limits_of_subscriptions(daemon: StartDaemon) -> None:
    running = daemon(
        "--max-user-subscription-bytes",
        str(10 * (SUBSCRIPTION_COST + SEGMENT_COST + 1)),
        "--max-wildcards",
        "300",
    )
    with running.client() as client:
        for number in range(20):
            client.subscribe(str(number))
        for number in range(10):
            client.unsubscribe(str(number))
        for number in range(3):
            client.subscribe(f"g*{number}")
        settle(client)
        total = running.stats()[0]
        # Ten subscriptions of a digit fit, and are taken back; then two with * beside other bytes.
        assert (total["subscriptions"], total["dropped"]) == (2, {"too-many-subscriptions": 11})


def test_thousands_of_clients(daemon: StartDaemon) -> None:
    running = daemon()
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
    with ExitStack() as stack:
        clients = [stack.enter_context(running.client()) for _ in range(2000)]
        for client in clients:
            client.subscribe("all")
        settle(clients[-1])
        wait_until(lambda: running.stats()[0]["subscriptions"] == 2000, "all are subscribed")
        clients[0].publish("all", b"1")
        assert {client.receive(PATIENCE).payload for client in clients} == {b"1"}  # type: ignore[union-attr]
    wait_until(lambda: running.stats()[0]["clients"] == 1, "all have left")


def test_connecting_and_leaving_in_a_loop(daemon: StartDaemon) -> None:
    running = daemon()
    bystander = Bystander(running)
    with bystander.client:
        for number in range(500):
            client = running.client()
            client.subscribe("")
            if number % 2:
                client.publish("x", b"1")
            client.close()
        bystander.is_served()
        before, memory = len(os.listdir(f"/proc/{running.pid}/fd")), running.memory()
        for _ in range(500):
            running.client().close()
        wait_until(lambda: running.stats()[0]["clients"] == 2, "all have left")
        assert len(os.listdir(f"/proc/{running.pid}/fd")) <= before + 2
        assert running.memory() < memory + MIB


def test_publishing_and_closing_at_once(daemon: StartDaemon) -> None:
    """Every message that the kernel has accepted is delivered, also of one who has left mail unread."""
    running = daemon()
    with running.client() as client:
        client.subscribe("a")
        settle(client)
        for number in range(100):
            with running.client() as publisher:
                publisher.subscribe("a")
                for part in range(10):
                    publisher.publish("a", b"%d" % (10 * number + part))
        came = [int(payload) for _, payload in receive(client, 1000)]
        for number in range(100):
            mine = range(10 * number, 10 * number + 10)
            assert [each for each in came if each in mine] == list(mine)


@pytest.mark.long("takes minutes on an emulated processor")
def test_publishing_and_closing_at_once_many_times(daemon: StartDaemon) -> None:
    publish_and_leave(daemon(), 20_000)


def test_sub_and_unsub_at_random(daemon: StartDaemon) -> None:
    """The table does a million in test_routing.py."""
    chance = random.Random(5)
    running = daemon()
    bystander = Bystander(running)
    counts: Counter[str] = Counter()
    ignored = 0
    patterns = ["", "a", "a/", "a/b", "a/*", "*/b", "*", "a*", "/", "a/b/c", "*/*/c", "a/*/"]
    with bystander.client, running.client() as busy:
        busy.control("echo/off")
        for number in range(reduced(20_000)):
            pattern = chance.choice(patterns)
            if chance.random() < 0.5:
                busy.subscribe(pattern)
                counts[pattern] += 1
            else:
                busy.unsubscribe(pattern)
                ignored += not counts[pattern]
                counts[pattern] = max(0, counts[pattern] - 1)
            if number % 1000 == 0:
                bystander.is_served(2)
        settle(busy)
        total = running.stats()[0]
        assert total["subscriptions"] == sum(counts.values()) + 1
        assert total["dropped"] == {"not-subscribed": ignored}


def test_a_client_that_half_closes_goes_on_listening(daemon: StartDaemon) -> None:
    running = daemon()
    with running.socket() as half, running.client() as client:
        half.send(b"SUB a")
        half.shutdown(socket.SHUT_WR)
        wait_until(lambda: running.stats()[0]["subscriptions"] == 1, "it is subscribed")
        client.publish("a", b"1")
        assert half.recv(100) == b"MSG a\0001"
    wait_until(lambda: running.stats()[0]["subscriptions"] == 0, "it has left")


def test_killed_in_the_middle(daemon: StartDaemon) -> None:
    """A client that dies at any point costs only itself."""
    running = daemon()
    bystander = Bystander(running)
    with bystander.client:
        for number in range(20):
            pid = os.fork()
            if pid == 0:
                client = Client(running.path)
                client.subscribe("")
                while True:
                    client.publish("x", b"y" * 100)
            time.sleep(0.01 * (number % 5))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        bystander.is_served()
    wait_until(lambda: running.stats()[0]["clients"] == 1, "all have left")


def test_no_more_can_be_waited_for(daemon: StartDaemon) -> None:
    """New clients are refused, visibly, and so is one who serves; what they have sent is done."""
    running = daemon()
    watches = Path("/proc/sys/fs/epoll/max_user_watches")
    before = watches.read_text()
    with running.client() as client, running.client() as serving:
        client.subscribe("a")
        for each in (client, serving):
            settle(each)
        place = f"/proc/{running.pid}/fd"
        descriptors = len(os.listdir(place))
        watches.write_text("1")
        try:
            for number in range(5):
                running.signal(signal.SIGSTOP)
                with running.client() as leaving:
                    leaving.publish("a", b"%d" % number)
                running.signal(signal.SIGCONT)
                assert receive(client, 1) == [(b"a", b"%d" % number)]
            with running.socket() as refused:
                assert is_closed(refused)
            running.signal(signal.SIGSTOP)
            serving.control("kbus/serve", "b")
            serving.publish("a", b"behind")
            running.signal(signal.SIGCONT)
            assert receive(client, 1) == [(b"a", b"behind")]
            assert is_closed(serving._socket)
            nothing_more(client)
            wait_until(lambda: len(os.listdir(place)) == descriptors - 2, "nothing of them is left")
        finally:
            watches.write_text(before)
        assert serve_anew(running)
        assert running.stats()[0]["refused"] == {"descriptors": 6}


def serve_anew(running: Daemon) -> bool:
    """Whether a new client can serve a key."""
    with running.client() as client:
        client.control("kbus/serve", "b")
        return client.expect_control(b"kbus/served", PATIENCE).payload == b"b\0\0"
