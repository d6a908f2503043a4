# SPDX-License-Identifier: MIT
"""Showing how far Spark is, on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Optional

from pyspark.sql import SparkSession

_LOOK = 0.5
#: Where there is no terminal, a line every so many seconds if there is something new
_SAY = 10.0


class Progress:
    """Says, while Spark is at work, how many tasks are done, unless it is ``quiet``. Use it with ``with``.

    ``state`` returns what is going on while there are no tasks.
    """

    def __init__(self, spark: SparkSession, step: str, quiet: bool = False) -> None:
        self.state: Callable[[], str] = lambda: "planning"
        self._tracker = spark.sparkContext.statusTracker()
        self._step = step
        self._quiet = quiet
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._is_terminal = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._end.set()
        if not self._quiet:
            self._thread.join()
            print(self._cleared(), end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Say something about the step in a line of its own, also if it is quiet."""
        print(f"{self._cleared()}{self._step}: {text}", file=sys.stderr, flush=True)

    def _cleared(self) -> str:
        return "\r\033[K" if self._is_terminal and not self._quiet else ""

    def _watch(self) -> None:
        begin = said = time.monotonic()
        last = ""
        while not self._end.wait(_LOOK):
            now = time.monotonic()
            what = self._tasks() or self.state()
            text = f"{self._step}: {what}, {now - begin:.0f} s"
            if self._is_terminal:
                print(f"{self._cleared()}{text}", end="", file=sys.stderr, flush=True)
            elif now - said >= _SAY and what != last:
                print(text, file=sys.stderr, flush=True)
                said, last = now, what

    def _tasks(self) -> str:
        done = total = 0
        for stage in self._tracker.getActiveStageIds():
            info = self._tracker.getStageInfo(stage)
            if info:
                done += info.numCompletedTasks
                total += info.numTasks
        return f"{done} of {total} tasks" if total else ""
