# SPDX-License-Identifier: MIT
"""KSocks as the subcommands use them: errors that help, and reading until somebody ends it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Optional, TypeVar

from .. import Ksock, MessageId
from .failures import Failure, bind_failure, open_failure
from .output import StdoutClosed, flush

__all__ = ["EndSignals", "bind", "open_ksock", "polled", "send_kept", "until_ended"]

#: Seconds that select() takes everywhere
_LONGEST_WAIT = 3600.0
#: Seconds in which two signals of a kind are one
_AT_ONCE = 0.5

_T = TypeVar("_T")


def open_ksock(device: int, mode: str = "rw", nonblocking: bool = False) -> Ksock:
    """Open /dev/kbusN, or raise a Failure."""
    try:
        return Ksock(device, mode, nonblocking=nonblocking)
    except OSError as error:
        raise open_failure(error) from error


def bind(ksock: Ksock, name: str, replier: bool = False, observer: bool = False) -> None:
    """Bind, or raise a Failure."""
    try:
        ksock.bind(name, replier, observer=observer)
    except OSError as error:
        raise bind_failure(error) from error


def until_ended(
    fd: int, signals: EndSignals, timeout: Optional[float], read: Callable[[], Optional[_T]]
) -> Iterator[_T]:
    """What ``read`` takes from this descriptor, until a signal has come; None is nothing.

    What was written to stdout is flushed before waiting. Raises the Failure of a time-out if nothing
    comes for ``timeout`` seconds, and StdoutClosed as soon as nobody reads stdout any more.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(signals.fileno(), select.POLLIN)
    # Asked for nothing, poll still tells that the other end of a pipe has been closed.
    poll.register(sys.stdout.fileno(), 0)
    while not signals.came:
        message = read()
        if message is not None:
            yield message
            continue
        flush()
        events = polled(poll, timeout)
        if not events:
            raise Failure.timed_out(f"nothing came for {timeout:g} s")
        if sys.stdout.fileno() in events:
            raise StdoutClosed


def polled(poll: select.poll, timeout: Optional[float]) -> dict[int, int]:
    """Return what poll() tells of which descriptor; nothing after ``timeout`` seconds, however many."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _LONGEST_WAIT if deadline is None else max(0.0, deadline - time.monotonic())
        events = dict(poll.poll(min(left, _LONGEST_WAIT) * 1000))
        if events or left == 0:
            return events


def send_kept(ksock: Ksock, signals: Optional[EndSignals], timeout: Optional[float]) -> Optional[MessageId]:
    """Send what ``ksock`` keeps, as soon as all who must have it have room; None if a signal came first.

    What was written to stdout is flushed before waiting. Raises the Failure of a time-out after ``timeout``
    seconds, and OSError.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    poll = select.poll()
    poll.register(ksock.fileno(), select.POLLOUT)
    if signals:
        poll.register(signals.fileno(), select.POLLIN)
    flush()
    while polled(poll, None if deadline is None else max(0.0, deadline - time.monotonic())):
        if signals and signals.came:
            return None
        with contextlib.suppress(BlockingIOError):
            return ksock.send()
    raise Failure.timed_out(f"not everybody had room within {timeout:g} s; nobody got it")


class EndSignals:
    """SIGTERM and SIGINT, inside a ``with``, as something that can be waited for.

    Enter it before others can see that the command has begun. The second signal of a kind does what
    it does to any process, so that one which hangs can be ended; but timeout(1) for one sends two at once,
    so that what comes within half a second of the first is none. What was written to stdout before is
    flushed inside, as such a second one would come in between.

    ``others`` end nothing; ``take_others`` tells which have come.
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
