# SPDX-License-Identifier: MIT
"""What a recorder does when devices come and go, and when there is no room, with devices that are fakes."""

from __future__ import annotations

import errno
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from kbus import Announcement, Message
from kbus.capture import pcapng
from kbus.capture.files import Files, Policy
from kbus.capture.part import PartFile
from kbus.capture.ring import Ring
from kbus.capture.source import Source, ready
from kbus.capture.summary import summarize
from kbus.cli import main

from .captures import INFO, read
from .fake_bus import FakeBus, FakeKsock, Recording


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> FakeBus:
    """Two devices."""
    fake = FakeBus()
    monkeypatch.setattr("kbus.capture.source.Ksock", fake.open)
    return fake


@pytest.fixture
def recording(bus: FakeBus, tmp_path: Path) -> Iterator[Recording]:
    """One that has begun."""
    one = Recording(bus, tmp_path)
    one.recorder.begin()
    yield one
    one.close()


@pytest.fixture
def patient(bus: FakeBus, tmp_path: Path) -> Iterator[Recording]:
    """One that has begun, and lets messages stay in memory for a minute."""
    one = Recording(bus, tmp_path, flush=60)
    one.recorder.begin()
    yield one
    one.close()


@pytest.fixture
def syncing(bus: FakeBus, tmp_path: Path) -> Iterator[Recording]:
    """One that has begun, and has the disk keep each message."""
    one = Recording(bus, tmp_path, sync=0.0)
    one.recorder.begin()
    yield one
    one.close()


def recorded(directory: Path) -> list[str]:
    """The names of all messages in all files."""
    return [each.message.name for path in sorted(directory.iterdir()) for each in read(path)[0]]


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


