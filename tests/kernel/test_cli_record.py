# SPDX-License-Identifier: MIT
"""`kbus record` against the module."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kbus import Announcement, Message, Request, reply_to
from kbus import _abi as abi
from kbus.capture import frame, pcapng
from kbus.capture.identity import boot_id, load_id
from tests.capture.captures import statistics_in
from tests.kernel.command import Command, kbus, running
from tests.kernel.conftest import NewDevice, OpenKsock
from tests.kernel.helpers import bindings, stats_lines, take, wait_until
from tests.kernel.recording import captures, ended, flushed, recording, records


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_everything_is_recorded_as_it_was_read(
    ksock: OpenKsock, tmp_path: Path, number: signal.Signals
) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.B", replier=True)
    before = time.time_ns()
    with recording(tmp_path) as recorder:
        announced = sender.send_msg(Announcement("$.A", b"\xff\x00\x01"))
        asked = sender.send_msg(Request("$.B", "grün"))
        answered = replier.send_msg(reply_to(take(replier), "yes"))
        sender.send_msg(Request("$.B"))
        replier.close()
        err = ended(recorder, number)
    (path,) = captures(tmp_path)
    found = records(path)
    assert [each.message.id for each in found[:3]] == [announced, asked, answered]
    assert [(each.message.name, each.message.data) for each in found] == [
        ("$.A", b"\xff\x00\x01"),
        ("$.B", "grün".encode()),
        ("$.B", b"yes"),
        ("$.B", None),
        ("$.KBUS.Replier.GoneAway", None),
    ]
    assert all(before <= each.time_ns <= time.time_ns() for each in found)
    assert [each.facts[:1] + each.facts[2:4] for each in found] == [(n, 0, 0) for n in range(1, 6)]
    assert found[0].facts.section.info == {
        "device": "lathe",
        "boot_id": boot_id(),
        "load_id": load_id(),
        "bus": 0,
        "recorder": "0.1.0",
        "bindings": ["$.*"],
        "lost_before": [0],
    }
    assert err == (
        f"kbus record: listening to kbus0, writing {path}.part\n"
        f"kbus record: 5 messages, 0 lost, 1 files, {_blocks(path)} bytes\n"
    )


def _blocks(path: Path) -> int:
    """Bytes of the messages' blocks."""
    found = records(path)
    head = pcapng.PACKET[pcapng.NATIVE].size + 8 + frame.LENGTH
    return sum(head + each.message.total_length() + 4 for each in found)


def test_times_are_those_of_sending(ksock: OpenKsock, tmp_path: Path) -> None:
    """However late the recorder reads the messages, and all at once."""
    sender = ksock()
    with recording(tmp_path) as recorder:
        recorder.send_signal(signal.SIGSTOP)
        bounds = [time.monotonic_ns()]
        for _ in range(20):
            sender.send_msg(Announcement("$.A"))
            bounds.append(time.monotonic_ns())
        offset = time.time_ns() - time.monotonic_ns()
        time.sleep(0.5)
        recorder.send_signal(signal.SIGCONT)
        ended(recorder)
    found = records(*captures(tmp_path))
    assert len(found) == 20
    for each, begin, end in zip(found, bounds, bounds[1:]):
        assert begin <= each.facts.mono_ns <= end
        # By the clock on the wall it is as exact as two clocks can be compared on a busy machine.
        assert abs(each.time_ns - each.facts.mono_ns - offset) < 250_000_000


def test_only_some_names_of_several_devices(new_device: NewDevice, ksock: OpenKsock, tmp_path: Path) -> None:
    other = new_device()
    here, there = ksock(), ksock(other)
    names = ("$.A.*", "$.A.B")
    with recording(tmp_path, "-d", "0", "-d", str(other), *names, count=2, device=other) as recorder:
        for one in (here, there):
            one.send_msg(Announcement("$.A.B", f"{one.which}"))
            one.send_msg(Announcement("$.C"))
        ended(recorder)
    (path,) = captures(tmp_path, f"lathe-0+{other}-*.pcapng")
    found = records(path)
    assert [(each.facts.bus, each.message.data) for each in found] == [
        (0, b"0"),
        (other, f"{other}".encode()),
    ]
    assert [(each.bus, each.received, each.dropped) for each in statistics_in(path)] == [
        (0, 1, 0),
        (other, 1, 0),
    ]


