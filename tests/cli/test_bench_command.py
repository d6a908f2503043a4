# SPDX-License-Identifier: MIT
"""`kbus bench` on the stand-in: that it measures, and whom it leaves alone. The figures mean nothing."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import threading
from contextlib import AbstractContextManager
from functools import partial

import pytest

from kbus import Ksock, inspect
from kbus.cli import bench_peer, main
from kbus.testing import Bus
from tests.cli.started import started
from tests.kernel import helpers

wait_until = partial(helpers.wait_until, patience=30)

Captured = pytest.CaptureFixture[str]
STAND_IN = "kbus bench: this is a stand-in of the bus: its figures say nothing about the module\n"
#: As on a real bus: the other end is a process
FORKING = """
import sys
import threading
from kbus import Ksock
from kbus.cli import main
Ksock.is_real = True
sys.exit(main(["bench", *sys.argv[1:]]))
"""


def forking(
    path: str, *options: str, stderr: int = subprocess.PIPE
) -> AbstractContextManager[subprocess.Popen[str]]:
    """`kbus bench` in a process of its own, which makes one more."""
    return started(path, "-c", FORKING, *options, stderr=stderr)


def test_a_table(bus: Bus, capsys: Captured) -> None:
    assert main(["bench", "--seconds", "0.05", "--size", "10", "--size", "100K"]) == 0
    said = capsys.readouterr()
    head, *rows = (line.split() for line in said.out.splitlines())
    assert " ".join(head) == "BYTES ONE BY ONE/s BATCH BATCHED/s CALLS/s P50 us P99 us"
    assert [(row[0], row[2]) for row in rows] == [("10", "64"), ("102400", "2")]
    assert all(int(figure) > 0 for row in rows for figure in row)
    assert all(int(row[-2]) <= int(row[-1]) for row in rows)
    assert said.err == STAND_IN
    assert inspect.bindings() == []


def test_json(bus: Bus, capsys: Captured) -> None:
    assert main(["bench", "--seconds", "0.05", "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["size"] for record in records] == [64, 1024, 65536]
    for record in records:
        assert (record["device"], record["is_real"], record["seconds"]) == (0, False, 0.05)
        assert 0 < record["call_p50_ns"] <= record["call_p99_ns"]
        assert all(record[f"{what}_per_s"] > 0 for what in ("one_by_one", "batched", "calls"))


@pytest.mark.parametrize("name", ["$.*", "$.KbusBench.*"])
def test_whoever_listens_is_left_alone(name: str, bus: Bus, capsys: Captured) -> None:
    with Ksock() as listener:
        listener.bind(name)
        assert main(["bench", "--seconds", "0.05"]) == 1
        assert listener.num_messages() == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"kbus bench: KSock {listener.ksock_id()} ({os.getpid()} ")
    assert said.err.endswith(
        f") listens to {name}, and would get all these messages, too;"
        " end it, or measure on another device (-d)\n"
    )


@pytest.mark.parametrize("name", ["$.KbusBench", "$.KbusBench.%", "$.Other.*"])
def test_who_listens_to_something_else_is_no_hindrance(name: str, bus: Bus) -> None:
    with Ksock() as listener:
        listener.bind(name)
        assert main(["bench", "--seconds", "0.05", "--size", "1"]) == 0
        assert listener.num_messages() == 0


def test_who_answers_other_names_is_no_hindrance(bus: Bus) -> None:
    with Ksock() as replier:
        replier.bind("$.*", replier=True)
        assert main(["bench", "--seconds", "0.05", "--size", "1"]) == 0
        assert replier.num_messages() == 0


def test_a_size_that_is_not_allowed(bus: Bus, capsys: Captured) -> None:
    assert main(["bench", "--size", "64", "--size", "2M"]) == 1
    assert capsys.readouterr() == (
        "",
        "kbus bench: with 2097152 bytes of data, a message is longer than the 1048576 bytes allowed\n",
    )


def test_what_is_lost_is_told(bus: Bus, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    counted = bench_peer.BenchPeer.counted
    monkeypatch.setattr(bench_peer.BenchPeer, "counted", lambda peer: (counted(peer) or 0) - 1)
    assert main(["bench", "--seconds", "0.05"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "messages were sent, but " in said.err
    assert inspect.bindings() == []


def test_the_other_end_fails(bus: Bus, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    with Ksock() as other:
        # The bench's KSock has the next id.
        other.bind(f"$.KbusBench.K{other.ksock_id() + 1}.Asked", replier=True)
        assert main(["bench", "--seconds", "0.05"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].startswith("kbus bench: where the messages are taken: can't bind to $.KbusBench.K")
    assert lines[2:] == ["kbus bench: the process that takes the messages has ended"]


def test_between_two_processes(bus_path: str) -> None:
    with forking(bus_path, "--seconds", "0.05", "--size", "10", "--json") as process:
        pids: set[int] = set()

        def has_ended() -> bool:
            pids.update(binding.pid for binding in inspect.bindings())
            return process.poll() is not None

        wait_until(has_ended, "it has ended")
        out, err = process.communicate()
    assert (process.returncode, json.loads(out)["is_real"]) == (0, True), err
    assert len(pids) == 1
    assert pids != {process.pid}
    wait_until(lambda: inspect.stats()[0].ksocks == (), "both have closed theirs")


def test_no_process_is_left_behind(bus_path: str) -> None:
    with forking(bus_path, "--seconds", "60") as process:
        wait_until(lambda: len(inspect.bindings()) == 4, "the other end has bound")
        process.kill()
        wait_until(lambda: inspect.bindings() == [], "the other end has noticed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(number: signal.Signals, bus_path: str) -> None:
    with forking(bus_path, "--seconds", "60", "--json") as process:
        wait_until(lambda: inspect.stats()[0].sent > 50, "it measures")
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert err.endswith("kbus bench: ended by a signal: 0 of 3 sizes were measured\n")


def without_room(late: Ksock) -> None:
    """Begin to listen when it measures, and read nothing."""
    wait_until(lambda: inspect.stats()[0].sent > 50, "it measures")
    late.set_max_messages(1)
    late.bind("$.KbusBench.*")
    wait_until(lambda: bool(inspect.stats()[0].waiting), "it waits")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_it_waits_for_room(number: signal.Signals, bus_path: str) -> None:
    with forking(bus_path, "--seconds", "60") as process, Ksock() as late:
        without_room(late)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        assert [binding.name for binding in inspect.bindings()] == ["$.KbusBench.*"]
    assert (process.returncode, out) == (0, "")
    assert err == "kbus bench: ended by a signal: 0 of 3 sizes were measured\n"


def test_it_waits_for_room_for_some_time_only(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(bench_peer, "PATIENCE", 0.3)
    with Ksock() as late:
        thread = threading.Thread(target=without_room, args=(late,))
        thread.start()
        assert main(["bench", "--seconds", "60"]) == 124
        thread.join()
        assert [binding.name for binding in inspect.bindings()] == ["$.KbusBench.*"]
    text = "not all queues had room within 0.3 s; none got it"
    assert capsys.readouterr() == ("", f"{STAND_IN}kbus bench: {text}\n")


def test_progress_on_a_terminal(bus_path: str) -> None:
    terminal, theirs = pty.openpty()
    with forking(bus_path, "--seconds", "0.05", "--size", "7", stderr=theirs) as process:
        os.close(theirs)
        process.communicate(timeout=30)
    shown = b""
    while select.select([terminal], [], [], 0)[0]:
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            break
    os.close(terminal)
    for step in (b"7 bytes, one by one (1 of 3)", b"in batches of 64 (2 of 3)", b"7 bytes, calls (3 of 3)"):
        assert step in shown
    assert shown.endswith(b"\r\x1b[K")
