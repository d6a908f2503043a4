# SPDX-License-Identifier: MIT
"""The clients for Python, asyncio and shells."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import warnings
from pathlib import Path

import pytest

from kbus.sbus import Client, Received
from kbus.sbus.aio import AsyncClient
from kbus.sbus.command import main
from tests.kernel.helpers import PATIENCE, wait_until
from tests.sbus.conftest import StartDaemon
from tests.sbus.forked import Done, Forked, run
from tests.sbus.running import closed, receive, settle


def command(*arguments: str, given: bytes = b"") -> Done:
    """What comes of kbus-sbus."""
    return run(main, *arguments, given=given)


def test_text_and_bytes(daemon: StartDaemon) -> None:
    with daemon().client() as client:
        client.subscribe("Küche")
        client.publish("Küche", "warm")
        client.publish("Küche".encode(), b"\xff\0")
        assert receive(client, 2) == [("Küche".encode(), b"warm"), ("Küche".encode(), b"\xff\0")]


def test_what_comes_before_whoami_is_put_aside(daemon: StartDaemon) -> None:
    with daemon().client() as client:
        client.subscribe("a")
        client.publish("a", b"1")
        client.publish("a", b"2")
        assert client.whoami(PATIENCE)
        assert receive(client, 2) == [(b"a", b"1"), (b"a", b"2")]
        assert client.receive(0) is None


def test_select_and_iteration(daemon: StartDaemon) -> None:
    running = daemon()
    with running.client() as client:
        client.subscribe("a")
        client.publish("a", b"1")
        assert select.select([client], [], [], PATIENCE)[0] == [client]
        assert next(client) == Received(b"a", b"1")
        running.signal(signal.SIGTERM)
        assert list(client) == []
        with pytest.raises(ConnectionError):
            client.receive(PATIENCE)


def test_closing(daemon: StartDaemon) -> None:
    running = daemon()
    client = running.client()
    client.close()
    client.close()
    assert client.fileno() == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        client.publish("a")
    forgotten = running.client()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del forgotten
    assert [each.category for each in caught] == [ResourceWarning]


def test_errors(place: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Client(str(place / "nothing"))
    assert caught.value.filename == str(place / "nothing")
    with pytest.raises(ValueError, match="protocol"):
        Client(str(place), protocol="none")
    with pytest.raises(ValueError, match="hex"):
        Client("/dev/unix/abstract/xyz")


def test_asyncio(daemon: StartDaemon) -> None:
    running = daemon()

    async def talk() -> list[bytes]:
        async with AsyncClient(running.path) as one, AsyncClient(running.path) as other:
            await one.subscribe("a/")
            assert (await one.whoami()).startswith(b"!/cred/")
            for number in range(2000):
                await other.publish("a/b", b"%d" % number)
            return [(await one.receive()).payload for _ in range(2000)]

    assert asyncio.run(talk()) == [b"%d" % number for number in range(2000)]


def test_asyncio_waits_for_room_and_for_the_end(daemon: StartDaemon) -> None:
    running = daemon("--grace", "60")

    async def talk() -> int:
        async with AsyncClient(running.path) as client:
            await client.subscribe("a")
            await client.whoami()
            running.signal(signal.SIGSTOP)
            publishing = asyncio.ensure_future(_publish(client, 1000))
            await asyncio.sleep(0)
            assert not publishing.done()
            running.signal(signal.SIGCONT)
            await publishing
            running.signal(signal.SIGTERM)
            return len([message async for message in client])

    assert asyncio.run(talk()) == 1000


async def _publish(client: AsyncClient, count: int) -> None:
    for _ in range(count):
        await client.publish("a", b"x" * 100)


def test_pub_and_sub(daemon: StartDaemon) -> None:
    running = daemon()
    at = ("-a", running.path)
    subscriber = Forked(main, ["sub", *at, "-n", "5", "a/", "Zoo"])
    wait_until(lambda: running.stats()[0]["subscriptions"] == 2, "it is subscribed")
    assert command("pub", *at, "a/b", "21.5") == (0, b"", "")
    assert command("pub", *at, "Zoo") == (0, b"", "")
    assert command("pub", *at, "a/\udcff", "--hex", "00ff") == (0, b"", "")
    assert command("pub", *at, "a/l", "--lines", given=b"one\ntwo") == (0, b"", "")
    printed = b'"a/b" 4 "21.5"\n"Zoo" 0\n612fff 2 00ff\n"a/l" 3 "one"\n"a/l" 3 "two"\n'
    assert subscriber.done() == (0, printed, "")


@pytest.mark.parametrize("form", ["--json", "--raw"])
def test_sub_forms(daemon: StartDaemon, form: str) -> None:
    running = daemon()
    subscriber = Forked(main, ["sub", "-a", running.path, form, "-n1", "a"])
    wait_until(lambda: running.stats()[0]["subscriptions"] == 1, "it is subscribed")
    with running.client() as client:
        client.publish("a", b"1")
        settle(client)
    status, printed, _ = subscriber.done()
    assert status == 0
    if form == "--json":
        record = json.loads(printed)
        assert record.pop("time_ns") > 0
        assert record == {"control": False, "key": "a", "data": "1"}
    else:
        assert printed == b"1"


def test_sub_ends_at_sigterm_and_times_out(daemon: StartDaemon) -> None:
    running = daemon()
    assert command("sub", "-a", running.path, "--timeout", "0.1", "a").status == 124
    subscriber = Forked(main, ["sub", "-a", running.path, "a"])
    wait_until(lambda: running.stats()[0]["subscriptions"] == 1, "it is subscribed")
    subscriber.terminate()
    assert subscriber.done().status == 0


def test_the_daemon_goes_while_sub_waits(daemon: StartDaemon) -> None:
    running = daemon()
    subscriber = Forked(main, ["sub", "-a", running.path, "a"])
    wait_until(lambda: running.stats()[0]["subscriptions"] == 1, "it is subscribed")
    running.stop()
    assert subscriber.done() == (1, b"", closed("sub", running))


def test_whoami(daemon: StartDaemon) -> None:
    status, printed, _ = command("whoami", "-a", daemon().path)
    assert status == 0
    assert printed.startswith(b"!/cred/%d/%d/" % (os.getgid(), os.getuid()))
