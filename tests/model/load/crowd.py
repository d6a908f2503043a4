# SPDX-License-Identifier: MIT
"""Processes that are started, told to stop, killed and replaced."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.kernel.helpers import wait_until

from .notes import Note, Notebook, notes


class Bell:
    """Tells many processes to stop: once it has rung, its `fileno()` is readable in all of them."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def fileno(self) -> int:
        """What to poll."""
        return self._reader

    def ring(self) -> None:
        """Tell everybody, for good."""
        os.close(self._writer)
        self._writer = -1

    def mute(self) -> None:
        """In a process that only listens: give up what would keep it from ringing."""
        if self._writer >= 0:
            self.ring()

    def has_rung(self) -> bool:
        """Whether it has rung."""
        return bool(select.select([self._reader], [], [], 0)[0])


@dataclass(frozen=True)
class Worker:
    """What a process has to work with."""

    notebook: Notebook
    random: Random
    stop: Bell
    ready_fd: int

    def ready(self) -> None:
        """Tell the starter that what others rely on has been done."""
        os.write(self.ready_fd, b"+")


@dataclass(frozen=True)
class Process:
    """A process that has been started and is ready."""

    pid: int
    path: Path

    def notes(self) -> list[Note]:
        """What it has noted so far."""
        return notes(self.path)


Body = Callable[[Worker], None]
"""What a process does."""


class Crowd:
    """Starts the processes of a test; the random numbers of each depend on the seed and its place only."""

    def __init__(self, directory: Path, seed: int, bells: int = 1) -> None:
        print(f"KBUS_LOAD_SEED={seed}")
        self.random = Random(seed)
        self.bells = [Bell() for _ in range(bells)]
        self._seed = seed
        self._directory = directory
        self._started = 0
        self._running: set[int] = set()

    def start(self, body: Body, bell: int = 0) -> Process:
        """Fork a process that does `body`, which stops when that bell rings; come back when it is ready."""
        self._started += 1
        path = self._directory / f"{self._started}-{body.__name__}"
        reader, writer = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            os._exit(self._work(body, path, self.bells[bell], writer))
        os.close(writer)
        said = os.read(reader, 1)
        os.close(reader)
        self._running.add(pid)
        assert said, f"{path.name} could not begin, see its stderr"
        return Process(pid, path)

    def _work(self, body: Body, path: Path, stop: Bell, writer: int) -> int:
        for bell in self.bells:
            bell.mute()
        try:
            body(Worker(Notebook(path), Random(f"{self._seed} {path.name}"), stop, writer))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            return 1
        return 0

    def kill(self, process: Process) -> None:
        """SIGKILL it, whatever it is doing; that it has ended before is an AssertionError."""
        os.kill(process.pid, signal.SIGKILL)
        status = self._reap(process.pid)
        assert os.WIFSIGNALED(status), f"{process.path.name} had ended by itself, see its stderr"

    def finish(self, process: Process) -> None:
        """Wait until it has ended by itself, without an error."""
        wait_until(lambda: self._has_ended(process.pid), f"{process.path.name} ends")
        assert self._reap(process.pid) == 0, f"{process.path.name} failed, see its stderr"

    def _has_ended(self, pid: int) -> bool:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _reap(self, pid: int) -> int:
        self._running.remove(pid)
        return os.waitpid(pid, 0)[1]

    def end(self) -> None:
        """Kill whatever a test that failed has left."""
        for pid in list(self._running):
            os.kill(pid, signal.SIGKILL)
            self._reap(pid)

    def kill_and_replace(self, processes: list[Process], body: Body, seconds: float) -> None:
        """For some time, at random moments, kill one of the processes and start another in its place."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.random.uniform(0.01, 0.3))
            place = self.random.randrange(len(processes))
            self.kill(processes[place])
            processes[place] = self.start(body)