def backlog(bus: FakeBus, counts: tuple[int, int]) -> list[tuple[str, int]]:
    """So many messages of each device, of the last ten seconds; what is to be recorded."""
    begin, length = time.monotonic_ns() - 10**10, 10**10
    sent = []
    for which, count in enumerate(counts):
        for number in range(count):
            name, at = f"$.Dev{which}.N{number}", begin + number * (length // count) + which
            bus.send(which, name, at=at)
            sent.append((name, at))
    return sorted(sent, key=itemgetter(1))


@pytest.mark.parametrize("counts", [(3000, 9000), (9000, 3000), (5000, 5000), (9000, 30)])
@pytest.mark.parametrize("how", ["step", "drain", "both"])
def test_a_backlog_of_several_devices_keeps_its_times(
    bus: FakeBus, patient: Recording, tmp_path: Path, counts: tuple[int, int], how: str
) -> None:
    sent = backlog(bus, counts)
    if how == "both":
        patient.recorder.step(patient.fileno(), 0.05)
    if how == "step":
        patient.until(patient.has_read)
    else:
        patient.recorder.drain()
    patient.recorder.flush()
    assert times(tmp_path) == sent
    assert patient.recorder.messages == len(sent)


def test_messages_that_come_while_a_backlog_is_read_keep_their_times(
    bus: FakeBus, patient: Recording, tmp_path: Path
) -> None:
    sent = backlog(bus, (9000, 30))
    count = 0
    while not patient.has_read():
        for which in (0, 1):
            name, at = f"$.More{which}.N{count}", time.monotonic_ns()
            bus.send(which, name, at=at)
            sent.append((name, at))
        patient.recorder.step(patient.fileno(), 0.05)
        count += 1
        if count == 20:
            break
    patient.until(patient.has_read)
    patient.recorder.flush()
    assert times(tmp_path) == sent


class Clock:
    """The time as a recorder sees it, which goes on when it waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

        def wait(sources: Sequence[Source], wake: int, seconds: float) -> list[int]:
            found = ready(sources, wake, 0)
            self.now += 0.0 if found else max(0.0, seconds)
            return found

        monkeypatch.setattr("kbus.capture.recorder.ready", wait)
        for module in ("recorder", "files"):
            monkeypatch.setattr(f"kbus.capture.{module}.time", self)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_messages_that_come_fast_are_read_together(bus: FakeBus, clock: Clock, recording: Recording) -> None:
    """But not while the queue has more than one read brings."""
    bus.send(0, "$.A", 5000)
    recording.until(recording.has_read)
    assert clock.slept == []
    bus.send(0, "$.A")
    recording.until(recording.has_read)
    assert clock.slept == [0.02]


def test_the_disk_has_it_when_it_should_though_the_bus_is_idle(
    bus: FakeBus, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[float] = []
    monkeypatch.setattr("os.fdatasync", lambda fd: synced.append(clock.now))
    recording = Recording(bus, tmp_path, sync=10.0)
    recording.recorder.begin()
    begin = clock.now
    try:
        for number in range(3):
            bus.send(0, "$.A")
            while len(synced) == number:
                recording.recorder.step(recording.fileno(), 60)
    finally:
        recording.close()
    assert [round(at - begin, 6) for at in synced] == [10.2, 20.4, 30.6]


def _command(
    patch: pytest.MonkeyPatch,
    directory: Path,
    ready: Callable[..., list[int]],
    append: Callable[..., None],
    *options: str,
) -> int:
    """Run ``kbus record``, where this is what comes, and what becomes of it; the exit status."""
    patch.setattr("kbus.capture.recorder.ready", ready)
    patch.setattr("os.sched_setscheduler", lambda *_: None)
    patch.setattr("kbus.capture.files.Files.append", append)
    return main(["record", "-o", str(directory), *options])


def test_what_a_full_disk_has_no_room_for_is_told(
    bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(*_: object) -> list[int]:
        bus.send(0, "$.A", 7)
        os.kill(os.getpid(), signal.SIGTERM)
        return []

    assert _command(monkeypatch, tmp_path, end, _failing) == 1
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "kbus record: 0 messages, 7 lost, 1 files, 0 bytes",
        "kbus record: there was no room for 7 messages",
    ]


def test_a_full_disk_leaves_what_comes_in_the_queue(
    bus: FakeBus, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGUSR1 does not bring it into memory, where nothing limits it."""
    monkeypatch.setattr(recording.files, "append", _failing)
    bus.send(0, "$.A")
    recording.until(lambda: recording.recorder.stopped_since is not None)
    bus.send(0, "$.A", 5000)
    recording.recorder.drain()
    recording.recorder.snapshot()
    assert bus.opened[0].num_messages() == 5000


def test_what_a_full_disk_has_no_room_for_at_the_end_is_dropped_little_by_little(
    bus: FakeBus, recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue may be as large as the memory; and what comes after there is room again is kept."""
    append, tried = recording.files.append, [0]

    def no_room(data: bytes, received: list[int], lost: list[int]) -> None:
        tried.append(len(data))
        if len(tried) < 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(data, received, lost)

    monkeypatch.setattr(recording.files, "append", no_room)
    bus.send(0, "$.A")
    recording.until(lambda: recording.recorder.stopped_since is not None)
    bus.send(0, "$.A", 20_000)
    recording.recorder.close()
    assert max(tried) < 1 << 18
    kept = len(recorded(tmp_path))
    assert 0 < kept == 20_001 - recording.recorder.dropped < 20_001
    assert sum(recording.recorder.lost()) == recording.recorder.dropped


def test_what_no_reader_takes_is_lost(
    bus: FakeBus, recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pcapng, "MAX_LENGTH", 1000)
    for sizes in ((10, 2000, 20), (2000,), (30,)):
        messages = [Message.from_message(Announcement("$.A", bytes(size))).to_bytes() for size in sizes]
        bus.opened[1].put(messages)
        recording.until(recording.has_read)
    recording.recorder.flush()
    (path,) = tmp_path.iterdir()
    found = [(len(each.message.data or b""), each.facts.lost) for each in read(path, strict=False)[0]]
    assert found == [(10, 1), (20, 1), (30, 2)]
    assert (recording.recorder.messages, recording.recorder.dropped, recording.recorder.lost()) == (
        3,
        0,
        [0, 2],
    )
    assert recording.said.count("1 messages are lost: no capture has one of more than 1000 bytes") == 2


def test_a_disk_that_fills_up_while_the_queue_is_drained(
    bus: FakeBus, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of it stays there."""
    monkeypatch.setattr(recording.files, "append", _failing)
    bus.send(0, "$.A", 20_000)
    recording.recorder.drain()
    assert recording.recorder.stopped_since is not None
    assert bus.opened[0].num_messages() > 15_000


def test_a_device_that_can_not_be_read(
    bus: FakeBus, clock: Clock, recording: Recording, tmp_path: Path
) -> None:
    """Nothing is lost that was queued, there or elsewhere, and what was read of another one is kept."""
    bus.failing = {1}
    bus.send(0, "$.A", 10)
    bus.send(1, "$.B", 5)
    recording.until(lambda: recording.recorder.stopped_since is not None)
    bus.send(0, "$.A", 10)
    for _ in range(3):
        clock.sleep(1)
        recording.recorder.step(recording.fileno(), 0)
        recording.recorder.step(recording.fileno(), 0)
    bus.failing = set()
    clock.sleep(1)
    recording.until(recording.has_read)
    recording.recorder.flush()
    assert sorted(recorded(tmp_path)) == ["$.A"] * 20 + ["$.B"] * 5
    assert recording.said[0] == "recording stops: can't read kbus1: Input/output error"
    assert recording.said[-1].startswith("recording goes on, after ")


def test_a_device_that_can_not_be_read_in_the_end(bus: FakeBus, recording: Recording, tmp_path: Path) -> None:
    bus.failing = {1}
    bus.send(1, "$.B")
    bus.send(0, "$.A", 5000)
    recording.recorder.close()
    assert recorded(tmp_path) == ["$.A"] * 5000
    assert recording.said[0] == "recording stops: can't read kbus1: Input/output error"
    assert (recording.recorder.dropped, recording.recorder.lost()) == (1, [0, 1])


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
    assert recorded(tmp_path) == ["$.A", "$.B"]
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".part", ".pcapng"]
    part = min(path.name for path in tmp_path.iterdir())
    assert recording.said == [f"can't finish {part}: Input/output error"]


@pytest.mark.parametrize("sync", [None, math.inf, 0.0])
def test_a_file_is_counted_that_only_its_close_shows_to_have_failed(
    sync: float | None, bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with NFS and FUSE: the descriptor is gone then, and may be another's."""
    one = Recording(bus, tmp_path, sync=sync)
    one.recorder.begin()
    before = len(os.listdir("/proc/self/fd"))
    bus.send(0, "$.A")
    one.until(one.has_read)
    with monkeypatch.context() as patched:
        closed = _failing_to_close(patched)
        one.recorder.snapshot()
    assert len(closed) == 1
    assert (one.files.sealed, one.files.unfinished) == (0, 1)
    assert len(os.listdir("/proc/self/fd")) == before - 1
    (part,) = tmp_path.iterdir()
    assert one.said == [f"can't finish {part.name}: Disk quota exceeded"]
    one.close()


def test_what_is_discarded_goes_even_if_its_close_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = PartFile(tmp_path / "x.pcapng")
    with monkeypatch.context() as patched:
        _failing_to_close(patched)
        file.discard()
    assert list(tmp_path.iterdir()) == []


def _failing_to_close(patched: pytest.MonkeyPatch) -> list[int]:
    close, closed = os.close, []

    def close_and_fail(fd: int) -> None:
        closed.append(fd)
        close(fd)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    patched.setattr("kbus.capture.part.os.close", close_and_fail)
    return closed


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
    syncing.until(lambda: syncing.recorder.stopped_since is None and syncing.has_read())
    syncing.recorder.snapshot()
    syncing.recorder.close()
    (sealed,) = set(tmp_path.iterdir()) - {part}
    assert [each.message.name for each in read(sealed)[0]] == ["$.B"]
    assert syncing.said[:2] == [
        f"can't finish {part.name}: Input/output error",
        "recording stops: Input/output error",
    ]
    assert syncing.said[2].startswith("recording goes on, after ")


def test_a_disk_that_goes_on_failing_is_not_asked_at_once(
    bus: FakeBus, clock: Clock, syncing: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would get a new file each time."""
    monkeypatch.setattr("os.fdatasync", _failing)
    for _ in range(10):
        bus.send(0, "$.A")
        clock.sleep(0.5)
        while syncing.recorder.stopped_since is None and not syncing.has_read():
            syncing.recorder.step(syncing.fileno(), 0)
        syncing.recorder.step(syncing.fileno(), 0)
    assert syncing.files.unfinished <= 5


def test_what_was_sealed_is_compressed_although_the_last_file_can_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    one = Files(Policy(tmp_path, compress=True), "lathe", [0], INFO, said.append)
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
    (part,) = tmp_path.iterdir()
    assert capsys.readouterr().err == (
        f"kbus record: listening to kbus0, writing {part}\n"
        f"kbus record: can't finish {part.name}: Input/output error\n"
        "kbus record: 0 messages, 0 lost, 0 files, 0 bytes\n"
        "kbus record: 1 files could not be finished\n"
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


@pytest.fixture
def snapping(bus: FakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    """One that has begun, and keeps a little in memory."""
    monkeypatch.setattr("kbus.capture.recorder._RETRY", 0.01)
    one = Recording(bus, tmp_path, ring=Ring(4000))
    one.recorder.begin()
    yield one
    one.close()


def test_a_snapshot_is_made_as_soon_as_there_is_room(
    bus: FakeBus, snapping: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.send(0, "$.A", 3)
    snapping.until(snapping.has_read)
    with monkeypatch.context() as patched:
        patched.setattr(snapping.files, "append", _failing)
        snapping.recorder.snapshot()
        bus.send(0, "$.B")
        snapping.until(snapping.has_read)
    snapping.until(lambda: snapping.files.sealed == 1)
    assert recorded(tmp_path) == ["$.A"] * 3 + ["$.B"]
    assert snapping.said[0] == "can't write a snapshot: Input/output error"
    assert len(snapping.said) == 2
    assert (snapping.recorder.dropped, snapping.recorder.lacks_snapshot) == (0, False)


@pytest.mark.parametrize("fits", [0, 1])
def test_a_snapshot_that_is_never_written_is_told(
    fits: int,
    bus: FakeBus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also what of it was: that is a file that tells how much it lacks."""
    append, calls = Files.append, []

    def full(files: Files, *given: Any) -> None:
        calls.append(given)
        if len(calls) > fits:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(files, *given)

    def ask_and_end(*_: object) -> list[int]:
        bus.send(0, "$.A")
        if len(asked) < 6:
            asked.append(None)
            return [0]
        for number in (signal.SIGUSR1, signal.SIGTERM):
            os.kill(os.getpid(), number)
        return []

    asked: list[None] = []
    monkeypatch.setattr("kbus.capture.ring._CHUNK", 1)
    assert _command(monkeypatch, tmp_path, ask_and_end, full, "--snapshot", "1M", "--flush", "0") == 1
    said = capsys.readouterr().err.splitlines()
    assert said[1] == "kbus record: can't write a snapshot: No space left on device"
    assert said[-1] == f"kbus record: there was no room for {7 - fits} messages"
    found = [summarize(path) for path in sorted(tmp_path.iterdir())]
    assert [(each.lost, each.messages) for each in found] == [(7 - fits, fits)]


def test_a_snapshot_that_is_made_later_has_what_is_queued_then(
    bus: FakeBus, clock: Clock, tmp_path: Path
) -> None:
    """Another alarm until then belongs to it; the next one is made for the next."""
    ring = Ring(1 << 20)
    one = Recording(bus, tmp_path, ring=ring, trigger="$.Alarm", after=60)
    one.recorder.begin()
    for count in (1, 2):
        bus.send(0, "$.Alarm", count)
        one.until(one.has_read)
        assert one.said[2 * count - 2 :] == ["a snapshot follows in 60 s"]
        clock.sleep(59)
        bus.send(0, "$.Alarm")
        one.until(one.has_read)
        assert one.files.sealed == count - 1
        # Whoever records is slow, and this comes before the time, which is over when it looks again.
        bus.send(0, "$.After")
        clock.sleep(1)
        one.recorder.step(one.fileno(), 0)
    assert [[each.message.name for each in read(path)[0]] for path in sorted(tmp_path.iterdir())] == [
        ["$.Alarm"] * 2 + ["$.After"],
        ["$.Alarm"] * 3 + ["$.After"],
    ]
    one.close()
