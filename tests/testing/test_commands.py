# SPDX-License-Identifier: MIT
"""Subcommands on a bus in this process."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from kbus import Announcement, Ksock, Message, ReplierError, Service, __version__, inspect, reply_to
from kbus.cli import main
from kbus.testing import Bus

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def bus() -> Iterator[Bus]:
    with Bus(quiet=True, devices=2) as one:
        yield one


@pytest.fixture
def service(bus: Bus) -> Iterator[Service]:
    def fail(request: Message) -> None:
        raise ReplierError("Door.Jammed")

    with Ksock() as server:
        one = Service(server, "$.Door")
        one.replier("Open")(lambda request: "open")
        one.replier("*")(fail)
        with one.running():
            yield one


def test_ping(service: Service, capsys: Captured) -> None:
    assert main(["ping", "$.Door.Open", "-n", "3", "--interval", "0.05"]) == 0
    *each, last = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in each] == ["answer from 1"] * 3
    assert re.fullmatch(r"3 answers: p50 [\d.]+ ms, p99 [\d.]+ ms, longest [\d.]+ ms", last)


def test_ping_of_one_that_fails(service: Service, capsys: Captured) -> None:
    assert main(["ping", "$.Door.Close", "-n", "2", "--interval", "0.05", "--json"]) == 0
    *each, summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(record["from"], record["how"]) for record in each] == [(1, "Door.Jammed")] * 2
    short, long = sorted(record["ns"] for record in each)
    assert short > 0
    assert summary == {"name": "$.Door.Close", "answers": 2, "p50_ns": short, "p99_ns": long, "max_ns": long}


def test_ping_of_nobody(bus: Bus, capsys: Captured) -> None:
    assert main(["ping", "$.Door.Open"]) == 1
    assert "it has no replier" in capsys.readouterr().err


def test_ping_in_vain(bus: Bus, capsys: Captured) -> None:
    with Ksock() as replier:
        replier.bind("$.A", replier=True)
        assert main(["ping", "$.A", "--timeout", "0.05"]) == 124
    assert capsys.readouterr().err == "kbus ping: no answer to $.A within 0.05 s\n"


def test_ping_shows_what_came_before_a_failure(bus: Bus, capsys: Captured) -> None:
    def answer_once() -> None:
        request = replier.wait_for_msg(30)
        assert request
        replier.send_msg(reply_to(request))

    with Ksock() as replier:
        replier.bind("$.A", replier=True)
        thread = threading.Thread(target=answer_once)
        thread.start()
        assert main(["ping", "$.A", "--timeout", "0.5", "--interval", "0.05"]) == 124
        thread.join()
    out, err = capsys.readouterr()
    assert [line.split(":")[0] for line in out.splitlines()] == ["answer from 1", "1 answers"]
    assert err == "kbus ping: no answer to $.A within 0.5 s\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("answers", [0, 2])
def test_a_signal_ends_ping_while_it_waits(
    number: signal.Signals, answers: int, bus: Bus, capsys: Captured
) -> None:
    def answer_some() -> None:
        for _ in range(answers):
            request = replier.wait_for_msg(30)
            assert request
            replier.send_msg(reply_to(request))
        assert replier.wait_for_msg(30)
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    with Ksock() as replier:
        replier.bind("$.A", replier=True)
        thread = threading.Thread(target=answer_some)
        thread.start()
        began = time.monotonic()
        assert main(["ping", "$.A", "--timeout", "30", "--interval", "0.05"]) == 0
        assert time.monotonic() - began < 20
        thread.join()
    out, err = capsys.readouterr()
    assert [line.split(":")[0] for line in out.splitlines()][-1:] == [f"{answers} answers"][:answers]
    assert err == ""


def test_trace(service: Service, capsys: Captured) -> None:
    with Ksock() as listener:
        listener.bind("$.Door.*")
        listener.bind("$.Window")
        assert main(["trace", "$.Door.Open", "--json"]) == 0
        assert main(["trace", "$.Door.Open"]) == 0
        assert main(["trace", "$.Nobody"]) == 0
    first, second, *table = capsys.readouterr().out.splitlines()
    found = [json.loads(line) for line in (first, second)]
    assert [(each["does"], each["ksock"], each["by"]) for each in found] == [
        ("answers", 1, "$.Door.Open"),
        ("listens", 2, "$.Door.*"),
    ]
    assert [line.split()[0] for line in table] == ["DOES", "answers", "listens", "DOES"]
    assert listener.name == "/dev/kbus0"


def test_the_version(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kbus {__version__}\n"


def test_the_device_of_the_environment(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBUS_DEVICE", "1")
    with Ksock(1) as listener:
        listener.bind("$.A")
        assert main(["send", "$.A", "x"]) == 0
        assert main(["send", "-d", "0", "$.A", "y"]) == 0
        assert [message.data for message in listener] == [b"x"]


@pytest.mark.parametrize("number", ["2", "9" * 20])
def test_a_device_that_is_not_there_has_no_trace(bus: Bus, number: str, capsys: Captured) -> None:
    assert main(["trace", "$.A", "-d", number]) == 1
    assert capsys.readouterr() == (
        "",
        f"kbus trace: there is no device /dev/kbus{number}: there is /dev/kbus0, /dev/kbus1;"
        " this is a bus for tests: Bus(devices=N) and `kbus-testbus --devices N` have more\n",
    )


def test_a_call_has_a_time_limit_by_itself(
    bus: Bus, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbus.cli.call._TIMEOUT", 0.05)
    with Ksock() as replier:
        replier.bind("$.A", replier=True)
        assert main(["call", "$.A"]) == 124
    assert capsys.readouterr().err == "kbus call: no answer to $.A within 0.05 s\n"
    assert main(["call", "--help"]) == 0
    assert "(default: 0.05; inf: never)" in " ".join(capsys.readouterr().out.split())


def listened(capsys: Captured, *options: str) -> str:
    """What `kbus listen` shows of two messages that are queued when it has begun."""
    with Ksock() as sender:

        def send() -> None:
            while not inspect.bindings():
                time.sleep(0.005)
            sender.send_msg(Announcement("$.Sensors.Kitchen", "21.5"))
            sender.send_msg(Announcement("$.Sensors.Hall", b"\xff\n"))

        thread = threading.Thread(target=send)
        thread.start()
        assert main(["listen", "$.Sensors.*", "-n", "2", *options]) == 0
        thread.join()
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--data"], "21.5\nff0a\n"),
        (["--data", "--hex"], "32312e35\nff0a\n"),
        (["--format", "%n is %d"], "$.Sensors.Kitchen is 21.5\n$.Sensors.Hall is ff0a\n"),
        (["--format", "%i %f %k %l 100%%"], "[0:1] 1 A 4 100%\n[0:2] 1 A 2 100%\n"),
    ],
)
def test_listening_with_a_format(bus: Bus, capfd: Captured, options: list[str], shown: str) -> None:
    assert listened(capfd, *options) == shown


def test_the_time_in_a_format(bus: Bus, capfd: Captured) -> None:
    assert re.fullmatch(r"0\.000000000\n0\.\d{9}\n", listened(capfd, "-t", "zero", "--format", "%t"))


def test_a_format_of_json(capsys: Captured) -> None:
    assert main(["listen", "$.A", "--json", "--data"]) == 2
    assert "--json can't be given with --format or --data" in capsys.readouterr().err
