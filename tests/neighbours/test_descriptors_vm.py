# SPDX-License-Identifier: MIT
"""Descriptors in odd places: as stdin, on their way through a socket, and in cycles of sockets."""

from __future__ import annotations

import array
import os
import socket
import subprocess
import sys

import pytest

from kbus import Ksock, Request
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import bindings, names, take, wait_until
from tests.kernel.processes import NOBODY, become, in_child
from tests.neighbours.bystanders import Bystanders

CLOSED = {"stdin": ("<&-", b"[0:"), "all": ("<&- >&- 2>&-", b"")}
"""Which streams are closed, for a shell, and what then begins what the command prints."""


def pass_on(sender: socket.socket, *fds: int) -> None:
    """Send descriptors through a socket."""
    sender.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


@pytest.mark.rule(31)
@pytest.mark.parametrize("fd", [0, 1, 2])
def test_a_ksock_instead_of_a_standard_stream(ksock: OpenKsock, open_to_all: None, fd: int) -> None:
    listener, replier = ksock(), ksock()
    listener.bind("$.A")
    replier.bind("$.A", replier=True)

    def send() -> list[str]:
        become(NOBODY)
        os.close(fd)
        with Ksock() as one:
            assert one.fileno() == fd
            one.bind("$.A")
            one.send_msg(Request("$.A"))
            return names(one)

    assert in_child(send) == names(listener) == names(replier) == ["$.A"]


@pytest.mark.parametrize(("closed", "printed"), CLOSED.values(), ids=CLOSED)
def test_the_command_without_standard_streams(ksock: OpenKsock, closed: str, printed: bytes) -> None:
    listener = ksock()
    listener.bind("$.A")
    command = f'exec {sys.executable} -m kbus.cli send "\\$.A" hello {closed}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout[:3] == printed
    assert take(listener).data == b"hello"


@pytest.mark.rule(31)
@pytest.mark.axiom("lifetime")
def test_a_ksock_on_its_way_through_a_socket(ksock: OpenKsock, open_to_all: None, child: StartChild) -> None:
    """It lives as long as somebody can still receive it; then it closes like any other."""
    asker = ksock()

    def post() -> object:
        become(NOBODY)
        near, far = socket.socketpair()
        with Ksock() as replier:
            replier.bind("$.A", replier=True)
            pass_on(near, replier.fileno())
        return near, far

    poster = child(post)
    asker.send_msg(Request("$.A"))
    assert names(asker) == []
    poster.kill()
    wait_until(lambda: bindings() == [], "the KSock is gone")
    assert names(asker) == ["$.KBUS.Replier.GoneAway"]


@pytest.mark.rule(27, 31)
@pytest.mark.axiom("answer", "lifetime")
def test_ksocks_in_a_cycle_of_sockets(
    ksock: OpenKsock, bystanders: Bystanders, open_to_all: None, child: StartChild
) -> None:
    """Nobody can receive them any more, and the kernel's garbage collector for sockets finds that out."""
    asker = ksock()
    asker.set_max_messages(100)

    def entangle() -> object:
        become(NOBODY)
        kept = []
        for number in range(20):
            near, far = socket.socketpair()
            with Ksock() as replier:
                replier.bind(f"$.N{number}", replier=True)
                # Each socket is on its way through the other one, with the KSock.
                pass_on(near, far.fileno(), replier.fileno())
                pass_on(far, near.fileno())
            kept.append((near, far))
        return kept

    entangled = child(entangle)
    for number in range(20):
        asker.send_msg(Request(f"$.N{number}"))
    entangled.kill()
    bystanders.window()
    # A socket that closes makes the collector look; later kernels do it on their own.
    wait_until(lambda: _closes_a_socket() and asker.num_messages() == 20, "all the Requests are answered")
    assert names(asker) == ["$.KBUS.Replier.GoneAway"] * 20


def _closes_a_socket() -> bool:
    for each in socket.socketpair():
        each.close()
    return True