@pytest.mark.abi("BIND")
def test_a_recorder_that_does_not_read_holds_up_nobody(ksock: OpenKsock, tmp_path: Path) -> None:
    sender = ksock()
    with recording(tmp_path, "--queue", "3") as recorder:
        recorder.stop()
        for flags in (0, Message.ALL_OR_WAIT, Message.ALL_OR_FAIL, Message.ALL_OR_WAIT, Message.ALL_OR_FAIL):
            sender.send_msg(Announcement("$.A", flags=flags))
        recorder.send_signal(signal.SIGCONT)
        wait_until(lambda: flushed(tmp_path) == 4, "it has recorded what it had")
        err = ended(recorder)
    found = records(*captures(tmp_path))
    assert [each.message.name for each in found] == ["$.A"] * 3 + [abi.NAME_MESSAGES_LOST]
    assert found[3].message.data == abi.U32.pack(2)
    assert {each.facts.lost for each in found} == {2}
    assert ", 2 lost," in err
    said = kbus("info", str(tmp_path), stdin=b"")
    assert b"4 messages (kbus0 4)" in said.stdout and b" 2 lost" in said.stdout


def test_what_was_flushed_survives_sigkill(ksock: OpenKsock, tmp_path: Path) -> None:
    sender = ksock()
    with recording(tmp_path, "--flush", "0.05", "--fsync", "never") as recorder:
        for _ in range(100):
            sender.send_msg(Announcement("$.A", "data"))
        wait_until(lambda: flushed(tmp_path) == 100, "all is flushed")
        recorder.send_signal(signal.SIGKILL)
        wait_until(recorder.has_ended, "it is dead")
    (part,) = captures(tmp_path, "*.part")
    assert len(records(part)) == 100
    with recording(tmp_path) as recorder:
        sender.send_msg(Announcement("$.B"))
        ended(recorder)
    assert [each.message.name for each in records(*captures(tmp_path))] == ["$.B"]
    assert captures(tmp_path, "*.part") == [part]
    done = kbus("recover", str(part), stdin=b"")
    assert done.returncode == 0
    assert [each.message.name for each in records(*captures(tmp_path))] == ["$.A"] * 100 + ["$.B"]


def test_rotation_and_compression_under_load(ksock: OpenKsock, tmp_path: Path) -> None:
    sender = ksock()
    with recording(tmp_path, "--rotate-size", "32K", "--compress") as recorder:
        messages = [Announcement("$.A", f"{number:08d}") for number in range(3000)]
        for begin in range(0, 3000, 100):
            sender.send_many(messages[begin : begin + 100])
        ended(recorder)
    found = records(*captures(tmp_path, "*.pcapng.gz"))
    assert [each.message.data for each in found] == [each.data for each in messages]
    assert [each.facts.sequence for each in found] == list(range(1, 3001))
    assert len(list(tmp_path.iterdir())) > 3


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[Path]:
    """A file system with so much room."""
    where = directory / "disk"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", where], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", where], check=True)


def test_a_full_disk_stops_it_until_there_is_room(ksock: OpenKsock, tmp_path: Path) -> None:
    sender = ksock()
    with small_disk(tmp_path, "128k") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(64 << 10))
        with recording(disk, "--queue", "50", "--flush", "0.01") as recorder:
            sent = 0

            def stops() -> bool:
                return _said_by(recorder, "recording stops: No space left on device")

            while not stops():
                sender.send_msg(Announcement("$.A", f"{sent:08d}".encode() * 50))
                sent += 1
                wait_until(lambda: _queued_by(recorder) == 0 or stops(), "it reads")
            for _ in range(200):
                sender.send_msg(Announcement("$.B"))
            ballast.unlink()
            wait_until(lambda: _said_by(recorder, "recording goes on"), "it goes on")
            wait_until(lambda: _queued_by(recorder) == 0, "it has read what had waited")
            sender.send_msg(Announcement("$.C"))
            err = ended(recorder)
        found = records(*captures(disk))
    names = [each.message.name for each in found]
    # What was lost may be told before or after.
    assert names.count("$.A") == sent and "$.C" in names[-2:]
    assert 0 < names.count("$.B") <= 50
    lost = found[-1].facts.lost
    assert names.count("$.B") + lost == 200
    assert f" {lost} lost" in err


def _has_flushed(directory: Path, count: int) -> bool:
    return flushed(directory) == count


