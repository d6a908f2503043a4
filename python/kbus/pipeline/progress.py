# SPDX-License-Identifier: MIT
"""Showing how far Spark is, on stderr."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Optional

from pyspark.sql import SparkSession

_LOOK = 0.5
#: Where there is no terminal, a line every so many seconds
_SAY = 10.0


class Progress:
    """Says, while Spark is at work, how many tasks are done. Use it with ``with``."""

    def __init__(self, spark: SparkSession, step: str) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._step = step
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._is_terminal = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._end.set()
        self._thread.join()
        if self._is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def _watch(self) -> None:
        begin = said = time.monotonic()
        while not self._end.wait(_LOOK):
            now = time.monotonic()
            text = f"{self._step}: {self._tasks()}, {now - begin:.0f} s"
            if self._is_terminal:
                print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
            elif now - said >= _SAY:
                print(text, file=sys.stderr, flush=True)
                said = now

    def _tasks(self) -> str:
        done = total = 0
        for stage in self._tracker.getActiveStageIds():
            info = self._tracker.getStageInfo(stage)
            if info:
                done += info.numCompletedTasks
                total += info.numTasks
        return f"{done} of {total} tasks" if total else "planning"
