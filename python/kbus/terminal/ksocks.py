# SPDX-License-Identifier: MIT
"""KSocks as the subcommands use them: errors that help, and reading until a signal comes."""

from __future__ import annotations

import contextlib
import select
import sys
import time
from collections.abc import Callable, Iterator
from typing import Optional, TypeVar

from .. import Ksock, MessageId
from .failures import Failure, bind_failure, open_failure
from .output import StdoutClosed, flush
from .signals import EndSignals, polled

__all__ = ["bind", "open_ksock", "send_kept", "until_ended"]

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
    fd: int,
    signals: EndSignals,
    timeout: Optional[float],
    read: Callable[[], Optional[_T]],
    writes: bool = True,
) -> Iterator[_T]:
    """What ``read`` takes from this descriptor, until a signal has come; None is nothing.

    What was written to stdout is flushed before waiting. Raises the Failure of a time-out if nothing
    comes for ``timeout`` seconds, and for a command that ``writes`` to stdout StdoutClosed as soon as that
    has no reader any more.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(signals.fileno(), select.POLLIN)
    if writes:
        # Asked for no event, poll still reports that the other end of a pipe has been closed.
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


def send_kept(ksock: Ksock, signals: Optional[EndSignals], timeout: Optional[float]) -> Optional[MessageId]:
    """Send what ``ksock`` keeps, as soon as all that must have it have room; None if a signal came first.

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
    raise Failure.timed_out(f"not all queues had room within {timeout:g} s; none got it")