def test_a_clock_that_jumps(ksock: OpenKsock, tmp_path: Path) -> None:
    sender, now = ksock(), time.time()
    with recording(tmp_path, "--flush", "0.01") as recorder:
        for count, step in enumerate((0, 86_400, -86_400), 1):
            sender.send_msg(Announcement("$.A"))
            wait_until(partial(_has_flushed, tmp_path, count), "it is recorded")
            time.clock_settime(time.CLOCK_REALTIME, time.time() + step)
        sender.send_msg(Announcement("$.A"))
        ended(recorder)
    found = records(*captures(tmp_path))
    monotonic = [each.facts.mono_ns for each in found]
    assert len(found) == 4 and monotonic == sorted(monotonic)
    days = [round((each.time_ns / 1e9 - now) / 86_400) for each in found]
    assert days == [0, 0, 1, 0]


def _queued_by(recorder: Command) -> int:
    """How many messages wait for it; -1 if it has no KSock."""
    own = [line.numbers for line in stats_lines() if line.numbers.get("pid") == recorder.pid]
    return own[0]["queued"] if own and own[0]["bindings"] else -1


def _said_by(recorder: Command, text: str) -> bool:
    """Whether it has said that."""
    return text in recorder.so_far()


def test_snapshots_on_a_signal_and_on_a_message(ksock: OpenKsock, tmp_path: Path) -> None:
    sender = ksock()
    arguments = ("$.A", "--snapshot", "16K", "--on", "$.Alarm.*")
    with recording(tmp_path, *arguments, count=2) as recorder:
        for number in range(500):
            sender.send_msg(Announcement("$.A", f"{number:04d}"))
            if number % 20 == 0:
                # What it takes at once it forgets at once.
                wait_until(lambda: _queued_by(recorder) == 0, "it has read that")
        assert list(tmp_path.iterdir()) == []
        sender.send_msg(Announcement("$.Alarm.Fire"))
        wait_until(lambda: len(captures(tmp_path)) == 1, "there is a snapshot")
        sender.send_msg(Announcement("$.A", "5000"))
        wait_until(lambda: _queued_by(recorder) == 0, "it has read that")
        recorder.send_signal(signal.SIGUSR1)
        wait_until(lambda: len(captures(tmp_path)) == 2, "there is another snapshot")
        err = ended(recorder)
    first, second = captures(tmp_path)
    found = records(first)
    numbers = [int(each.message.data or b"") for each in found[:-1]]
    assert found[-1].message.name == "$.Alarm.Fire"
    assert found[-1].facts.section.info["bindings"] == ["$.A", "$.Alarm.*"]
    assert numbers == list(range(numbers[0], 500))
    assert 10_000 < first.stat().st_size < 17_000
    assert [each.message.data for each in records(second)] == [b"5000"]
    assert f"snapshot {first}: {len(found)} messages\n" in err


def test_a_full_disk_under_stderr_stops_nothing(ksock: OpenKsock, tmp_path: Path) -> None:
    sender = ksock()
    arguments = ["record", "-o", str(tmp_path), "--name", "lathe", "--snapshot", "16K"]
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen([sys.executable, "-m", "kbus.cli", *arguments], stderr=full)
    wait_until(lambda: process.pid in [each.pid for each in bindings()], "it has bound")
    sender.send_msg(Announcement("$.A"))
    process.send_signal(signal.SIGUSR1)
    wait_until(lambda: len(captures(tmp_path)) == 1, "there is a snapshot")
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert [each.message.name for each in records(*captures(tmp_path))] == ["$.A"]


def test_systemd_is_told(ksock: OpenKsock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(address)
        server.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        with recording(tmp_path) as recorder:
            assert server.recv(1000) == b"READY=1"
            assert server.recv(1000).startswith(b"STATUS=recording: 0 messages, 0/s, 0 lost")
            recorder.send_signal(signal.SIGTERM)
            while (said := server.recv(1000)) != b"STOPPING=1":
                assert said.startswith(b"STATUS=")
            assert recorder.end()[0] == 0


def test_progress_is_for_a_terminal(ksock: OpenKsock, tmp_path: Path) -> None:
    controller, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kbus.cli", "record", "-o", str(tmp_path)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    shown = b""
    while b"recording: 0 messages, 0/s, 0 lost" not in shown:
        shown += os.read(controller, 1000)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
    os.close(controller)


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["-d", "200"], "there is no device /dev/kbus200"),
        (["-o", "/proc/nowhere"], "can't write to /proc/nowhere: No such file or directory"),
    ],
)
def test_what_can_not_begin_says_why(arguments: list[str], cause: str, tmp_path: Path) -> None:
    with running("record", "-o", str(tmp_path), *arguments) as recorder:
        status, _, err = recorder.end()
    assert status == 1
    assert cause in err
