# SPDX-License-Identifier: MIT
"""The daemon with clients that try its limits, on a bus that needs no module."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import tempfile
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from kbus.sbus.address import Address
from kbus.sbus.bridge import STATS
from kbus.sbus.limits import OVER_PACKETS, BridgeLimits
from kbus.sbus.listening import Listening
from kbus.terminal.failures import Failure
from tests.kernel.helpers import PATIENCE, wait_until
from tests.sbus.conftest import StartDaemon
from tests.sbus.echo import use_no_kbus
from tests.sbus.running import Daemon, nothing_more, receive, settle

MIB = 1 << 20


def test_rule_block_is_no_way_around_the_limits(without_kbus: StartDaemon) -> None:
    """Neither for who asks for another mode instead of waiting, nor for who leaves and comes back."""
    running = without_kbus("--max-queued-bytes", str(MIB), "--max-queued-bytes-in-all", str(4 * MIB))
    payload = b"x" * 100_000
    with running.client() as stuck, running.client() as publisher:
        stuck.subscribe("a")
        settle(stuck)
        for _ in range(100):
            publisher.control("blocking/hard/block")
            publisher.publish("a", payload)
            publisher.control("blocking/hard/discard")
        for _ in range(100):
            with running.client() as other:
                other.control("blocking/soft/block")
                other.publish("a", payload)
        settle(publisher)
        total = running.stats()[0]
        assert total["queued_bytes_max"] <= MIB + OVER_PACKETS * BridgeLimits().packet
        assert receive(stuck, 10) == [(b"a", payload)] * 10


def test_rule_the_limit_of_all_queues_is_one(without_kbus: StartDaemon) -> None:
    running = without_kbus("--max-queued-bytes-in-all", str(MIB))
    with running.client() as one, running.client() as other:
        for each in (one, other):
            each.subscribe("a")
            settle(each)
        for _ in range(100):
            with running.client() as publisher:
                publisher.control("blocking/soft/block")
                publisher.publish("a", b"x" * 100_000)
        settle(one)
        assert running.stats()[0]["queued_bytes"] <= MIB


@pytest.mark.parametrize("count", [1, 10], ids=["one", "many at once"])
def test_rule_the_limit_of_a_packet(without_kbus: StartDaemon, count: int) -> None:
    """One of just so many bytes comes, and of one more byte nothing does."""
    running = without_kbus("--max-packet", "1000")
    with running.client() as client, running.socket() as publisher:
        client.subscribe("a")
        settle(client)
        running.signal(signal.SIGSTOP)
        for _ in range(count):
            for length in (994, 995):
                publisher.send(b"MSG a\0" + b"x" * length)
        running.signal(signal.SIGCONT)
        assert receive(client, count) == [(b"a", b"x" * 994)] * count
        nothing_more(client)
        wait_until(lambda: running.dropped() == {"too-large": count}, "they are counted")


def test_a_publisher_that_waits_goes_on_by_bytes_too(without_kbus: StartDaemon) -> None:
    """A queue of few large messages is full, and half empty, by bytes."""
    running = without_kbus("--max-queued-bytes", str(MIB))
    with running.client() as slow, running.client() as publisher:
        slow.subscribe("a")
        publisher.control("blocking/hard/block")
        settle(slow)
        settle(publisher)
        publisher.set_blocking(False)
        while not _waits(running):
            with suppress(BlockingIOError):
                publisher.publish("a", b"x" * 50_000)
        assert running.stats()[0]["queued_bytes"] > MIB // 2
        for _ in range(2):
            assert slow.receive(PATIENCE)
        assert _waits(running)
        while _waits(running):
            assert slow.receive(PATIENCE)
        assert running.stats()[0]["queued_bytes"] < MIB


def _waits(running: Daemon) -> bool:
    return any(each.get("waits") for each in running.stats())


@pytest.mark.parametrize("grace", ["10", "0"])
def test_rule_the_end_comes_after_what_was_published(tmp_path: Path, grace: str) -> None:
    """Of one who has sent more than is read at once, and does not wait for it, too."""
    running = Daemon(tmp_path, "--grace", grace, prepare=use_no_kbus)
    with running.client() as client, running.client() as publisher:
        client.subscribe("a")
        for each in (client, publisher):
            settle(each)
        running.signal(signal.SIGSTOP)
        for number in range(200):
            publisher.publish("a", b"%d" % number)
        running.signal(signal.SIGTERM)
        running.signal(signal.SIGCONT)
        came = list(client)
        if grace != "0":
            assert [message.payload for message in came] == [b"%d" % number for number in range(200)]
    assert running.wait() == 0


def test_rule_a_client_that_does_not_stop_sending_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    running = Daemon(tmp_path, "--grace", "0.3", prepare=use_no_kbus)
    pid = os.fork()
    if pid == 0:
        with suppress(OSError), running.client() as client:
            while True:
                client.publish("a")
        os._exit(0)
    running.signal(signal.SIGTERM)
    assert running.wait() == 0
    os.waitpid(pid, 0)


def test_rule_who_only_looks_is_not_the_last_client(tmp_path: Path) -> None:
    """A second daemon that finds the path taken, and who asks for statistics."""
    running = Daemon(tmp_path, "-c", prepare=use_no_kbus)
    with pytest.raises(AssertionError, match="another process listens there"):
        Daemon(tmp_path, "-a", running.path, name="second", prepare=use_no_kbus)
    assert running.stats()[0]["clients"] == 1
    with running.client():
        assert running.stats()[0]["clients"] == 2
    assert running.wait() == 0


def test_rule_the_last_client_has_left_while_somebody_looks(tmp_path: Path) -> None:
    running = Daemon(tmp_path, "-c", prepare=use_no_kbus)
    with running.client() as looking:
        looking.control(STATS)
        looking.expect_control(STATS, PATIENCE)
        with running.client() as client:
            settle(client)
        assert running.wait() == 0


def test_rule_one_that_has_left_before_it_was_let_in_was_a_client(tmp_path: Path) -> None:
    running = Daemon(tmp_path, "-c", prepare=use_no_kbus)
    running.signal(signal.SIGSTOP)
    running.socket().close()
    running.signal(signal.SIGCONT)
    assert running.wait() == 0


def test_rule_the_end_comes_after_those_that_were_accepted(tmp_path: Path) -> None:
    """Also if they were still waiting to be let in, and have left."""
    running = Daemon(tmp_path, "--grace", "10", prepare=use_no_kbus)
    with running.client() as client:
        client.subscribe("a")
        settle(client)
        running.signal(signal.SIGSTOP)
        for _ in range(8):
            running.socket().close()
        for number in range(8):
            with running.socket() as publisher:
                publisher.send(b"MSG a\0%d" % number)
        running.signal(signal.SIGTERM)
        running.signal(signal.SIGCONT)
        assert sorted(int(message.payload) for message in client) == list(range(8))
    assert running.wait() == 0


@pytest.mark.parametrize("kind", [socket.SOCK_SEQPACKET, socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_rule_a_live_socket_is_not_replaced(tmp_path: Path, kind: int) -> None:
    """Of whatever type, and nobody has come to it who asked. A dead one is replaced."""
    path = str(tmp_path / "sbus.socket")
    with socket.socket(socket.AF_UNIX, kind) as live:
        live.bind(path)
        live.setblocking(False)
        if kind != socket.SOCK_DGRAM:
            live.listen()
        with pytest.raises(AssertionError, match="another process listens there"):
            Daemon(tmp_path, "-r", prepare=use_no_kbus)
        with pytest.raises(BlockingIOError):
            live.recv(1) if kind == socket.SOCK_DGRAM else live.accept()
    Daemon(tmp_path, prepare=use_no_kbus).stop()


def test_rule_no_stranger_keeps_it_from_beginning(tmp_path: Path) -> None:
    """A directory can be locked by whoever may read it."""
    directory = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    Daemon(tmp_path, prepare=use_no_kbus).stop()
    os.close(directory)


def test_rule_one_of_many_replaces_a_dead_socket(tmp_path: Path) -> None:
    """Of those that begin at the same time, and nothing but its socket is left."""
    path = tmp_path / "sbus.socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(path))
    begin, end = os.pipe(), os.pipe()
    told, tell = os.pipe()
    pids = []
    for _ in range(8):
        pids.append(os.fork())
        if not pids[-1]:
            os.close(begin[1])
            os.close(end[1])
            os.read(begin[0], 1)
            with ExitStack() as stack:
                try:
                    stack.enter_context(closing(Listening(Address(path=str(path)), 0o700, None, False)))
                    os.write(tell, b"+")
                except Failure:
                    os.write(tell, b"-")
                os.read(end[0], 1)
            os._exit(0)
    os.close(begin[1])
    assert sorted(os.read(told, 1) for _ in pids) == [b"+", *[b"-"] * 7]
    assert os.listdir(tmp_path) == [path.name]
    os.close(end[1])
    for pid in pids:
        os.waitpid(pid, 0)
    for fd in (begin[0], end[0], told, tell):
        os.close(fd)


@pytest.mark.parametrize("length", [90, 107])
def test_a_path_as_long_as_an_address(length: int) -> None:
    with tempfile.TemporaryDirectory(prefix="sbus") as directory:
        running = Daemon(
            Path(directory), name="n" * (length - len(f"{directory}/.socket")), prepare=use_no_kbus
        )
        assert len(running.path) == length
        assert os.stat(running.path).st_mode & 0o777 == 0o700
        running.stop()


def test_rule_a_file_beside_the_socket_stays(tmp_path: Path) -> None:
    """Also if its name is that of the socket and the daemon's process id."""

    def be_beside() -> None:
        use_no_kbus()
        (tmp_path / f"sbus.socket.{os.getpid()}").write_text("precious")

    Daemon(tmp_path, prepare=be_beside).stop()
    assert [path.read_text() for path in tmp_path.glob("sbus.socket.*")] == ["precious"]


