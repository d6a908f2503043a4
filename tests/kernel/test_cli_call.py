# SPDX-License-Identifier: MIT
"""`kbus call` and `kbus serve` against the module, and against each other."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kbus import Ksock, ReplierError, Request
from kbus._processes import command_of
from kbus.cli import main
from tests.kernel.command import bound, kbus, running
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PATIENCE, bindings, device_stats, ksock_stats, stats_lines, take, wait_until

Captured = pytest.CaptureFixture[str]


def test_there_and_back() -> None:
    data = bytes(range(256)) * 1000 + b"odd"
    with bound("serve", "$.Echo", "-n", "1", "--", "cat") as server:
        done = kbus("call", "$.Echo", "-", "--timeout", "60", stdin=data)
        assert server.end() == (0, "", "")
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


def test_what_the_command_gets(ksock: OpenKsock) -> None:
    script = 'printf "%s %s %s " "$KBUS_NAME" "$KBUS_FROM" "$KBUS_ID"; cat'
    asker = ksock()
    with bound("serve", "$.Who.*", "-n", "1", "--", "sh", "-c", script) as server:
        reply = asker.call("$.Who.Am.I", "data", timeout=PATIENCE)
        assert server.end() == (0, "", "")
    assert reply.data == f"$.Who.Am.I {asker.ksock_id()} {reply.in_reply_to} data".encode()


def test_a_command_that_has_a_double_dash(ksock: OpenKsock) -> None:
    with bound("serve", "$.A", "-n", "1", "--", "printf", "--", "%s ", "--", "-x"):
        assert ksock().call("$.A", timeout=PATIENCE).data == b"-- -x "


@pytest.mark.parametrize(
    ("script", "said", "error"),
    [
        ("exit 3", "sh ended with status 3", "Exit.3"),
        ("kill -9 $$", "sh was ended by signal 9", "Signal.9"),
        ("echo one >&2; echo two >&2; echo >&2; exit 4", "sh ended with status 4", "Exit.4: two"),
    ],
)
def test_a_command_that_fails(script: str, said: str, error: str, ksock: OpenKsock) -> None:
    with bound(
        "serve", "$.A", "-n", "2", "--", "sh", "-c", f"echo half; read line; $line; {script}"
    ) as server:
        asker = ksock()
        with pytest.raises(ReplierError) as caught:
            asker.call("$.A", timeout=PATIENCE)
        assert asker.call("$.A", "exit 0\n", timeout=PATIENCE).data == b"half\n"
        status, out, err = server.end()
    assert str(caught.value) == error
    assert caught.value.message is not None
    assert (status, out) == (0, "")
    assert err.endswith(f"kbus serve: request {caught.value.message.in_reply_to}: {said}\n")


def test_an_error_is_told_and_has_an_exit_status(capsys: Captured) -> None:
    with bound("serve", "$.A", "-n", "2", "--", "sh", "-c", "echo jammed >&2; exit 3"):
        assert main(["call", "$.A"]) == 3
        assert capsys.readouterr() == ("", "kbus call: $.A failed: Exit.3: jammed\n")
        assert main(["call", "$.A", "--json"]) == 3
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert (record["kind"], record["name"]) == ("reply", "$.KBUS.Replier.Failed")
    assert record["data"] == "Exit.3\njammed"
    assert err == "kbus call: $.A failed: Exit.3: jammed\n"


def test_a_request_that_is_given_up_unread(tmp_path: Path, ksock: OpenKsock) -> None:
    go = tmp_path / "go"
    asker = ksock()
    script = f"until [ -e {go} ]; do sleep 0.05; done; cat"
    with bound("serve", "$.A", "-n", "2", "--", "sh", "-c", script) as server:
        _, second, _ = [asker.send_msg(Request("$.A", text)) for text in ("one", "two", "three")]
        asker.abandon(second)
        go.touch()
        assert server.end() == (0, "", "")
    assert [take(asker).data for _ in range(2)] == [b"one", b"three"]


def test_a_command_that_vanishes(tmp_path: Path, ksock: OpenKsock, capsys: Captured) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    with bound("serve", "$.A", "-n", "1", "--", str(script)) as server:
        script.unlink()
        assert main(["call", "$.A", "--timeout", str(PATIENCE)]) == 3
        status, _, err = server.end()
    assert status == 0
    said = f"can't run {str(script)!r}: No such file or directory"
    assert said in err
    assert capsys.readouterr().err == f"kbus call: $.A failed: Exit.126: {said}\n"


def test_an_answer_that_is_too_long(ksock: OpenKsock) -> None:
    asker = ksock()
    size = asker.max_message_size()
    with bound("serve", "$.A", "-n", "1", "--", "head", "-c", str(size), "/dev/zero") as server:
        with pytest.raises(ReplierError) as caught:
            asker.call("$.A", timeout=PATIENCE)
        status, out, err = server.end()
    text = f"the answer of {size} bytes is longer than a message can be"
    assert str(caught.value) == f"AnswerTooLong: {text}"
    assert caught.value.message is not None
    assert (status, out) == (0, "")
    assert err == f"kbus serve: request {caught.value.message.in_reply_to}: {text}\n"


class Gate:
    """A command that prints "through" when it is let through, and not before."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._path = path
        self.command = ["sh", "-c", f"read line <{path}; echo through"]

    def open(self) -> None:
        """Let it through, as soon as it is there."""
        self._path.write_text("go\n")


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """A command that waits."""
    return Gate(tmp_path / "gate")


