# SPDX-License-Identifier: MIT
"""What a recorder does when devices come and go, and when there is no room, with devices that are fakes."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbus.capture.files import Files, Policy
from kbus.capture.summary import summarize
from kbus.cli import main

from .captures import INFO, read
from .fake_bus import FakeBus, FakeKsock, Recording


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> FakeBus:
    """Two devices."""
    fake = FakeBus(0, 1)
    monkeypatch.setattr("kbus.capture.source.Ksock", fake.open)
    monkeypatch.setattr("kbus.capture.recorder.load_id", lambda: fake.load)
    return fake


@pytest.fixture
def recording(bus: FakeBus, tmp_path: Path) -> Iterator[Recording]:
    """One that has begun."""
    one = Recording(bus, tmp_path)
    one.recorder.open()
    yield one
    one.close()


@pytest.fixture
def syncing(bus: FakeBus, tmp_path: Path) -> Iterator[Recording]:
    """One that has begun, and has the disk keep each message."""
    one = Recording(bus, tmp_path, sync="always")
    one.recorder.open()
    yield one
    one.close()


def recorded(directory: Path) -> list[tuple[int | None, str]]:
    """Load and name of all messages in all files."""
    found = [each for path in sorted(directory.iterdir()) for each in read(path)[0]]
    return [(each.facts.section.info["load_id"], each.message.name) for each in found]


def times(directory: Path) -> list[tuple[str, int]]:
    """Name of each message in the one file, and its CLOCK_MONOTONIC."""
    (path,) = directory.iterdir()
    return [(each.message.name, each.facts.mono_ns) for each in read(path)[0]]


def test_messages_of_several_devices_are_in_the_order_of_their_times(
    bus: FakeBus, recording: Recording, tmp_path: Path
) -> None:
    begin = time.monotonic_ns()
    names = [(f"$.Dev{index % 2}.N{index}", begin + index) for index in range(10)]
    for index, (name, at) in enumerate(names):
        bus.send(index % 2, name, at=at)
    recording.until(recording.has_read)
    recording.recorder.flush()
    assert times(tmp_path) == names


def test_times_do_not_go_back(bus: FakeBus, recording: Recording, tmp_path: Path) -> None:
    """What an urgent message has overtaken has its time, and so has what comes late from another device."""
    begin = time.monotonic_ns()
    for name, at in (("$.Urgent", 50), ("$.Plain", 10), ("$.Later", 60)):
        bus.send(0, name, at=begin + at)
    recording.until(recording.has_read)
    bus.send(1, "$.Other", at=begin + 55)
    bus.send(0, "$.Last", at=begin + 70)
    recording.until(recording.has_read)
    recording.recorder.flush()
    found = [(name, at - begin) for name, at in times(tmp_path)]
    assert found == [("$.Urgent", 50), ("$.Plain", 50), ("$.Later", 60), ("$.Other", 60), ("$.Last", 70)]


def test_messages_that_come_fast_are_read_together(
    bus: FakeBus, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not while the queue has more than one read brings."""
    slept: list[float] = []
    others, own = time.sleep, threading.get_ident()

    def sleep(seconds: float) -> None:
        # It is everybody's, and threads that tests before this one have left sleep as well.
        if threading.get_ident() == own:
            slept.append(seconds)
        else:
            others(seconds)

    monkeypatch.setattr("time.sleep", sleep)
    bus.send(0, "$.A", 5000)
    recording.until(recording.has_read)
    assert slept == []
    # On a busy machine it may be too late to wait for more.
    for _ in range(100):
        if slept:
            break
        bus.send(0, "$.A")
        recording.until(recording.has_read)
    assert slept == [0.02]


