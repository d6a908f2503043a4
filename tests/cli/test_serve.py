# SPDX-License-Identifier: MIT
"""`kbus serve` on the stand-in: commands that print without end, do not end, or leave others behind."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbus import Ksock, ReplierError, Request, inspect
from tests.cli.started import started
from tests.kernel.helpers import wait_until

PATIENCE = 60


@contextmanager
def serving(
    path: str, *arguments: str, script: str, stderr: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """`kbus serve $.A`, as soon as it is bound; the script, for a shell, is what it runs."""
    command = ["-m", "kbus.cli", "serve", "$.A", *arguments, "--", "sh", "-c", script]
    with started(path, *command, stderr=stderr) as process:
        wait_until(lambda: bool(inspect.bindings()), "it is bound", patience=PATIENCE)
        yield process


def refusal(asker: Ksock) -> str:
    """The error that is the answer to a Request of ``asker``."""
    with pytest.raises(ReplierError) as caught:
        asker.call("$.A", timeout=PATIENCE)
    return str(caught.value)


def has_ended(pid: int) -> bool:
    """Whether there is no such process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture
def asker(bus_path: str) -> Iterator[Ksock]:
    """Whoever asks."""
    with Ksock() as ksock:
        yield ksock


def test_the_reader_of_stdout_may_leave(bus_path: str, asker: Ksock) -> None:
    """Nothing is written there: a service goes on, unlike a listener."""
    with serving(bus_path, script="echo hi") as server:
        assert asker.call("$.A", timeout=PATIENCE).data == b"hi\n"
        assert server.stdout
        server.stdout.close()
        for _ in range(2):
            assert asker.call("$.A", timeout=PATIENCE).data == b"hi\n"
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
        assert server.stderr
        assert server.stderr.read() == ""


def test_an_answer_without_end(bus_path: str, asker: Ksock, tmp_path: Path) -> None:
    """It is read as far as an answer can go, and then the command is killed."""
    script = f'echo $$ >>{tmp_path}/pid; trap "" TERM; [ "$(cat)" ] && exec yes; echo hi'
    with serving(bus_path, "-n", "2", script=script) as server:
        with pytest.raises(ReplierError) as caught:
            asker.call("$.A", "yes", timeout=PATIENCE)
        longest = asker.max_message_size()
        said = f"the answer of more than {longest} bytes is longer than a message can be"
        assert str(caught.value) == f"AnswerTooLong: {said}"
        pids = (tmp_path / "pid").read_text().split()
        assert has_ended(int(pids[0]))
        answer = asker.call("$.A", timeout=PATIENCE)
        assert answer.data == b"hi\n"
        out, err = server.communicate(timeout=PATIENCE)
    assert (server.returncode, out) == (0, "")
    assert caught.value.message is not None
    assert err == f"kbus serve: request {caught.value.message.in_reply_to}: {said}\n"


