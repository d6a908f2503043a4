# SPDX-License-Identifier: MIT
"""A neighbour: c/neighbour.c, run by an unprivileged user."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path
from typing import Protocol

from tests.kernel import raw
from tests.kernel.helpers import stats_lines, wait_until
from tests.kernel.processes import LOOKERS, NOBODY
from tests.neighbours.bystanders import NEIGHBOURS_CPU, PING, PROGRAMS

WORDS = {
    "PING": PING,
    "LONG_NAME": "$." + "a." * 400 + "a",
    "MEGABYTE": str((1 << 18) - 100),
    "ALL_OR_FAIL": str(raw.ALL_OR_FAIL),
    "REQUEST": str(raw.WANT_A_REPLY),
}
"""What words in orders stand for. MEGABYTE is words of data, for a message of nearly the longest length."""


class Neighbour:
    """Processes that obey orders, as c/neighbour.c describes them.

    They are those of an unprivileged user who may look at /proc/kbus, in a cgroup if one is given. One of the
    orders is `done`, and the constructor comes back when it was obeyed. A context manager: in the end all the
    processes are killed, and whatever they had on the bus is gone.
    """

    def __init__(self, orders: str, uid: int = NOBODY, cgroup: Path | None = None) -> None:
        self.uid = uid
        begin = [*(["enter", str(cgroup)] if cgroup else []), "become", str(uid), str(LOOKERS)]
        words = [WORDS.get(word, word) for word in orders.split()]
        self._process = subprocess.Popen(
            [PROGRAMS / "neighbour", str(NEIGHBOURS_CPU), *begin, *words],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._is_gone = False
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said, "the neighbour died, see its stderr"
        self.refused_with = errno.errorcode.get(int(said), "")
        """The name of the errno with which an order before `done` was refused last."""

    def is_running(self) -> bool:
        """False once its first process has ended."""
        return self._process.poll() is None

    def __enter__(self) -> Neighbour:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """SIGKILL its processes, and come back when they and their KSocks are gone. Can be repeated."""
        if self._is_gone:
            return
        self._is_gone = True
        os.killpg(self.pid, signal.SIGKILL)
        self._process.communicate()
        wait_until(lambda: owned_by(self.uid) == 0, "everything of the neighbour's is gone")


class StartNeighbour(Protocol):
    """Starts a Neighbour, which is killed after the test at the latest."""

    def __call__(self, orders: str, uid: int = NOBODY, cgroup: Path | None = None) -> Neighbour: ...


def owned_by(uid: int) -> int:
    """How many KSocks the user has."""
    return sum(line.numbers.get("uid") == uid for line in stats_lines())
