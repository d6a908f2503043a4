# SPDX-License-Identifier: MIT
"""Running a command and everything that it starts, and what that took."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
_LOOK = 0.05
_LOOKS_FOR_SIZE = 20
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """CPU seconds of all processes, seconds, and the most memory that they had at a time together, in bytes.

    ``worker_memory`` is the most that a single process of Python had, the driver aside.
    """

    cpu: float
    wall: float
    memory: int
    worker_memory: int


def measured(command: list[str], environment: dict[str, str]) -> Cost:
    """Run a command to its end, and that of all that it has started. Raises CalledProcessError."""
    # Who has lost his parent becomes a child of this process, so that nobody is missing.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    begin = time.monotonic()
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=sys.stderr)
    watch = _Watch(process.pid)
    watch.start()
    status = process.wait()
    wall = time.monotonic() - begin
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    watch.end.set()
    watch.join()
    if status:
        raise subprocess.CalledProcessError(status, command)
    return Cost(sum(watch.ticks.values()) * _TICK, wall, watch.most, watch.worker)


class _Watch(threading.Thread):
    """Looks again and again what the descendants of this process have used.

    What the kernel adds up for a parent would not do: PySpark's daemon ignores SIGCHLD, and so what its
    workers have used is added to nobody's. What a process does after the last look is missing.
    """

    def __init__(self, driver: int) -> None:
        super().__init__(daemon=True)
        self.end = threading.Event()
        self.most = 0
        self.worker = 0
        #: CPU time by process: its id, and when it was started
        self.ticks: dict[tuple[int, int], int] = {}
        self._driver = driver
        self._looks = 0

    def run(self) -> None:
        while not self.end.wait(_LOOK):
            family = _family(os.getpid())[1:]
            for pid in family:
                self._look_at(pid)
            # This takes the kernel longer: at every fifth look, it made a command a tenth slower.
            if self._looks % _LOOKS_FOR_SIZE == 0:
                sizes = {pid: _proportional(pid) for pid in family}
                self.most = max(self.most, sum(sizes.values()))
                workers = [sizes[pid] for pid in family if pid != self._driver and _is_python(pid)]
                self.worker = max([self.worker, *workers])
            self._looks += 1

    def _look_at(self, pid: int) -> None:
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return
        user, system, started = (int(words[k]) for k in (11, 12, 19))
        self.ticks[pid, started] = user + system


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for task in Path(f"/proc/{pid}/task").iterdir():
            if task.name != str(pid):
                children += (task / "children").read_text().split()
    except OSError:
        return []
    return [pid, *(each for child in children for each in _family(int(child)))]


def _proportional(pid: int) -> int:
    """Return its share of the memory that it has, in bytes."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def _is_python(pid: int) -> bool:
    try:
        return "python" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return False


def shuffled(event_log: Path) -> int:
    """Return how many bytes Spark has written for shuffles, from its event logs in a directory."""
    total = 0
    for path in event_log.rglob("*"):
        if not path.is_file() or path.name.startswith((".", "appstatus")):
            continue
        for line in path.read_text().splitlines():
            if '"SparkListenerTaskEnd"' in line:
                metrics = json.loads(line).get("Task Metrics") or {}
                total += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
    return total
