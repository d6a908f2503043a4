# SPDX-License-Identifier: MIT
"""`kbus send` of more than one message."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest

from kbus import Ksock, Message, inspect
from kbus.cli import main, pace
from kbus.terminal.signals import EndSignals
from kbus.testing import Bus

Captured = pytest.CaptureFixture[str]


@contextmanager
def sending(path: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`kbus send $.A` in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "kbus.cli", "send", "$.A", *options],
        env={**os.environ, "KBUS_TEST_BUS": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[bytes], given: bytes = b"") -> tuple[int, bytes, bytes]:
    """Give it the rest of its stdin; exit status, stdout and stderr, where the stand-in has a line."""
    out, err = process.communicate(given, timeout=30)
    shown = [line for line in err.splitlines(keepends=True) if line.startswith((b"kbus send", b"Traceback"))]
    return process.returncode, out, b"".join(shown)


def give(process: subprocess.Popen[bytes], data: bytes) -> None:
    """Write to its stdin."""
    assert process.stdin
    process.stdin.write(data)
    process.stdin.flush()


def came(listener: Ksock) -> Message:
    """The next message, once it is there."""
    message = listener.wait_for_msg(30)
    assert message
    return message


def datas(listener: Ksock) -> list[bytes]:
    """The data of all that is queued."""
    return [message.data or b"" for message in listener]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\n\nrest", [b"one", b"", b"rest"]),
        (b"\xff\0\r\n", [b"\xff\0\r"]),
        (b"x" * 200_000 + b"\ny", [b"x" * 200_000, b"y"]),
    ],
    ids=["none", "empty", "two", "rest", "bytes", "long"],
)
def test_lines(given: bytes, expected: list[bytes], bus_path: str) -> None:
    with Ksock() as listener, sending(bus_path, "--lines") as process:
        listener.bind("$.A")
        status, out, err = said(process, given)
        messages = list(listener)
    assert (status, err) == (0, b"")
    assert [message.data or b"" for message in messages] == expected
    ids = [str(message.id) for message in messages]
    summary = {0: "0 messages sent", 1: "1 message sent, {0}"}.get(
        len(ids), f"{len(ids)} messages sent, {{0}} to {{1}}"
    )
    assert out.decode() == summary.format(*ids[:1], *ids[-1:]) + "\n"


def test_a_line_is_sent_as_it_comes(bus_path: str) -> None:
    with Ksock() as listener, sending(bus_path, "-l", "--json") as process:
        listener.bind("$.A")
        assert process.stdout
        for text in (b"one", b"two"):
            give(process, text + b"\n")
            message = came(listener)
            assert message.data == text
            assert message.id
            # The next line is not there yet, and the id of this one is.
            assert json.loads(process.stdout.readline()) == {"device": 0, "id": [0, message.id.serial_num]}
        assert said(process) == (0, b"", b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(number: signal.Signals, bus_path: str) -> None:
    with Ksock() as listener, sending(bus_path, "-l") as process:
        listener.bind("$.A")
        give(process, b"one\nnot a li")
        message = came(listener)
        process.send_signal(number)
        # Its stdin is still open.
        process.wait(30)
        assert said(process) == (0, f"1 message sent, {message.id}\n".encode(), b"")
        assert datas(listener) == []


def test_a_signal_ends_it_while_it_waits_for_room(bus_path: str) -> None:
    with Ksock() as listener, sending(bus_path, "--repeat", "5", "--all-or-wait") as process:
        listener.bind("$.A")
        listener.set_max_messages(1)
        deadline = time.monotonic() + 30
        while not _waiting() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        status, out, err = said(process)
        assert (status, err) == (0, b"")
        assert out.startswith(b"1 message sent")
        assert len(datas(listener)) == 1


def _waiting() -> bool:
    return bool(inspect.stats()[0].waiting)


def test_a_signal_ends_it_between_two(bus_path: str) -> None:
    with Ksock() as listener, sending(bus_path, "--repeat", "5", "--rate", "0.01") as process:
        listener.bind("$.A")
        came(listener)
        process.send_signal(signal.SIGINT)
        status, out, err = said(process)
        assert (status, err) == (0, b"")
        assert out.startswith(b"1 message sent")


def test_repeat(bus: Bus, capsys: Captured) -> None:
    with Ksock() as listener:
        listener.bind("$.A")
        assert main(["send", "$.A", "--repeat", "3", "--hex", "00ff"]) == 0
        messages = list(listener)
    assert [message.data for message in messages] == [b"\0\xff"] * 3
    assert capsys.readouterr() == (f"3 messages sent, {messages[0].id} to {messages[2].id}\n", "")


def test_repeat_as_json(bus: Bus, capsys: Captured) -> None:
    assert main(["send", "$.A", "--repeat", "2", "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert records == [{"device": 0, "id": [0, 1]}, {"device": 0, "id": [0, 2]}]


def test_what_fails_is_named(bus: Bus, capsys: Captured) -> None:
    with Ksock() as listener:
        listener.bind("$.A")
        listener.set_max_messages(2)
        assert main(["send", "$.A", "--repeat", "5", "--all-or-fail"]) == 1
        assert len(datas(listener)) == 2
    assert capsys.readouterr() == (
        "",
        "kbus send: message 3: can't send $.A: a recipient that must get it has a full queue,"
        " so it was not delivered; 2 messages sent before\n",
    )


def test_the_line_that_fails_is_named(bus_path: str) -> None:
    with Ksock() as listener, sending(bus_path, "--lines") as process:
        listener.bind("$.A")
        status, out, err = said(process, b"fits\n" + b"x" * (2 << 20) + b"\nfits\n")
        assert datas(listener) == [b"fits"]
    assert (status, out) == (1, b"")
    assert err.startswith(b"kbus send: line 2: can't send $.A: it is longer than ")
    assert err.endswith(b"; 1 message sent before\n")


@pytest.mark.parametrize("options", [(), ("--json",), ("--json", "--rate", "1000")])
def test_a_full_stdout_does_not_hide_how_many(bus_path: str, options: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kbus.cli", "send", "$.A", "--repeat", "3", *options],
            env={**os.environ, "KBUS_TEST_BUS": bus_path, "PYTHONUNBUFFERED": ""},
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=30,
            text=True,
        )
    assert done.returncode == 1
    count = "1 message" if "--rate" in options else "3 messages"
    said = f"kbus send: can't write to standard output: No space left on device; {count} sent before\n"
    assert done.stderr.endswith(said)


def test_a_reader_that_leaves_is_told_of(bus_path: str) -> None:
    """Ids go to it as soon as this waits; the lines that follow the one that it has missed stay unsent."""
    with Ksock() as listener, sending(bus_path, "--lines", "--json", "--rate", "1000") as process:
        listener.bind("$.A")
        assert process.stdin and process.stdout
        process.stdout.close()
        with suppress(BrokenPipeError):
            for _ in range(30):
                os.write(process.stdin.fileno(), b"x\n")
                time.sleep(0.1)
        assert process.stderr
        err = process.stderr.read()
        assert process.wait(30) == 0
        assert datas(listener) == [b"x"]
    assert err.endswith(b"kbus send: standard output has no reader any more; 1 message sent before\n")


def test_each_has_the_time_limit(bus: Bus, capsys: Captured) -> None:
    with Ksock() as listener:
        listener.bind("$.A")
        listener.set_max_messages(2)
        assert main(["send", "$.A", "--repeat", "5", "--all-or-wait", "--timeout", "0.1"]) == 124
        assert len(datas(listener)) == 2
    assert capsys.readouterr().err == (
        "kbus send: message 3: not all queues had room within 0.1 s; none got it; 2 messages sent before\n"
    )


def test_a_stdin_that_can_not_be_read(bus_path: str) -> None:
    stdin = os.open("/dev/null", os.O_WRONLY)
    done = subprocess.run(
        [sys.executable, "-m", "kbus.cli", "send", "-l", "$.A"],
        env={**os.environ, "KBUS_TEST_BUS": bus_path},
        stdin=stdin,
        capture_output=True,
        timeout=30,
        check=False,
    )
    os.close(stdin)
    assert (done.returncode, done.stdout) == (1, b"")
    assert (
        b"can't read the data from standard input: Bad file descriptor; 0 messages sent before\n"
        in done.stderr
    )


class Watch:
    """A clock that moves when somebody waits, in place of time and signals."""

    came = False

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wait_until(self, when: float) -> None:
        self.now = max(self.now, when)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Time as ``pace`` has it."""
    one = Watch()
    monkeypatch.setattr(pace, "time", one)
    return one