@pytest.mark.parametrize("leave", [Ksock.close, lambda asker: asker.abandon(asker.last_msg_id())])
def test_an_asker_who_leaves(leave: Callable[[Ksock], None], gate: Gate, ksock: OpenKsock) -> None:
    asker = ksock()
    with bound("serve", "$.A", "-n", "1", "--", *gate.command) as server:
        request_id = asker.send_msg(Request("$.A"))
        wait_until(lambda: somebody("unreplied"), "the request has been read")
        leave(asker)
        gate.open()
        assert server.end() == (
            0,
            "",
            f"kbus serve: request {request_id}: the requester does not wait for the answer any more\n",
        )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_success_and_the_request_is_answered(
    number: signal.Signals, gate: Gate, ksock: OpenKsock
) -> None:
    asker = ksock()
    with bound("serve", "$.A", "--", *gate.command) as server:
        request_id = asker.send_msg(Request("$.A"))
        wait_until(lambda: somebody("unreplied"), "the request has been read")
        server.send_signal(number)
        text = "`kbus serve` was ended before the command had answered"
        assert server.end() == (0, "", f"kbus serve: request {request_id}: {text}\n")
    assert take(asker).data == f"Stopped\n{text}".encode()
    assert bindings() == []


def somebody(key: str) -> bool:
    """Whether the number of that name is not 0 for some KSock."""
    return any(line.numbers[key] for line in stats_lines() if line.key[0] == "ksock")


def test_serve_times_out() -> None:
    with running("serve", "$.A", "--timeout", "0.1", "--", "cat") as server:
        assert server.end() == (124, "", "kbus serve: nothing came for 0.1 s\n")


def test_two_cannot_serve_one_name(ksock: OpenKsock, capsys: Captured) -> None:
    first = ksock()
    first.bind("$.A", replier=True)
    command = command_of(os.getpid())
    assert main(["serve", "$.A", "--", "cat"]) == 1
    assert capsys.readouterr().err == (
        f"kbus serve: can't bind to $.A: KSock {first.ksock_id()} (process {os.getpid()}, {command})"
        " is the replier for it\n"
    )


def test_nobody_can_serve_bind_events(capsys: Captured) -> None:
    assert main(["serve", "$.KBUS.ReplierBindEvent", "--", "cat"]) == 1
    assert capsys.readouterr().err == (
        "kbus serve: can't bind to $.KBUS.ReplierBindEvent:"
        " KBUS itself sends messages of that name, and they have no replier\n"
    )


def test_nobody_replies(capsys: Captured) -> None:
    assert main(["call", "$.A"]) == 1
    assert capsys.readouterr() == (
        "",
        "kbus call: can't send $.A: it has no replier; `kbus bindings` shows what is bound\n",
    )


def test_no_answer_in_time(ksock: OpenKsock, capsys: Captured) -> None:
    replier = ksock()
    replier.bind("$.A", replier=True)
    assert main(["call", "$.A", "--timeout", "0.1"]) == 124
    assert capsys.readouterr() == ("", "kbus call: no answer to $.A within 0.1 s\n")


def read_and_close(replier: Ksock) -> None:
    """Take the Request, and go."""
    take(replier)
    replier.close()


@pytest.mark.parametrize(
    ("leave", "said"),
    [
        (Ksock.close, "the replier went away before it read the request ($.KBUS.Replier.GoneAway)"),
        (
            read_and_close,
            "the replier read the request, and went away without an answer ($.KBUS.Replier.Ignored)",
        ),
        (
            lambda replier: replier.unbind("$.A", True),
            "the replier unbound before it read the request ($.KBUS.Replier.Unbound)",
        ),
    ],
)
def test_a_status_instead_of_an_answer(leave: Callable[[Ksock], None], said: str, ksock: OpenKsock) -> None:
    replier = ksock()
    replier.bind("$.A", replier=True)
    with running("call", "$.A") as process:
        wait_until(lambda: ksock_stats(replier)["queued"] == 1, "the request has come")
        leave(replier)
        assert process.end() == (1, "", f"kbus call: no answer to $.A: {said}\n")


def test_interrupted(ksock: OpenKsock) -> None:
    replier = ksock()
    replier.bind("$.A", replier=True)
    with running("call", "$.A") as process:
        wait_until(lambda: ksock_stats(replier)["queued"] == 1, "the request has come")
        process.send_signal(signal.SIGINT)
        assert process.end() == (1, "", "kbus call: interrupted\n")


@pytest.mark.parametrize(
    ("options", "expected"), [([], "22.5\n"), (["--hex"], "32322e350a\n")], ids=["raw", "hex"]
)
def test_the_answer(options: list[str], expected: str, capsys: Captured) -> None:
    with bound("serve", "$.A", "-n", "1", "--", "echo", "22.5"):
        assert main(["call", "$.A", *options]) == 0
    assert capsys.readouterr() == (expected, "")


def test_the_answer_as_json(capsys: Captured) -> None:
    with bound("serve", "$.A", "-n", "1", "--", "cat") as server:
        replier = next(binding.ksock_id for binding in bindings() if binding.pid == server.pid)
        assert main(["call", "$.A", "--hex", "6869", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["kind"], record["name"], record["data_hex"]) == ("reply", "$.A", "6869")
    assert record["from"] == replier
    assert record["id"] == [0, device_stats()["last_serial"]]
