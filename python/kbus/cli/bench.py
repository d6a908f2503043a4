# SPDX-License-Identifier: MIT
"""``kbus bench``: how many messages a second the bus takes, and how long an answer takes."""

from __future__ import annotations

import argparse
import sys
import time
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from .. import Announcement, Ksock, Message, StatusError, inspect
from .._processes import command_of
from ..names import matches
from ..terminal import options
from ..terminal.failures import Failure, proc_failure, send_failure
from ..terminal.ksocks import open_ksock
from ..terminal.output import put_json, put_table, say, show
from ..terminal.signals import EndSignals
from .bench_peer import COUNTED, PATIENCE, BenchPeer, send_each

_SIZES = (64, 1 << 10, 64 << 10)
#: Messages, and bytes, that one call sends at most
_BATCH, _BATCH_BYTES = 64, 256 << 10
_WARM_UP = 20
_CLEAR = "\r\x1b[K"
_HEAD = ("BYTES", "ONE BY ONE/s", "BATCH", "BATCHED/s", "CALLS/s", "P50 us", "P99 us")


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "bench",
        help="measure how fast the bus is here",
        description="Send messages from one process to another, and show how many a second arrive: sent one"
        " by one, and in batches. Then send requests one after the other, and show how many a second are"
        " answered, and how many microseconds half of the answers take at most (P50), and 99 of 100 (P99)."
        " Both processes are in Python. The names begin with $.KbusBench. If a KSock listens to them,"
        " nothing is measured.",
    )
    options.add_device(parser)
    parser.add_argument(
        "--size",
        dest="sizes",
        action="append",
        type=options.size,
        metavar="SIZE",
        help="bytes of data in each message; can be given more than once (default: 64, 1K and 64K)",
    )
    parser.add_argument(
        "--seconds",
        type=options.span,
        default=1.0,
        metavar="S",
        help="how long each of the three measurements takes, for each size (default: 1)",
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


class _Figures(NamedTuple):
    """What was measured with one size."""

    size: int
    one_by_one: int
    batch: int
    batched: int
    calls: int
    p50_ns: int
    p99_ns: int


def run(args: argparse.Namespace) -> None:
    """Do it."""
    sizes: list[int] = args.sizes or list(_SIZES)
    rows: list[_Figures] = []
    with EndSignals() as signals, open_ksock(args.device, nonblocking=True) as ksock:
        prefix = f"$.KbusBench.K{ksock.ksock_id()}"
        _check(ksock, prefix, sizes)
        if not ksock.is_real:
            say("bench", "this is a stand-in of the bus: its figures say nothing about the module")
        with BenchPeer(ksock, prefix, signals) as peer:
            bench = _Bench(ksock, prefix, peer, args.seconds, signals, len(sizes))
            try:
                for size in sizes:
                    figures = bench.measure(size)
                    if signals.came:
                        break
                    rows.append(figures)
                    if args.json:
                        put_json(_as_json(figures, args.device, args.seconds, ksock.is_real))
            except TimeoutError:
                raise Failure.timed_out(f"an answer has not come within {PATIENCE:g} s") from None
            except StatusError as error:
                raise Failure(f"an answer has not come: {error.status.name}") from None
            except OSError as error:
                raise send_failure(error) from error
            finally:
                bench.progress.clear()
    if rows and not args.json:
        put_table(_HEAD, [_row(each) for each in rows])
    if len(rows) < len(sizes):
        say("bench", f"ended by a signal: {len(rows)} of {len(sizes)} sizes were measured")


def _check(ksock: Ksock, prefix: str, sizes: list[int]) -> None:
    """Raise a Failure if this would disturb another KSock, or can't be done."""
    try:
        bindings = inspect.bindings(ksock.which)
    except OSError as error:
        raise proc_failure(error) from error
    for each in bindings:
        if not each.is_replier and matches(each.name, f"{prefix}.{COUNTED}"):
            who = f"KSock {each.ksock_id} ({each.pid} {command_of(each.pid)})"
            raise Failure(
                f"{who} listens to {each.name}, and would get all these messages, too;"
                " end it, or measure on another device (-d)"
            )
    longest = ksock.max_message_size()
    for size in sizes:
        if size > longest or Announcement(f"{prefix}.{COUNTED}", bytes(size)).total_length() > longest:
            raise Failure(f"with {size} bytes of data, a message is longer than the {longest} bytes allowed")


def _row(figures: _Figures) -> tuple[int, ...]:
    return (*figures[:-2], round(figures.p50_ns / 1e3), round(figures.p99_ns / 1e3))


def _as_json(figures: _Figures, device: int, seconds: float, is_real: bool) -> dict[str, object]:
    return {
        "device": device,
        "is_real": is_real,
        "seconds": seconds,
        "size": figures.size,
        "one_by_one_per_s": figures.one_by_one,
        "batch": figures.batch,
        "batched_per_s": figures.batched,
        "calls_per_s": figures.calls,
        "call_p50_ns": figures.p50_ns,
        "call_p99_ns": figures.p99_ns,
    }


class _BenchProgress:
    """A line on a terminal that says what is being measured."""

    def __init__(self, steps: int) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._steps = steps
        self._step = 0

    def next(self, what: str) -> None:
        """Say it."""
        self._step += 1
        if self._is_terminal:
            show(f"{_CLEAR}{what} ({self._step} of {self._steps})")

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._is_terminal:
            show(_CLEAR)


class _Bench:
    """Sends messages to the peer, and measures. What it raises is of ``Ksock``."""

    def __init__(
        self, ksock: Ksock, prefix: str, peer: BenchPeer, seconds: float, signals: EndSignals, sizes: int
    ) -> None:
        self._ksock = ksock
        self._name = f"{prefix}.{COUNTED}"
        self._peer = peer
        self._seconds = seconds
        self._signals = signals
        self.progress = _BenchProgress(3 * sizes)

    def measure(self, size: int) -> _Figures:
        """Measure with so many bytes of data. A signal ends this soon; then the result means nothing."""
        data = bytes(size)
        message = Announcement(self._name, data, flags=Message.ALL_OR_WAIT)
        batch: list[Message] = [message] * max(1, min(_BATCH, _BATCH_BYTES // size))
        for _ in range(_WARM_UP):
            self._ksock.call(self._peer.asked, data, PATIENCE)
        self.progress.next(f"{size} bytes, one by one")
        one_by_one = self._one_way([message])
        self.progress.next(f"{size} bytes, in batches of {len(batch)}")
        batched = self._one_way(batch)
        self.progress.next(f"{size} bytes, calls")
        calls, times = self._calls(data)
        return _Figures(
            size, one_by_one, len(batch), batched, calls,
            times[len(times) // 2], times[len(times) * 99 // 100],
        )  # fmt: skip

    def _one_way(self, batch: list[Message]) -> int:
        """How many messages a second arrive; 0 if a signal came."""
        if self._signals.came:
            # What was sent before has not been counted.
            return 0
        sent = 0
        began = time.perf_counter()
        for _ in self._until_over(began):
            if not send_each(self._ksock, batch, self._signals):
                return 0
            sent += len(batch)
        came = self._peer.counted()
        if came is None:
            return 0
        # The time in which the last of them arrived counts.
        took = time.perf_counter() - began
        if came != sent:
            raise Failure(f"{sent} messages were sent, but {came} have arrived")
        return round(came / took)

    def _calls(self, data: bytes) -> tuple[int, list[int]]:
        """How many calls a second there were, and the ns of each, the shortest first."""
        times = array("Q")
        began = time.perf_counter()
        for _ in self._until_over(began):
            asked = time.perf_counter_ns()
            self._ksock.call(self._peer.asked, data, PATIENCE)
            times.append(time.perf_counter_ns() - asked)
        took = time.perf_counter() - began
        return round(len(times) / took), sorted(times)

    def _until_over(self, began: float) -> Iterator[None]:
        """Once at least, and then until the time is over or a signal has come."""
        end = began + self._seconds
        yield
        while time.perf_counter() < end and not self._signals.came:
            yield
