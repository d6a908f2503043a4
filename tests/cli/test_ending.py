# SPDX-License-Identifier: MIT
"""Signals that end a command, and waiting that may take long."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import AbstractContextManager

import pytest

from kbus import Ksock, inspect
from kbus.terminal import output
from kbus.terminal.signals import EndSignals, polled
from tests.cli.started import started
from tests.kernel.helpers import wait_until

PATIENCE = 60

TWICE = """
import os, signal, sys, time
from kbus.terminal.signals import EndSignals
number = signal.Signals(int(sys.argv[1]))
with EndSignals() as signals:
    print("said", end="")
    os.kill(os.getpid(), number)
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), number)
    assert signals.came
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("seconds", "ends"), [(0, False), (0.7, True)])
def test_a_second_signal_kills_unless_it_comes_with_the_first(
    number: signal.Signals, seconds: float, ends: bool
) -> None:
    """timeout(1) sends two at once: to its child, and to its group, which the child is in."""
    command = [sys.executable, "-c", TWICE, str(int(number)), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (-number if ends else 0, "")
    assert ends or done.stdout == "said"


@pytest.mark.parametrize("seconds", [1e7, 1e10, 1e308])
def test_any_time_can_be_waited_for(seconds: float) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    try:
        assert polled(poll, seconds) == {reader: select.POLLIN}
    finally:
        os.close(reader)
        os.close(writer)
    assert polled(select.poll(), 0.01) == {}


@pytest.mark.parametrize("seconds", ["2592000", "1e12"])
def test_commands_wait_for_any_time(bus_path: str, seconds: str) -> None:
    def command(*words: str) -> AbstractContextManager[subprocess.Popen[str]]:
        return started(bus_path, "-m", "kbus.cli", words[0], "--timeout", seconds, *words[1:])

    def said(process: subprocess.Popen[str]) -> tuple[str, str, int]:
        return (*process.communicate(timeout=PATIENCE), process.returncode)

    with (
        Ksock() as full,
        command("listen", "-n", "1", "--data", "$.A") as listen,
        command("serve", "-n", "1", "$.B", "--", "cat") as serve,
    ):
        wait_until(lambda: len(inspect.bindings()) == 2, "they are bound", PATIENCE)
        full.set_max_messages(1)
        full.bind("$.*")
        with command("call", "$.B", "x") as call:
            assert said(call) == ("x", "", 0)
        assert said(serve) == ("", "", 0)
        with command("send", "--all-or-wait", "$.A", "heard") as send:
            wait_until(lambda: bool(inspect.stats()[0].waiting), "it waits for room", PATIENCE)
            assert full.read_next_msg()
            assert said(send)[1:] == ("", 0)
        assert said(listen) == ("heard\n", "", 0)


def test_a_wait_ends_though_the_handler_has_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the signal comes after Python has looked for some, and before the wait begins."""
    monkeypatch.setattr(EndSignals, "_on_signal", lambda *arguments: None)
    with EndSignals() as signals:
        signal.raise_signal(signal.SIGTERM)
        assert select.select([signals], [], [], 0)[0]


def test_nothing_waits_for_whoever_does_not_read_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """For long: what is left out then is counted, and told when it is read again."""
    reader, writer = os.pipe()
    with open(writer, "w") as stderr, open(reader, "rb") as pipe:
        monkeypatch.setattr(sys, "stderr", stderr)
        for _ in range(100):
            output.show("x" * 2014 + "\n", patience=0.05)
        os.set_blocking(reader, False)
        assert 60_000 < len(pipe.read()) < 66_000
        output.say("record", "at last")
        told, last = pipe.read().decode().splitlines()
    left_out = int(told.split()[5])
    assert (told, last) == (
        f"(text was left out here {left_out} times: it was not read)",
        "kbus record: at last",
    )
    assert 65 < left_out < 75


def test_rule_a_signal_that_comes_while_others_are_taken_wakes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken with them, and nothing stays behind of it that would end each wait from then on."""
    real = os.read

    def read(fd: int, count: int) -> bytes:
        try:
            return real(fd, count)
        except BlockingIOError:
            monkeypatch.undo()
            signal.raise_signal(signal.SIGHUP)
            raise

    with EndSignals(signal.SIGUSR1, signal.SIGHUP) as signals:
        signal.raise_signal(signal.SIGUSR1)
        monkeypatch.setattr("kbus.terminal.signals.os.read", read)
        assert signals.take_others() == {signal.SIGUSR1, signal.SIGHUP}
        assert signals.take_others() == set()
        assert select.select([signals], [], [], 0) == ([], [], [])