def test_what_waits_for_its_turn_at_the_end_has_it(without_kbus: StartDaemon) -> None:
    """Messages with new keys, each of which ends a turn, while somebody else is slow."""
    running = without_kbus("--grace", "1")
    with running.client() as client, running.client() as slow, running.client() as publisher:
        client.subscribe("n/")
        settle(client)
        slow.subscribe("s")
        settle(slow)
        for _ in range(400):
            publisher.publish("s", bytes(2000))
        settle(publisher)
        running.signal(signal.SIGSTOP)
        for number in range(50):
            publisher.publish(f"n/{number}")
        running.signal(signal.SIGTERM)
        running.signal(signal.SIGCONT)
        assert [key for key, _ in receive(client, 50)] == [b"n/%d" % number for number in range(50)]


def test_who_waits_for_itself_leaves_when_it_has_gone(without_kbus: StartDaemon) -> None:
    """Its own queue, which nobody will read, has no room for what it has sent."""
    running = without_kbus()
    with running.socket() as bare:
        bare.send(b"CMSG blocking/soft/block")
        bare.send(b"SUB own")
        bare.settimeout(0.2)
        with suppress(TimeoutError):
            while True:
                bare.send(b"MSG own\0" + bytes(2000))
        bare.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: running.stats()[0]["clients"] == 1, "it has left")


def test_who_asks_for_less_waits_for_less(without_kbus: StartDaemon) -> None:
    """From an empty queue to one that is half full."""
    running = without_kbus()
    with running.client() as slow, running.client() as publisher:
        slow.subscribe("s")
        settle(slow)
        publisher.control("blocking/hard/block")
        publisher.control("blocking/soft/block")
        settle(publisher)
        while not any(each.get("waits") for each in running.stats()):
            publisher.publish("s", bytes(4000))
        publisher.control("blocking/soft/queue")
        publisher.publish("s")
        settle(publisher)
