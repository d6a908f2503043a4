# SPDX-License-Identifier: MIT
"""Neighbours who stand still: a replier and a sender that are stopped, senders that wait for ever."""

from __future__ import annotations

import ctypes
import os
import signal

import pytest

from kbus import Announcement, Request
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import device_stats, fill, ksock_stats, names, take, texts, wait_until
from tests.kernel.processes import NOBODY, become, blocked_send
from tests.kernel.room import waiting
from tests.neighbours.bystanders import Bystanders
from tests.neighbours.neighbour import StartNeighbour

pytestmark = pytest.mark.axiom("isolation")

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WALL = 0x40000000


def stop_with_debugger(pid: int) -> None:
    """Attach to a process and stop it, wherever it is; it goes on when the caller is gone."""
    become(NOBODY)
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        assert ptrace(request, pid, None, None) == 0, os.strerror(ctypes.get_errno())
    stopped, status = os.waitpid(pid, WALL)
    assert stopped == pid
    assert os.WIFSTOPPED(status)


@pytest.mark.rule(25, 27)
def test_a_replier_stopped_by_a_debugger(
    ksock: OpenKsock, bystanders: Bystanders, neighbour: StartNeighbour, child: StartChild
) -> None:
    asker, other = ksock(), ksock()
    other.bind("$.A")
    replier = neighbour("open 1 serve $.A done loop read")
    debugger = child(lambda: stop_with_debugger(replier.pid))
    asker.send_msg(Request("$.A"))
    bystanders.window()
    asker.send_msg(Announcement("$.A"))
    assert names(other) == ["$.A", "$.A"]
    assert names(asker) == []
    # A process that is stopped can be killed, and then its debts are settled.
    # It is the debugger who is told of its end.
    os.kill(replier.pid, signal.SIGKILL)
    wait_until(lambda: asker.num_messages() == 1, "the Request is answered")
    assert names(asker) == ["$.KBUS.Replier.GoneAway"]
    debugger.kill()


@pytest.mark.rule(22)
def test_a_sender_stopped_while_it_waits(
    ksock: OpenKsock, bystanders: Bystanders, neighbour: StartNeighbour, child: StartChild
) -> None:
    """Whoever waits behind him is served; when he goes on, so does his SEND."""
    full = ksock()
    fill(full, "$.A")
    first = neighbour("open 1 done wait $.A 1")
    wait_until(a_message_waits, "the neighbour waits")
    debugger = child(lambda: stop_with_debugger(first.pid))
    second = blocked_send(ksock(), waiting(b"next"))
    bystanders.window()
    assert take(full).data is None
    second.result()
    assert texts(full) == [b"next"]
    debugger.kill()
    wait_until(lambda: full.num_messages() == 1, "the neighbour goes on")
    # As long as it is read the neighbour sends the next one.
    assert take(full).data == bytes(4)


def a_message_waits() -> bool:
    """Whether any message on device 0 waits for room."""
    return device_stats()["waiting"] > 0


@pytest.mark.rule(22)
def test_a_sender_that_waits_for_ever(
    ksock: OpenKsock, bystanders: Bystanders, neighbour: StartNeighbour
) -> None:
    """A neighbour waits for an accomplice who never reads, and whom a bystander's messages concern, too."""
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    neighbour("open 1 queue 1 bind $.A 1 bind $.Own 1 send $.Own 0 0 done pause")
    neighbour("open 1 done wait $.A 0", uid=NOBODY - 1)
    wait_until(a_message_waits, "the neighbour waits")
    sent = [bytes([number, 0, 0, 0]) for number in range(50)]
    for data in sent:
        raw.send(sender, raw.message(b"$.A", data))
    bystanders.window()
    assert texts(listener) == sent
    assert ksock_stats(listener)["lost"] == 0
    assert a_message_waits()


@pytest.mark.rule(22)
def test_a_sender_that_always_waits_for_a_listener_that_reads(
    ksock: OpenKsock, bystanders: Bystanders, neighbour: StartNeighbour
) -> None:
    """A neighbour keeps the queue full. A bystander who waits for room there has his turn."""
    listener, sender = ksock(), ksock()
    listener.set_max_messages(4)
    listener.bind("$.A")
    with neighbour("fork 4 open 1 done wait $.A 0"):
        wait_until(lambda: listener.num_messages() == 4, "the queue is full")
        sending = blocked_send(sender, waiting(b"mine"))
        # Those who were in line before, what was queued, and he.
        received = []
        while b"mine" not in received:
            wait_until(lambda: listener.num_messages() > 0, "a message comes")
            received.append(take(listener).data)
        assert len(received) <= 4 + 4 + 4 + 1
        sending.result()
        bystanders.window()
