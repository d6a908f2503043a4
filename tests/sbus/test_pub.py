# SPDX-License-Identifier: MIT
"""``kbus-sbus pub`` tells whether the daemon has taken the message, from any daemon that can be asked."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from kbus.sbus import Client, daemon
from kbus.sbus.aio import AsyncClient
from kbus.sbus.command import main
from tests.kernel.helpers import PATIENCE, fails, wait_until
from tests.sbus.conftest import StartDaemon
from tests.sbus.forked import Forked, run
from tests.sbus.running import Daemon, closed, receive


def pub(running: Daemon, *arguments: str, given: bytes = b"") -> tuple[int, str]:
    status, printed, said = run(main, "pub", "-a", running.path, *arguments, given=given)
    assert printed == b""
    return status, said


@contextmanager
def another_daemon(where: Path, known: bytes) -> Iterator[str]:
    """One that answers nothing but whoami, or not even that; until its client has left."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(where))
        listening.listen()

        def serve() -> None:
            accepted, _ = listening.accept()
            with accepted:
                while packet := accepted.recv(1000):
                    if packet.startswith(b"CMSG ") and packet[5:].startswith(known):
                        accepted.send(b"CMSG !/cred/whoami\0!/cred/1/2/3")

        thread = Thread(target=serve)
        thread.start()
        yield str(where)
        thread.join(PATIENCE)


def test_rule_what_is_dropped_fails(without_kbus: StartDaemon) -> None:
    running = without_kbus()
    said = "kbus-sbus pub: the daemon has dropped {}\n"
    assert pub(running, "a") == (0, "")
    assert pub(running, "KBUS/x", "data") == (1, said.format("1 (names-of-kbus)"))
    assert pub(running, "a" * 1000) == (1, said.format("1 (name-too-long)"))
    assert pub(running, "a/!/b") == (1, said.format("1 (reserved-token)"))
    assert pub(running, "KBUS/x", "--lines", given=b"1\n2\n3\n") == (1, said.format("3 (names-of-kbus)"))
    assert pub(running, "a", "--lines", given=b"1\n2\n3\n") == (0, "")


def test_rule_who_is_disconnected_for_it_fails(without_kbus: StartDaemon) -> None:
    running = without_kbus()
    assert pub(running, "!/cred/*/0/0/x") == (1, closed("pub", running))


def test_other_revisions_have_no_way_to_ask(without_kbus: StartDaemon) -> None:
    running = without_kbus("--protocol", "dot")
    assert pub(running, "--protocol", "dot", "a.b") == (0, "")


@pytest.mark.parametrize(("known", "status"), [(b"!/cred/whoami", 0), (b"nothing", 124)])
def test_other_daemons(tmp_path: Path, known: bytes, status: int) -> None:
    """They do not know the question. One that answers anything has dealt with what came before."""
    with another_daemon(tmp_path / "socket", known) as path:
        assert run(main, "pub", "-a", path, "--timeout", "0.5", "a").status == status


def test_messages_that_come_meanwhile_are_received_later(without_kbus: StartDaemon) -> None:
    with without_kbus().client() as client:
        client.subscribe("a")
        client.publish("a", b"1")
        client.publish("KBUS/x")
        client.unsubscribe("b")
        assert client.dropped(PATIENCE) == {"names-of-kbus": 1, "not-subscribed": 1}
        assert receive(client, 1) == [(b"a", b"1")]
        assert client.receive(0) is None


def test_others_drops_are_not_told(without_kbus: StartDaemon) -> None:
    running = without_kbus()
    with running.client() as client, Client(running.path) as other:
        client.publish("KBUS/x")
        assert client.dropped(PATIENCE) == {"names-of-kbus": 1}
        assert other.dropped(PATIENCE) == {}


def test_rule_a_large_message_is_published(without_kbus: StartDaemon) -> None:
    """The socket's buffer is made larger for it, as far as the system allows."""
    running = without_kbus()
    payload = bytes(150_000)
    with running.client() as client:
        client.subscribe("large")
        assert client.dropped(PATIENCE) == {}
        with Client(running.path) as small:
            small._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 26_000)
            small.publish("large", payload)
        assert receive(client, 1) == [(b"large", payload)]


def test_rule_the_line_that_is_too_long_is_named(without_kbus: StartDaemon) -> None:
    """Those before it are published."""
    running = without_kbus()
    said = "kbus-sbus pub: line 3 of stdin: Message too long; the lines before it are published\n"
    with running.client() as client:
        client.subscribe("a")
        assert client.dropped(PATIENCE) == {}
        given = b"1\n2\n" + bytes(10_000_000) + b"\n4\n"
        assert pub(running, "a", "--lines", given=given) == (1, said)
        assert receive(client, 2) == [(b"a", b"1"), (b"a", b"2")]


