# SPDX-License-Identifier: MIT
"""What a client has sent without an error is delivered, however soon it leaves, or its user is at a limit."""

from __future__ import annotations

import itertools
import os
import resource
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from kbus.sbus import Client
from kbus.sbus.listening import Listening
from tests.sbus.conftest import StartDaemon
from tests.sbus.echo import use_no_kbus
from tests.sbus.running import Daemon, daemon, nothing_more, receive, settle


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
        # Those of whoever runs the tests would be most of them.
        os.closerange(3, 4096)
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