def test_the_disk_has_it_when_it_should_though_the_bus_is_idle(
    bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 50 ms of what was asked, if the machine is not busy with something else each time."""
    synced: list[float] = []
    monkeypatch.setattr("os.fdatasync", lambda fd: synced.append(time.monotonic()))
    recording = Recording(bus, tmp_path, sync="0.3")
    recording.recorder.open()
    late: list[float] = []
    try:
        for number in range(8):
            bus.send(0, "$.A")
            while len(synced) == number:
                recording.recorder.step(recording, 5)
            if number:
                late.append(synced[-1] - synced[-2] - 0.3)
                if late[-1] < 0.05:
                    break
    finally:
        recording.close()
    assert 0 <= min(late) < 0.05, late


def reload(bus: FakeBus, recording: Recording) -> None:
    """Have it leave, and load the module anew."""
    recording.recorder.leave(60)
    assert not bus.opened
    bus.load = 2


def test_a_reload(bus: FakeBus, recording: Recording, tmp_path: Path) -> None:
    bus.send(0, "$.Before", 100)
    reload(bus, recording)
    recording.until(lambda: len(bus.opened) == 2)
    bus.send(1, "$.After")
    recording.until(recording.has_read)
    recording.recorder.flush()
    assert recorded(tmp_path) == [(1, "$.Before")] * 100 + [(2, "$.After")]
    assert recording.said == ["the devices are closed", "kbus0 is open again", "kbus1 is open again"]


def test_a_reload_with_fewer_devices(bus: FakeBus, recording: Recording, tmp_path: Path) -> None:
    """Those that are there are recorded, and the other when it comes."""
    reload(bus, recording)
    bus.devices = {0}
    recording.until(lambda: 0 in bus.opened)
    bus.send(0, "$.A")
    recording.until(lambda: "can't open kbus1: No such file or directory" in recording.said)
    bus.devices = {0, 1}
    recording.until(lambda: 1 in bus.opened)
    bus.send(1, "$.B")
    recording.until(recording.has_read)
    recording.recorder.flush()
    assert recorded(tmp_path) == [(2, "$.A"), (2, "$.B")]
    assert recording.said == [
        "the devices are closed",
        "kbus0 is open again",
        "can't open kbus1: No such file or directory",
        "kbus1 is open again",
    ]


def test_a_reload_while_the_disk_is_full(
    bus: FakeBus, recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The devices are open, so that what comes waits in their queues, and that the disk is full is said."""
    reload(bus, recording)
    begin = recording.files.begin

    def no_room(info: object = None) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(recording.files, "begin", no_room)
    recording.until(lambda: recording.recorder.state == "no room")
    first = dict(bus.opened)
    bus.send(0, "$.A", 10)
    end = time.monotonic() + 1.5
    recording.until(lambda: time.monotonic() > end)
    assert bus.opened == first and len(first) == 2
    monkeypatch.setattr(recording.files, "begin", begin)
    recording.until(recording.has_read)
    recording.recorder.flush()
    assert recorded(tmp_path) == [(2, "$.A")] * 10
    assert recording.said[3] == "recording stops: No space left on device"
    assert recording.said[4].startswith("recording goes on, after ")
    assert len(recording.said) == 5


def test_what_is_dropped_is_counted_as_lost(
    bus: FakeBus, recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the recorder, in the next file, and by whoever reads that."""
    with monkeypatch.context() as patched:
        patched.setattr(recording.files, "append", _failing)
        bus.send(0, "$.A", 7)
        bus.send(1, "$.A", 3)
        recording.until(lambda: recording.recorder.state == "no room")
        bus.send(0, "$.B", 2000)
        reload(bus, recording)
    recording.until(lambda: len(bus.opened) == 2)
    assert (recording.recorder.lost, recording.recorder.dropped) == (2010, 2010)
    recording.recorder.snapshot()
    found = [summarize(path) for path in sorted(tmp_path.iterdir())]
    assert [(each.lost, each.messages) for each in found] == [(0, 0), (2010, 0)]


def test_what_a_full_disk_has_no_room_for_is_told(
    bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGHUP drops it, and the summary and the exit status are still right in the end."""

    def leave_and_end(*_: object) -> list[int]:
        bus.send(0, "$.A", 7)
        for number in (signal.SIGHUP, signal.SIGTERM):
            os.kill(os.getpid(), number)
        return []

    monkeypatch.setattr("kbus.capture.source.Ksock", bus.open)
    monkeypatch.setattr("kbus.capture.sources.Sources.ready", leave_and_end)
    monkeypatch.setattr("os.sched_setscheduler", lambda *_: None)
    monkeypatch.setattr("kbus.capture.files.Files.append", _failing)
    assert main(["record", "-o", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "kbus record: 0 messages, 7 lost, 1 files, 0 bytes",
        "kbus record: there was no room for 7 messages",
    ]


def test_sealing_is_no_sign_that_there_is_room(
    bus: FakeBus, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(recording.files, "append", no_room)
    bus.send(0, "$.A")
    recording.until(lambda: recording.recorder.state == "no room")
    reload(bus, recording)
    assert recording.said == [
        "recording stops: No space left on device",
        "the last 1 messages are dropped: there is no room for them",
        "the devices are closed",
    ]


def test_a_full_disk_leaves_what_comes_in_the_queue(
    bus: FakeBus, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGUSR1 does not bring it into memory, where nothing limits it."""
    monkeypatch.setattr(recording.files, "append", _failing)
    bus.send(0, "$.A")
    recording.until(lambda: recording.recorder.state == "no room")
    bus.send(0, "$.A", 5000)
    recording.recorder.drain()
    recording.recorder.snapshot()
    assert bus.opened[0].num_messages() == 5000


def test_a_device_that_can_not_be_read(bus: FakeBus, recording: Recording, tmp_path: Path) -> None:
    """The other goes on, and loses nothing of what was queued."""
    bus.failing = {0}
    bus.send(0, "$.A")
    bus.send(1, "$.B", 5000)
    recording.until(lambda: 0 not in bus.opened)
    bus.failing = set()
    recording.until(lambda: 0 in bus.opened and recording.has_read())
    bus.send(0, "$.C")
    recording.until(recording.has_read)
    recording.recorder.flush()
    assert recorded(tmp_path) == [(1, "$.B")] * 5000 + [(1, "$.C")]
    assert recording.said == ["can't read kbus0: Input/output error", "kbus0 is open again"]
    assert len(list(tmp_path.iterdir())) == 1


def test_what_was_read_when_another_device_fails_is_kept(
    bus: FakeBus, recording: Recording, tmp_path: Path
) -> None:
    """Both are ready at once, so the messages of the first are read and not yet written."""
    bus.failing = {1}
    bus.send(0, "$.A", 10)
    bus.send(1, "$.B")
    recording.until(lambda: 1 not in bus.opened)
    recording.recorder.flush()
    assert recorded(tmp_path) == [(1, "$.A")] * 10


def test_when_no_device_can_be_read_the_module_may_go(
    bus: FakeBus, recording: Recording, tmp_path: Path
) -> None:
    bus.failing = {0, 1}
    bus.send(0, "$.A")
    bus.send(1, "$.A")
    recording.until(lambda: not bus.opened)
    bus.failing, bus.load = set(), 2
    recording.until(lambda: len(bus.opened) == 2)
    bus.send(1, "$.B")
    recording.until(recording.has_read)
    recording.recorder.flush()
    assert recorded(tmp_path) == [(2, "$.B")]


def test_a_file_that_can_not_be_finished_is_counted(
    bus: FakeBus, recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in it can be read, nothing is left open, and the next file is another one."""
    before = len(os.listdir("/proc/self/fd"))
    bus.send(0, "$.A")
    recording.until(recording.has_read)
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", _failing)
        recording.recorder.snapshot()
    assert recording.files.unfinished == 1
    assert len(os.listdir("/proc/self/fd")) == before - 1
    bus.send(0, "$.B")
    recording.until(recording.has_read)
    recording.recorder.snapshot()
    assert recorded(tmp_path) == [(1, "$.A"), (1, "$.B")]
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".part", ".pcapng"]
    assert recording.said == ["can't finish the file: Input/output error"]


def test_what_the_disk_has_refused_once_is_not_sealed(
    bus: FakeBus, syncing: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fdatasync() tells of an error once; the next one succeeds, whatever was dropped."""
    with monkeypatch.context() as patched:
        patched.setattr("os.fdatasync", _failing)
        bus.send(0, "$.A")
        syncing.until(lambda: syncing.files.unfinished == 1)
    (part,) = tmp_path.iterdir()
    assert part.suffix == ".part"
    bus.send(0, "$.B")
    syncing.until(lambda: syncing.recorder.state == "recording" and syncing.has_read())
    syncing.recorder.snapshot()
    syncing.recorder.close()
    (sealed,) = set(tmp_path.iterdir()) - {part}
    assert [each.message.name for each in read(sealed)[0]] == ["$.B"]
    assert syncing.said[:2] == [
        f"{part.name} may lack what was written to it last",
        "recording stops: Input/output error",
    ]
    assert syncing.said[2].startswith("recording goes on, after ")


def test_a_disk_that_goes_on_failing_is_not_asked_at_once(
    bus: FakeBus, syncing: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would get a new file each time."""
    with monkeypatch.context() as patched:
        patched.setattr("os.fdatasync", _failing)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            bus.send(0, "$.A")
            syncing.recorder.step(syncing, 0.05)
    assert syncing.files.unfinished == 2


def test_what_was_sealed_is_compressed_although_the_last_file_can_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    one = Files(Policy(tmp_path, compress=True), "lathe", [0], lambda: INFO, said.append)
    one.begin()
    one.seal()
    one.begin()
    monkeypatch.setattr("kbus.capture.part.PartFile.seal", _failing)
    with pytest.raises(OSError, match="Input/output error"):
        one.finish()
    assert "compressor" not in [thread.name for thread in threading.enumerate()]
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".gz", ".part"]


def test_the_exit_status_tells_of_a_file_that_is_not_finished(
    bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def open_and_end(which: int, mode: str) -> FakeKsock:
        os.kill(os.getpid(), signal.SIGTERM)
        return bus.open(which, mode)

    monkeypatch.setattr("kbus.capture.source.Ksock", open_and_end)
    monkeypatch.setattr("os.sched_setscheduler", lambda *_: None)
    monkeypatch.setattr("os.fsync", _failing)
    assert main(["record", "-o", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        "kbus record: can't finish the file: Input/output error\n"
        "kbus record: 0 messages, 0 lost, 0 files, 0 bytes\n"
        "kbus record: 1 files could not be finished, and are called .part still\n"
    )


def _failing(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_what_there_is_no_room_for_in_the_end_is_in_the_statistics(
    bus: FakeBus, recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording.files, "append", _failing)
    bus.send(0, "$.A", 7)
    recording.recorder.close()
    (path,) = tmp_path.iterdir()
    assert summarize(path).lost == 7
