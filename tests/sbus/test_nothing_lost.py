# SPDX-License-Identifier: MIT
"""What a client has sent without an error is delivered, however soon it leaves, or its user is at a limit."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from kbus.sbus import Client
from kbus.sbus.listening import MOST_WAITING, Listening
from tests.kernel.helpers import wait_until
from tests.sbus.conftest import StartDaemon
from tests.sbus.echo import use_no_kbus
from tests.sbus.running import Daemon, daemon, is_closed, nothing_more, receive, settle


def subscriber(running: Daemon) -> Client:
    """One who hears of all that the tests publish."""
    client = running.client()
    client.subscribe("a")
    settle(client)
    return client


def publish_and_leave(running: Daemon, count: int) -> None:
    """So many connections, of which each sends two messages. What was sent arrives, in its order."""
    sent: list[int] = []
    came: list[int] = []
    with subscriber(running) as client:
        for number in range(count):
            with running.client() as leaving, suppress(BrokenPipeError):
                for part in range(2):
                    leaving.publish("a", b"%d" % (2 * number + part))
                    sent.append(2 * number + part)
            if number % 500 == 499:
                came += [int(payload) for _, payload in receive(client, len(sent) - len(came))]
        nothing_more(client)
    assert sorted(came) == sent
    place = {number: at for at, number in enumerate(came)}
    assert all(number % 2 == 0 or place[number - 1] < place[number] for number in came)
    assert len(sent) > count, "most were let in"


def test_rule_who_publishes_and_leaves_is_heard(tmp_path: Path) -> None:
    """As often as it likes, with room for few clients."""

    def with_few_descriptors() -> None:
        use_no_kbus()
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))

    with daemon(tmp_path, prepare=with_few_descriptors) as running:
        publish_and_leave(running, 1000)
        assert running.dropped() == {}


@pytest.mark.parametrize("limit", ["user-clients", "descriptors"])
def test_rule_who_is_refused_is_heard(without_kbus: StartDaemon, limit: str) -> None:
    """Of what it has sent until then. Who leaves may never learn that it was refused; who stays does."""
    running = without_kbus(*(("--max-user-clients", "3") if limit == "user-clients" else ()))
    with subscriber(running) as client, running.client(), ExitStack() as stack:
        if limit == "descriptors":
            resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (_used(running),) * 2)
        else:
            settle(stack.enter_context(running.client()))
        running.signal(signal.SIGSTOP)
        for number in range(5):
            with running.client() as leaving:
                for part in (b"first", b"last"):
                    leaving.publish(f"new/{number}")
                    leaving.publish("a", b"%d %s" % (number, part))
        staying = stack.enter_context(running.socket())
        staying.send(b"MSG a\0stays")
        running.signal(signal.SIGCONT)
        came = [payload for _, payload in receive(client, 11)]
        for number in range(5):
            sent = [b"%d %s" % (number, part) for part in (b"first", b"last")]
            assert [each for each in came if each in sent] == sent
        assert b"stays" in came
        assert staying.recv(1) == b""
        with pytest.raises(BrokenPipeError):
            staying.send(b"MSG a\0too late")
        nothing_more(client)


def _used(running: Daemon) -> int:
    """A limit of descriptors that leaves none free."""
    used = {int(fd) for fd in os.listdir(f"/proc/{running.pid}/fd")}
    return next(fd for fd in itertools.count() if fd not in used)


def test_rule_who_has_connected_before_the_end_is_heard(tmp_path: Path) -> None:
    """Although the daemon had not let it in yet; nobody else needs to have left anything."""
    running = Daemon(tmp_path, "--grace", "10", prepare=use_no_kbus)
    with subscriber(running) as client:
        running.signal(signal.SIGSTOP)
        for number in range(16):
            with running.client() as leaving:
                leaving.publish("a", b"%d" % number)
        running.signal(signal.SIGTERM)
        running.signal(signal.SIGCONT)
        assert [message.payload for message in client] == [b"%d" % number for number in range(16)]
    assert running.wait() == 0


def test_rule_the_end_may_come_as_soon_as_the_path_is_there(tmp_path: Path) -> None:
    """And leaves neither socket nor pid file."""

    def end_at_once() -> None:
        use_no_kbus()
        appear = Listening._appear

        def appear_and_end(self: Listening, *arguments: Any) -> None:
            appear(self, *arguments)
            os.kill(os.getpid(), signal.SIGTERM)

        Listening._appear = appear_and_end  # type: ignore[method-assign,assignment]

    pid_file = tmp_path / "pid"
    running = Daemon(tmp_path, "-p", str(pid_file), prepare=end_at_once)
    assert running.wait() == 0
    assert not os.path.exists(running.path)
    assert not pid_file.exists()


@pytest.mark.parametrize("kind", ["path", "abstract", "inherited"])
def test_rule_who_connects_while_it_ends_is_heard_or_sees_an_error(tmp_path: Path, kind: str) -> None:
    """Those who wait to be accepted are heard; who waits in connect() meanwhile is heard, or refused."""
    where = str(tmp_path / "sbus.socket")
    with ExitStack() as stack:
        options: tuple[str, ...] = ()
        if kind == "abstract":
            where = f"/dev/unix/abstract/00{os.urandom(16).hex()}"
            options = ("-a", where)
        elif kind == "inherited":
            made = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            made.bind(where)
            made.set_inheritable(True)
            made.listen(100)
            options = ("-a", f"/dev/fd/{made.fileno()}")
        running = Daemon(tmp_path, "--grace", "10", *options, prepare=use_no_kbus)
        running.path = where
        client = stack.enter_context(subscriber(running))
        running.signal(signal.SIGSTOP)
        sent: list[int] = []

        def send(number: int) -> None:
            with suppress(ConnectionError, FileNotFoundError), running.client() as leaving:
                leaving.publish("a", b"%d" % number)
                sent.append(number)

        senders = [threading.Thread(target=send, args=(number,)) for number in range(60)]
        for sender in senders:
            sender.start()
        accepted = 60 if kind == "inherited" else MOST_WAITING
        wait_until(lambda: len(sent) == accepted, "as many have sent as may wait to be accepted")
        if kind == "inherited":
            made.close()
        running.signal(signal.SIGTERM)
        running.signal(signal.SIGCONT)
        came = [int(message.payload) for message in client]
        for sender in senders:
            sender.join()
        assert sorted(came) == sorted(sent)
        assert running.wait() == 0


def test_rule_who_is_refused_while_it_ends_is_heard(tmp_path: Path) -> None:
    """For lack of descriptors; each of those who wait to be accepted."""
    running = Daemon(tmp_path, "--grace", "10", prepare=use_no_kbus)
    with subscriber(running) as client:
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (_used(running),) * 2)
        running.signal(signal.SIGSTOP)
        for number in range(10):
            with running.client() as leaving:
                leaving.publish("a", b"%d" % number)
        running.signal(signal.SIGTERM)
        running.signal(signal.SIGCONT)
        assert [message.payload for message in client] == [b"%d" % number for number in range(10)]
    assert running.wait() == 0


def test_rule_who_publishes_while_it_ends_is_heard_or_sees_an_error(tmp_path: Path) -> None:
    """Also one that has nothing to send when the daemon looks, and sends at once when that has come."""
    for _ in range(20):
        running = Daemon(tmp_path, "--grace", "10", prepare=use_no_kbus)
        with subscriber(running) as client:
            running.signal(signal.SIGTERM)
            sent = came = 0
            with suppress(ConnectionError):
                while True:
                    client.publish("a")
                    sent += 1
                    came += len(receive(client, 1))
            assert came == sent
        assert running.wait() == 0


def fill(running: Daemon, mode: str, publisher: Client, behind: str = "a") -> int:
    """Publish to "a" until the publisher has to wait, then to ``behind`` until its socket is full.

    Returns how many messages were sent to ``behind`` since.
    """
    publisher.control(f"blocking/{mode}/block")
    settle(publisher)
    publisher.set_blocking(False)
    count = first = 0
    while True:
        try:
            publisher.publish("a" if not first else behind, b"%d %s" % (count, bytes(2000)))
            count += 1
        except BlockingIOError:
            if first:
                return count if behind == "a" else count - first
            if any(each.get("waits") for each in running.stats()):
                first = count


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_rule_who_waits_while_it_ends_is_heard(tmp_path: Path, mode: str) -> None:
    """And waits no longer than for its subscriber to read."""
    running = Daemon(tmp_path, "--grace", "30", "--max-queued", "100", prepare=use_no_kbus)
    with subscriber(running) as client:
        with running.client() as publisher:
            sent = fill(running, mode, publisher)
        running.signal(signal.SIGTERM)
        came = [int(message.payload.split()[0]) for message in client]
        assert came == list(range(sent))
    assert running.wait() == 0


@pytest.mark.parametrize("grace", ["0", "0.2"])
def test_rule_who_waits_for_one_that_never_reads_is_heard_by_others_when_it_ends(
    tmp_path: Path, grace: str
) -> None:
    running = Daemon(tmp_path, "--grace", grace, "--max-queued", "100", prepare=use_no_kbus)
    with subscriber(running), running.client() as other, running.client() as publisher:
        other.subscribe("b")
        settle(other)
        sent = fill(running, "hard", publisher, "b")
        running.signal(signal.SIGTERM)
        assert len(list(other)) == sent
    assert running.wait() == 0


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_rule_who_is_disconnected_as_it_asked_is_heard(without_kbus: StartDaemon, mode: str) -> None:
    """Of what it has sent until then. Nothing more comes to it than its socket holds."""
    running = without_kbus("--max-packet", "20000", "--max-queued-bytes", "100000")
    with subscriber(running) as client, running.client() as leaving, ExitStack() as stack:
        leaving.control(f"blocking/{mode}/error")
        leaving.subscribe("b")
        settle(leaving)
        # One message of each is read before the second one of the client that leaves.
        publishers = [stack.enter_context(running.client()) for _ in range(100)]
        for publisher in publishers:
            settle(publisher)
        running.signal(signal.SIGSTOP)
        for publisher in publishers:
            publisher.publish("b", bytes(10_000))
        leaving.set_blocking(False)
        sent = 0
        with suppress(BlockingIOError):
            while True:
                leaving.publish("a", b"%d" % sent)
                sent += 1
        running.signal(signal.SIGCONT)
        came = receive(client, sent)
        assert came == [(b"a", b"%d" % number) for number in range(sent)]
        assert is_closed(leaving._socket)
        assert "is disconnected: it asked for that" in running.said()
        assert set(running.dropped()) == {"client-left"}


def test_rule_who_waits_loses_nothing_that_is_no_message_before_it(without_kbus: StartDaemon) -> None:
    """What is no message is taken of one that waits, and of what follows not more."""
    running = without_kbus("--max-queued", "10")
    with subscriber(running) as client, running.client() as publisher:
        publisher.control("blocking/hard/block")
        settle(publisher)
        publisher.set_blocking(False)
        sent = 0
        waits = False
        while not waits and sent < 4000:
            try:
                publisher.control("echo/on")
                publisher.publish("a", b"%d %s" % (sent, bytes(500)))
                sent += 1
            except BlockingIOError:
                waits = any(each.get("waits") for each in running.stats())
        assert running.dropped() == {}
        assert running.stats()[0]["queued_max"] <= 10 + 128
        came = [int(payload.split()[0]) for _, payload in receive(client, sent)]
        assert came == list(range(sent))
