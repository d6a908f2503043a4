# SPDX-License-Identifier: MIT
"""What ``Client`` promises, whatever daemon there is."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbus.sbus import Client
from tests.kernel.helpers import PATIENCE, fails


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[tuple[Client, socket.socket]]:
    """A client, and the daemon's end of its connection."""
    where = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(where))
        listening.listen()
        with Client(str(where)) as client, listening.accept()[0] as accepted:
            yield client, accepted


@pytest.fixture
def deaf(daemon: tuple[Client, socket.socket]) -> Client:
    """A client of a daemon that takes its connection, and nothing that it sends."""
    return daemon[0]


@pytest.mark.parametrize("ask", [Client.whoami, Client.dropped])
def test_rule_a_timeout_is_for_the_question_too(deaf: Client, ask: Callable[[Client, float], object]) -> None:
    deaf.set_blocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            deaf.publish("a", bytes(1000))
    deaf.set_blocking(True)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="has had no room for"):
        ask(deaf, 0.2)
    assert time.monotonic() - began < PATIENCE


@pytest.mark.parametrize("ask", [Client.whoami, Client.dropped])
def test_rule_who_has_waited_in_vain_is_closed(deaf: Client, ask: Callable[[Client, float], object]) -> None:
    """The answer might be taken for that to a later question."""
    with pytest.raises(TimeoutError, match="has not answered"):
        ask(deaf, 0.1)
    with fails(errno.EBADF):
        deaf.publish("a")


@pytest.mark.parametrize("timeout", [2_592_000, 1e12])
def test_a_timeout_may_be_longer_than_poll_takes(
    daemon: tuple[Client, socket.socket], monkeypatch: pytest.MonkeyPatch, timeout: float
) -> None:
    client, accepted = daemon
    accepted.send(b"MSG a\0")
    assert client.receive(timeout) == (b"a", b"", False)
    monkeypatch.setattr("kbus.terminal.signals._LONGEST_WAIT", 0.01)
    assert client.receive(0.05) is None


@pytest.mark.parametrize("timeout", [None, 0, 0.1])
def test_rule_what_is_closed_here_is_ebadf(deaf: Client, timeout: float | None) -> None:
    deaf.close()
    with fails(errno.EBADF):
        deaf.receive(timeout)
    with fails(errno.EBADF):
        deaf.whoami(timeout)
    with fails(errno.EBADF):
        deaf.publish("a")


@pytest.mark.parametrize("wrong", [5, None, [1, 2]])
def test_rule_a_number_is_no_payload(deaf: Client, wrong: object) -> None:
    """bytes(5) would be five bytes, all of them 0."""
    with pytest.raises(TypeError):
        deaf.publish("a", wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        deaf.publish(wrong)  # type: ignore[arg-type]
