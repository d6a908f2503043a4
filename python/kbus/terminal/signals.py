# SPDX-License-Identifier: MIT
"""SIGTERM and SIGINT as something that can be waited for, and waiting however long."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from types import FrameType, TracebackType
from typing import Optional

from .output import flush

__all__ = ["EndSignals", "polled"]

#: Seconds that select() takes everywhere
_LONGEST_WAIT = 3600.0
#: Seconds in which two signals of a kind are one
_AT_ONCE = 0.5


def polled(poll: select.poll, timeout: Optional[float]) -> dict[int, int]:
    """Return the events that poll() reports, by descriptor; none after ``timeout`` seconds, however many."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _LONGEST_WAIT if deadline is None else max(0.0, deadline - time.monotonic())
        events = dict(poll.poll(min(left, _LONGEST_WAIT) * 1000))
        if events or left == 0:
            return events


class EndSignals:
    """SIGTERM and SIGINT, inside a ``with``, as something that can be waited for.

    Enter it before others can see that the command has begun. The second signal of a kind does what
    it does to any process, so that one which hangs can be ended; but timeout(1) for one sends two at once,
    so that what comes within half a second of the first is none. What was written to stdout before is
    flushed inside, as such a second one would come in between.

    ``others`` end nothing; ``take_others`` returns which have come.
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self, *others: signal.Signals) -> None:
        self._others = others

    def __enter__(self) -> EndSignals:
        self.came = False
        self._first: dict[int, float] = {}
        self._others_came: set[int] = set()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        # A handler of Python's may run only after a wait that began in between.
        self._woken_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._before = [signal.signal(number, self._on_signal) for number in self._SIGNALS]
        self._before += [signal.signal(number, self._on_other) for number in self._others]
        return self

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            if self.came and exc_type is None:
                flush()
        finally:
            for number, handler in zip((*self._SIGNALS, *self._others), self._before):
                signal.signal(number, handler)
            signal.set_wakeup_fd(self._woken_before)
            os.close(self._reader)
            os.close(self._writer)

    def fileno(self) -> int:
        """Readable once one of the signals has come; for others only until ``take_others``."""
        return self._reader

    def wait(self, seconds: float) -> None:
        """Wait so long, or until one of the signals has come."""
        if not self.came:
            select.select([self], [], [], seconds)

    def wait_until(self, when: float) -> None:
        """Wait until this time of ``time.monotonic``, or until one of the signals has come."""
        while not self.came and (left := when - time.monotonic()) > 0:
            self.wait(min(left, _LONGEST_WAIT))

    def take_others(self) -> set[int]:
        """Which of the others have come since this was called before."""
        # One that comes between the two leaves its byte here, so that it is read the next time at the latest.
        with contextlib.suppress(BlockingIOError):
            while not self.came and os.read(self._reader, 100):
                pass
        came, self._others_came = self._others_came, set()
        return came

    def _on_other(self, number: int, frame: Optional[FrameType]) -> None:
        self._others_came.add(number)
        self._wake()

    def _wake(self) -> None:
        # A pipe that is full can be read.
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"\0")

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        now = time.monotonic()
        if now - self._first.setdefault(number, now) > _AT_ONCE:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.came = True
        self._wake()