def test_stderr_without_line_ends(bus_path: str, asker: Ksock) -> None:
    script = "head -c 20000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo last >&2; exit 3"
    with serving(bus_path, "-n", "1", script=script, stderr=subprocess.DEVNULL):
        assert refusal(asker) == "Exit.3: last"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "script", ["exec sleep 1000", "trap '' TERM; while :; do sleep 0.1; done", "exec yes >&2"]
)
def test_one_signal_ends_it_while_a_command_runs(
    number: signal.Signals, script: str, bus_path: str, asker: Ksock, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    with serving(bus_path, script=f"echo $$ >{pid}; {script}", stderr=subprocess.DEVNULL) as server:
        asker.send_msg(Request("$.A"))
        wait_until(lambda: pid.exists() and bool(pid.read_text()), "it runs", patience=PATIENCE)
        server.send_signal(number)
        assert server.wait(PATIENCE) == 0
        answer = asker.wait_for_msg(PATIENCE)
        assert has_ended(int(pid.read_text()))
    assert answer is not None
    assert answer.data == b"Stopped\n`kbus serve` was ended before the command had answered"


@pytest.mark.parametrize("kept", ["", ">/dev/null", "2>/dev/null"])
def test_whoever_keeps_the_pipes_is_not_waited_for(
    kept: str, bus_path: str, asker: Ksock, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 1000 {kept} & echo $! >{pid}; echo hi; echo so >&2"
    try:
        with serving(bus_path, "-n", "1", script=script) as server:
            assert asker.call("$.A", timeout=PATIENCE).data == b"hi\n"
            told = (
                "kbus serve: sh has ended, but others can still write: the answer is what came until then\n"
            )
            assert server.communicate(timeout=PATIENCE) == ("", "so\n" + told * (kept != ">/dev/null"))
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_status_is_told_though_whoever_started_it_ignores_the_end_of_children(
    bus_path: str, asker: Ksock
) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with serving(bus_path, "-n", "1", script="exit 3") as server:
            assert refusal(asker).startswith("Exit.3")
            signal.signal(signal.SIGCHLD, before)
            server.communicate(timeout=PATIENCE)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_what_is_large_goes_both_ways(bus_path: str, asker: Ksock) -> None:
    data = bytes(range(256)) * 1000
    with serving(bus_path, "-n", "3", script="cat; echo so >&2") as server:
        for _ in range(3):
            assert asker.call("$.A", data, timeout=PATIENCE).data == data
        assert server.communicate(timeout=PATIENCE) == ("", "so\n" * 3)


@pytest.mark.parametrize("script", ["exit 0", "exec <&-; sleep 0.3", "exec >&- 2>&-; sleep 0.3"])
def test_a_command_that_does_not_read(script: str, bus_path: str, asker: Ksock) -> None:
    with serving(bus_path, "-n", "1", script=script) as server:
        assert not asker.call("$.A", bytes(500_000), timeout=PATIENCE).data
        assert server.communicate(timeout=PATIENCE) == ("", "")


def test_a_time_limit(bus_path: str, asker: Ksock, tmp_path: Path) -> None:
    script = f"echo $$ >{tmp_path}/pid; trap '' TERM; echo half; while :; do sleep 0.1; done"
    with serving(bus_path, "-n", "1", "--time-limit", "0.3", script=script) as server:
        assert refusal(asker) == "TimeLimit: no answer within 0.3 seconds"
        out, err = server.communicate(timeout=PATIENCE)
        assert has_ended(int((tmp_path / "pid").read_text()))
    assert (server.returncode, out) == (0, "")
    assert err.endswith(": no answer within 0.3 seconds\n")


def test_stderr_on_a_terminal_is_printable(bus_path: str, asker: Ksock) -> None:
    script = r"printf '\033[2Jone\a\n\ttwo\nthree' >&2; echo hi"
    terminal, theirs = pty.openpty()
    with serving(bus_path, "-n", "1", script=script, stderr=theirs) as server:
        os.close(theirs)
        assert asker.call("$.A", timeout=PATIENCE).data == b"hi\n"
        assert server.wait(PATIENCE) == 0
    assert os.read(terminal, 4096) == b"\\x1b[2Jone\\x07\r\n        two\r\nthree"
    os.close(terminal)


def test_stderr_that_is_no_terminal_is_as_it_is(bus_path: str, asker: Ksock) -> None:
    with serving(bus_path, "-n", "1", script=r"printf '\033[2Jone\ttwo\n' >&2") as server:
        asker.call("$.A", timeout=PATIENCE)
        assert server.communicate(timeout=PATIENCE) == ("", "\x1b[2Jone\ttwo\n")


def test_a_limit_that_falls_while_the_command_runs(bus_path: str, asker: Ksock, tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    script = f"touch {begun}; while ! [ -e {go} ]; do sleep 0.05; done; head -c 300 /dev/zero"
    before = asker.max_message_size()
    with serving(bus_path, "-n", "2", script=script) as server:
        asker.send_msg(Request("$.A"))
        wait_until(begun.exists, "it runs", patience=PATIENCE)
        asker.set_max_message_size(200)
        go.touch()
        answer = asker.wait_for_msg(PATIENCE)
        asker.set_max_message_size(before)
        assert len(asker.call("$.A", timeout=PATIENCE).data or b"") == 300
        server.communicate(timeout=PATIENCE)
    assert server.returncode == 0
    assert answer is not None
    assert (answer.data or b"").startswith(b"AnswerTooLong\n")
