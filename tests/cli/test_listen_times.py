# SPDX-License-Identifier: MIT
"""`kbus listen` shows when messages were sent, not when it came to read them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kbus import Announcement, Ksock, Message, inspect
from kbus.cli.incoming import Incoming
from kbus.testing import Bus
from tests.kernel import helpers

wait_until = partial(helpers.wait_until, patience=30)

#: ns by which the difference of two clocks can be wrong that are not read at the same moment
NEAR = 50_000_000


@contextmanager
def stopped(path: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """It, when it has bound, and can't read."""
    with subprocess.Popen(
        [sys.executable, "-m", "kbus.cli", "listen", "$.A", *options],
        env={**os.environ, "KBUS_TEST_BUS": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            wait_until(lambda: bool(inspect.bindings()), "it has bound")
            process.send_signal(signal.SIGSTOP)
            stat = Path(f"/proc/{process.pid}/stat")
            wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it is stopped")
            yield process
        finally:
            process.kill()


def test_a_message_that_had_to_wait(bus_path: str) -> None:
    with Ksock() as sender, stopped(bus_path, "--json", "-n", "2") as process:
        bounds = []
        for _ in range(2):
            before = time.time_ns()
            sender.send_msg(Announcement("$.A"))
            bounds.append((before - NEAR, time.time_ns() + NEAR))
            time.sleep(0.2)
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=30)
    times = [json.loads(line)["time_ns"] for line in out.splitlines()]
    assert len(times) == 2
    for at, (earliest, latest) in zip(times, bounds):
        assert earliest <= at <= latest


def test_the_time_between_two(bus_path: str) -> None:
    with Ksock() as sender, stopped(bus_path, "-t", "delta", "--format", "%t", "-n", "2") as process:
        sender.send_msg(Announcement("$.A"))
        began = time.monotonic()
        time.sleep(0.2)
        sender.send_msg(Announcement("$.A"))
        took = time.monotonic() - began
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=30)
    first, second = map(float, out.splitlines())
    assert first == 0
    assert 0.2 <= second <= took + 0.05


def test_what_is_queued_is_taken_to_its_end(bus: Bus) -> None:
    """And nothing that comes later, wherever it has got to in what one system call has brought."""
    with Ksock() as sender, Ksock() as listener:
        incoming = Incoming(listener)
        listener.bind("$.A")
        for text in ("1", "2", "3"):
            sender.send_msg(Announcement("$.A", text))
        assert incoming.take()
        sender.send_msg(Announcement("$.A", "4"))
        queued = incoming.queued()
        found = [next(queued)[0].data]
        sender.send_msg(Announcement("$.A", "5"))
        found += [message.data for message, _ in queued]
        assert found == [b"2", b"3", b"4"]
        last = incoming.take()
        assert last and last[0].data == b"5"
        assert incoming.take() is None


def test_times_of_urgent_messages(bus: Bus) -> None:
    with Ksock() as sender, Ksock() as listener:
        incoming = Incoming(listener)
        listener.bind("$.A")
        began = time.time_ns()
        sender.send_msg(Announcement("$.A", "plain"))
        sender.send_msg(Announcement("$.A", "urgent", flags=Message.URGENT))
        found = {message.data: at for message, at in incoming.queued()}
        assert list(found) == [b"urgent", b"plain"]
        assert began - NEAR <= found[b"plain"] < found[b"urgent"] <= time.time_ns() + NEAR


@pytest.mark.parametrize("count", [1, 500])
def test_times_do_not_go_back(count: int, bus: Bus) -> None:
    with Ksock() as sender, Ksock() as listener:
        incoming = Incoming(listener)
        listener.bind("$.A")
        listener.set_max_messages(1000)
        times = []
        for _ in range(3):
            for _ in range(count):
                sender.send_msg(Announcement("$.A"))
            times += [at for _, at in incoming.queued()]
        assert len(times) == 3 * count
        assert times == sorted(times)