def test_rule_a_daemon_that_takes_no_more_clients_says_so(without_kbus: StartDaemon) -> None:
    """To whoever asks for its statistics, too, whose place another client has."""
    running = without_kbus("--max-user-clients", "1")
    with running.client() as client:
        assert client.whoami(PATIENCE)
        said = (
            f"kbus-sbusd: the daemon at {running.path} has closed the connection;"
            " if it has not ended, its log says why\n"
        )
        assert run(daemon.main, "-a", running.path, "--stats") == (1, b"", said)
        wait_until(lambda: "user-clients" in running.said(), "its log says why")


def test_rule_a_subscriber_that_leaves_tells_what_it_has_missed(without_kbus: StartDaemon) -> None:
    running = without_kbus()
    subscriber = Forked(main, ["sub", "-a", running.path, "--control", "no/such", "--raw", "-n", "1", "a"])
    with running.client() as client:
        wait_until(lambda: running.stats()[0]["subscriptions"] == 1, "it has subscribed")
        client.publish("a", "data")
    assert subscriber.done() == (1, b"data", "kbus-sbus sub: the daemon has dropped 1 (unknown-control)\n")


def test_rule_a_client_for_asyncio_asks_what_was_dropped(without_kbus: StartDaemon, tmp_path: Path) -> None:
    running = without_kbus()

    async def ask(where: str) -> list[object]:
        async with AsyncClient(where) as client:
            told: list[object] = [await client.dropped()]
            await client.unsubscribe("a")
            told.append(await client.dropped())
            running.signal(signal.SIGSTOP)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.dropped(), 0.1)
            running.signal(signal.SIGCONT)
            # The answer might be taken for that to a later question.
            with fails(errno.EBADF):
                await client.publish("a")
            return told

    assert asyncio.run(ask(running.path)) == [{}, {"not-subscribed": 1}]
    with another_daemon(tmp_path / "other", b"!/cred/whoami") as where:

        async def ask_another() -> object:
            async with AsyncClient(where) as client:
                return await client.dropped()

        assert asyncio.run(ask_another()) is None


def test_a_question_that_could_not_be_sent_is_not_waited_for(without_kbus: StartDaemon) -> None:
    running = without_kbus()
    with running.client() as client:
        assert client.dropped(PATIENCE) == {}
        running.signal(signal.SIGSTOP)
        client.set_blocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                client.publish("a", b"x" * 1000)
        for ask in (client.dropped, client.whoami):
            with pytest.raises(BlockingIOError):
                ask(0.1)
        running.signal(signal.SIGCONT)
        client.set_blocking(True)
        assert client.dropped(PATIENCE) == {}
        assert client.whoami(PATIENCE)


@pytest.mark.parametrize("kind", ["dead", "abstract"])
def test_where_nobody_listens_that_is_what_is_said(kind: str, tmp_path: Path) -> None:
    """As after the daemon was killed, when its socket is still there."""
    place = str(tmp_path / "dead.socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(place)
    if kind == "abstract":
        place = "/dev/unix/abstract/00" + b"kbus-nobody".hex()
    said = f"nothing listens at {place}\n"
    assert run(main, "pub", "-a", place, "key") == (1, b"", f"kbus-sbus pub: {said}")
    assert run(main, "whoami", "-a", place) == (1, b"", f"kbus-sbus whoami: {said}")
    assert run(daemon.main, "-a", place, "--stats") == (1, b"", f"kbus-sbusd: {said}")


def _asking(running: Daemon) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "kbus.sbus", "-a", running.path, "--stats"]


def test_a_full_disk_under_the_statistics_is_told(without_kbus: StartDaemon) -> None:
    running = without_kbus()
    with open("/dev/full", "wb") as full:
        done = subprocess.run(_asking(running), stdout=full, stderr=subprocess.PIPE)
    said = b"kbus-sbusd: can't write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_statistics_that_nobody_reads_are_no_failure(without_kbus: StartDaemon) -> None:
    running = without_kbus()
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(_asking(running), stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_daemon_that_does_not_answer(without_kbus: StartDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks need not be somebody whom it does not tell."""
    running = without_kbus()
    monkeypatch.setattr("kbus.sbus.telling._PATIENCE", 0.5)
    running.signal(signal.SIGSTOP)
    status, printed, said = run(daemon.main, "-a", running.path, "--stats")
    running.signal(signal.SIGCONT)
    assert (status, printed) == (1, b"")
    assert said.startswith(f"kbus-sbusd: {running.path} has not answered within 0.5 s. It gives statistics")