def paced(watch: Watch, rate: float, costs: Sequence[tuple[float, float]]) -> tuple[list[float], str | None]:
    """When each was done, if it had to be waited for, and took, so many seconds; and the shortfall."""
    one, done = pace.Pace(rate), []
    for idle, busy in costs:
        asked = watch.now
        watch.now += idle
        one.wait(asked, watch)  # type: ignore[arg-type]
        done.append(round(watch.now - 100, 6))
        watch.now += busy
    return done, one.shortfall()


def test_the_rate_has_no_drift(watch: Watch) -> None:
    assert paced(watch, 10, [(0, 0.03)] * 5) == ([0, 0.1, 0.2, 0.3, 0.4], None)


def test_what_was_late_is_caught_up_with(watch: Watch) -> None:
    costs = [(0, 0.0), (0, 0.25), (0, 0.0), (0, 0.0), (0, 0.0), (0, 0.0)]
    assert paced(watch, 10, costs) == ([0, 0.1, 0.35, 0.35, 0.4, 0.5], None)


def test_a_rate_that_can_not_be_kept_up_is_told(watch: Watch) -> None:
    done, shortfall = paced(watch, 10, [(0, 0.2)] * 10)
    assert done[-1] == 1.8
    assert shortfall == "10 a second could not be kept up: it was 5 a second, and up to 0.900 s late"


def test_lines_that_come_late_are_not_made_up_for(watch: Watch) -> None:
    costs = [(0.0, 0.0), (1.0, 0.0), (0.0, 0.0), (0.0, 0.0)]
    assert paced(watch, 10, costs) == ([0, 1, 1.1, 1.2], None)


def test_the_rate_of_a_real_clock(bus: Bus) -> None:
    with Ksock() as listener:
        listener.bind("$.A")
        began = time.monotonic()
        assert main(["send", "$.A", "--repeat", "6", "--rate", "20"]) == 0
        assert time.monotonic() - began >= 0.25
        assert len(datas(listener)) == 6


def test_waiting_until_a_time_ends_with_a_signal() -> None:
    with EndSignals() as signals:
        signals.wait_until(time.monotonic() + 0.01)
        assert not signals.came
        os.kill(os.getpid(), signal.SIGTERM)
        signals.wait_until(time.monotonic() + 1e12)
        assert signals.came
        assert select.select([signals], [], [], 0)[0]
