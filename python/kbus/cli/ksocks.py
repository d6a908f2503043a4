# SPDX-License-Identifier: MIT
"""KSocks as the subcommands use them: errors that help, and reading until somebody ends it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Optional

from .. import Ksock, Message
from .failures import Failure, bind_failure, open_failure
from .output import StdoutClosed, flush

__all__ = ["EndSignals", "bind", "open_ksock", "until_ended"]


def open_ksock(device: int, mode: str = "rw", nonblocking: bool = False) -> Ksock:
    """Open /dev/kbusN, or raise a Failure."""
    try:
        return Ksock(device, mode, nonblocking=nonblocking)
    except OSError as error:
        raise open_failure(error, device) from error


def bind(ksock: Ksock, name: str, replier: bool = False, observer: bool = False) -> None:
    """Bind, or raise a Failure."""
    try:
        ksock.bind(name, replier, observer=observer)
    except OSError as error:
        raise bind_failure(error, ksock, name) from error


def until_ended(ksock: Ksock, signals: EndSignals, timeout: Optional[float]) -> Iterator[Message]:
    """The messages that come to ``ksock``, until one of the signals has come.

    What was written to stdout is flushed before waiting. Raises the Failure of a time-out if nothing
    comes for ``timeout`` seconds, and StdoutClosed as soon as nobody reads stdout any more.
    """
    poll = select.poll()
    poll.register(ksock.fileno(), select.POLLIN)
    poll.register(signals.fileno(), select.POLLIN)
    # Asked for nothing, poll still tells that the other end of a pipe has been closed.
    poll.register(sys.stdout.fileno(), 0)
    while not signals.came:
        message = ksock.read_next_msg()
        if message is not None:
            yield message
            continue
        flush()
        events = dict(poll.poll(None if timeout is None else timeout * 1000))
        if not events:
            raise Failure.timed_out(f"nothing came for {timeout:g} s")
        if sys.stdout.fileno() in events:
            raise StdoutClosed


class EndSignals:
    """SIGTERM and SIGINT, inside a ``with``, as something that can be waited for.

    Enter it before others can see that the command has begun. The second signal of a kind does what
    it does to any process, so that one which hangs can be ended.

    ``others`` end nothing; ``take_others`` tells which have come.
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self, *others: signal.Signals) -> None:
        self._others = others

    def __enter__(self) -> EndSignals:
        self.came = False
        self._others_came: set[int] = set()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._before = [signal.signal(number, self._on_signal) for number in self._SIGNALS]
        self._before += [signal.signal(number, self._on_other) for number in self._others]
        return self

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        for number, handler in zip((*self._SIGNALS, *self._others), self._before):
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    def fileno(self) -> int:
        """Readable once one of the signals has come; for others only until ``take_others``."""
        return self._reader

    def take_others(self) -> set[int]:
        """Which of the others have come since this was called before."""
        if not self._others_came:
            return set()
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
        signal.signal(number, signal.SIG_DFL)
        self.came = True
        self._wake()
