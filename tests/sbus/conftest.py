# SPDX-License-Identifier: MIT
"""Fixtures. Those that need the module are for root in the virtual machine of tests/vm."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from kbus.sbus.bridge import Bridge
from kbus.sbus.limits import BridgeLimits
from kbus.sbus.packets import SLASH
from kbus.sbus.peer import Peer
from tests.kernel.conftest import OpenKsock, child, ksock, open_to_all
from tests.kernel.helpers import bindings, stats_lines
from tests.sbus import running
from tests.sbus.echo import EchoBus, use_no_kbus
from tests.sbus.running import Daemon

__all__ = ["OpenKsock", "child", "ksock", "open_to_all"]


class StartDaemon(Protocol):
    """Starts a daemon with these options; it must end well after the test."""

    def __call__(self, *options: str, name: str = "sbus") -> Daemon: ...


@pytest.fixture
def bus() -> Iterator[EchoBus]:
    """A bus without KBUS, for `bridge`; a module may have another one."""
    with closing(EchoBus()) as bus:
        yield bus


@pytest.fixture
def bridge(bus: EchoBus) -> Bridge:
    """A bridge that nobody reads or writes but the test."""
    return Bridge(bus, SLASH, "$", BridgeLimits())  # type: ignore[arg-type]


@contextmanager
def connected(bridge: Bridge) -> Iterator[Peer]:
    """One more client that does not read."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        peer = bridge.connect(ours)
        yield peer
        bridge.disconnect(peer)


@pytest.fixture
def peer(bridge: Bridge) -> Iterator[Peer]:
    """A client that does not read."""
    with connected(bridge) as peer:
        yield peer


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """When all daemons have ended, nobody is on the bus."""
    yield
    assert bindings() == []
    assert [line.key for line in stats_lines() if line.key[0] == "ksock"] == []


@pytest.fixture
def place(nothing_left: None) -> Iterator[Path]:
    """A directory whose paths are short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="sbus") as directory:
        yield Path(directory)


@pytest.fixture
def daemon(place: Path) -> Iterator[StartDaemon]:
    """Starts daemons."""
    with ExitStack() as stack:

        def start(*options: str, name: str = "sbus") -> Daemon:
            return stack.enter_context(running.daemon(place, *options, name=name))

        yield start


@pytest.fixture
def without_kbus() -> Iterator[StartDaemon]:
    """Starts daemons on a bus that needs no module."""
    with tempfile.TemporaryDirectory(prefix="sbus") as directory, ExitStack() as stack:

        def start(*options: str, name: str = "sbus") -> Daemon:
            return stack.enter_context(
                running.daemon(Path(directory), *options, name=name, prepare=use_no_kbus)
            )

        yield start
