# SPDX-License-Identifier: MIT
"""What recording takes: `python3 -m tests.bench.recording WHAT` prints a line of JSON.

WHAT is "read": how many messages a second a Python listener gets out of a full queue, and how many the
recorder with all that it does to them. "send": what a send costs while there is a listener, alone and with a
recorder, and how often the sender loses the processor. "steady": what the recorder takes at a thousand
messages a second. "damage": how long it takes to read a healthy capture, and what is none, of the kind that
takes longest.

The two of "read" and "send" take turns in bursts of some ms, so that a host which has more to do now and then
does not matter to one of them more than to the other.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from kbus import Announcement, Ksock, inspect
from kbus.capture import Reader
from kbus.capture.files import Files, Policy
from kbus.capture.recorder import Recorder
from kbus.capture.source import Source
from tests.capture.rubbish import RUBBISH, healthy

HEARD, RECORDED = "$.Bench.Heard", "$.Bench.Recorded"
"""What only the listener hears, and what the recorder does, who in "send" hears it besides."""
BURST = 2000
"""Messages that are queued at once."""
STEADY = 1000
"""Messages a second, sent one by one."""
DAMAGE = 1 << 20
"""How long a capture is that is read, and what is none."""
DATA = bytes(64)
PATIENCE = 120.0

Figures = dict[str, float]


def main() -> int:
    """Print the figures; 1 if a message was lost."""
    parser = argparse.ArgumentParser(prog="tests.bench.recording")
    parser.add_argument("what", choices=MEASURES)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument(
        "--undisturbed", action="store_true", help="nobody takes the processor from who wakes him"
    )
    options = parser.parse_args()
    os.sched_setaffinity(0, {0})
    if options.undisturbed:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with tempfile.TemporaryDirectory() as directory:
        figures = MEASURES[options.what](options.seconds, Path(directory))
    print(json.dumps(figures))
    return 0 if figures["lost"] == 0 else 1


# How fast a full queue is emptied.


class Listener:
    """A KSock whose queue is emptied as one that only listens does it, with the fastest call there is."""

    def __init__(self) -> None:
        self._ksock = Ksock(mode="r")
        self._ksock.set_max_messages(BURST)
        self._ksock.bind(HEARD)
        self._count = 0

    def empty(self, until: int) -> None:
        """Read until so many have come in all."""
        while self._count < until:
            for message in self._ksock.receive_many(0):
                self._count += message.name == HEARD

    def lost(self) -> int:
        """How many did not come."""
        return self._ksock.lost_messages()


def _say(text: str) -> None:
    print(text, file=sys.stderr)


class Recording:
    """The same with all that `kbus record` does."""

    def __init__(self, directory: Path) -> None:
        source = Source(0, [RECORDED], BURST)
        files = Files(Policy(directory), "bench", [0], {"recorder": "bench"}, _say)
        self._recorder = Recorder([source], files, _say)
        self._recorder.begin()
        self._never, _ = os.pipe()
        self._directory = directory
        self._expected = 0

    def fileno(self) -> int:
        """What ends nothing."""
        return self._never

    def empty(self, until: int) -> None:
        """Record until so many are in the file."""
        self._expected = until
        while self._recorder.messages < until:
            self._recorder.step(self.fileno(), 0)
        self._recorder.flush()

    def lost(self) -> int:
        """How many are not in the file."""
        self._recorder.close()
        (path,) = self._directory.iterdir()
        with Reader(path) as reader:
            return self._expected - len(list(reader))


def read(seconds: float, directory: Path) -> Figures:
    """Fill the queues and see them emptied, until that has taken so many seconds; messages a second."""
    listener, recording = Listener(), Recording(directory)
    heard, recorded = ([Announcement(name, DATA)] * BURST for name in (HEARD, RECORDED))
    took = {"listener": 0.0, "recorder": 0.0}
    count = 0
    with Ksock() as sender:
        while sum(took.values()) < seconds:
            count += BURST
            sender.send_many(heard)
            took["listener"] += _seconds_of(listener.empty, count)
            sender.send_many(recorded)
            took["recorder"] += _seconds_of(recording.empty, count)
    rates = {name: count / each for name, each in took.items()}
    return {"messages": count, **rates, "lost": listener.lost() + recording.lost()}


def _seconds_of(empty: Callable[[int], None], until: int) -> float:
    began = time.monotonic()
    empty(until)
    return time.monotonic() - began


# What a recorder costs those who send.


def _listen(ready: int) -> NoReturn:
    with Ksock(mode="r") as ksock:
        ksock.set_max_messages(BURST)
        ksock.bind(HEARD)
        ksock.bind(RECORDED)
        os.write(ready, b"r")
        while True:
            ksock.receive_many()


@contextmanager
def _listener() -> Iterator[None]:
    """A process that reads what comes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        _listen(writing)
    os.read(reading, 1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@contextmanager
def _recorder(directory: Path) -> Iterator[int]:
    """`kbus record` in a process of its own; its process id."""
    command = [sys.executable, "-m", "kbus.cli", "record", RECORDED, "-o", str(directory), "--fsync", "never"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(lambda: any(each.pid == process.pid for each in inspect.bindings(0)))
            yield process.pid
            process.send_signal(signal.SIGTERM)
            if process.wait(PATIENCE):
                raise ChildProcessError(f"kbus record ended with {process.returncode}")
        finally:
            process.kill()


def _wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("what was waited for did not come")
        time.sleep(0.01)


def _all_is_read() -> bool:
    (device,) = inspect.stats(0)
    return not any(each.queued for each in device.ksocks)


def _in_files(directory: Path) -> int:
    count = 0
    for path in directory.iterdir():
        with Reader(path) as reader:
            count += len(list(reader))
    return count


def send(seconds: float, directory: Path) -> Figures:
    """Send bursts that fit the queues; for a message, ns of the sender's processor time, and switches."""
    took = {"alone": 0, "recorded": 0}
    switches = dict.fromkeys(took, 0)
    count = 0
    with Ksock() as ksock, _listener(), _recorder(directory):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            count += BURST // 8
            for who, name in (("alone", HEARD), ("recorded", RECORDED)):
                before = _switches()
                took[who] += _send_burst(ksock, Announcement(name, DATA))
                switches[who] += _switches() - before
                _wait_for(_all_is_read)
    return {
        "messages": count,
        **{who: each / count for who, each in took.items()},
        **{f"{who}_switches": each / count for who, each in switches.items()},
        "lost": count - _in_files(directory),
    }


def _switches() -> int:
    """How often the processor was taken from this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _send_burst(ksock: Ksock, message: Announcement) -> int:
    began = time.process_time_ns()
    for _ in range(BURST // 8):
        ksock.send_msg(message)
    return time.process_time_ns() - began


# What a recorder takes at a steady rate.


def _cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    """The most that it had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kib,) = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return kib * 1024


def steady(seconds: float, directory: Path) -> Figures:
    """Percent of a processor, and bytes of memory, at STEADY messages a second."""
    message = Announcement(RECORDED, DATA)
    with Ksock() as ksock, _recorder(directory) as pid:
        before, began = _cpu_seconds(pid), time.monotonic()
        count = 0
        while (now := time.monotonic()) < began + seconds:
            due = int((now - began) * STEADY)
            while count < due:
                ksock.send_msg(message)
                count += 1
            time.sleep(1 / STEADY)
        _wait_for(_all_is_read)
        took = time.monotonic() - began
        figures = {"cpu": 100 * (_cpu_seconds(pid) - before) / took, "memory": float(_memory(pid))}
    return {"messages": count, "rate": count / took, "lost": count - _in_files(directory), **figures}


# What reading takes, if it is no capture.


def damage(seconds: float, directory: Path) -> Figures:
    """Seconds of the processor for DAMAGE bytes, healthy and at worst, and MiB a second."""
    took: Figures = {"healthy": 0.0, **dict.fromkeys(RUBBISH, 0.0)}
    contents = {"healthy": healthy(DAMAGE), **{kind: make(DAMAGE) for kind, make in RUBBISH.items()}}
    begin = healthy(DAMAGE // 100)
    count = messages = 0
    while sum(took.values()) < seconds:
        count += 1
        for kind, content in contents.items():
            before = time.process_time()
            messages += _count(begin + content)
            took[kind] += time.process_time() - before
    lost = count * (_count(contents["healthy"]) + len(contents) * _count(begin)) - messages
    whole, worst = took.pop("healthy"), max(took.values())
    figures = {"healthy": whole / count, "worst": worst / count, "rate": count * DAMAGE / (1 << 20) / whole}
    return {"messages": messages, "lost": lost, **figures}


def _count(content: bytes) -> int:
    with Reader(io.BytesIO(content), strict=False) as reader:
        return len(list(reader))


MEASURES = {"damage": damage, "read": read, "send": send, "steady": steady}

if __name__ == "__main__":
    sys.exit(main())
