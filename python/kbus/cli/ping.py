# SPDX-License-Identifier: MIT
"""``kbus ping``: how long a replier takes to answer."""

from __future__ import annotations

import argparse
import select
import time
from typing import Optional

from .. import Ksock, Message, Request
from .._failed import decode, is_good
from ..terminal import options
from ..terminal.failures import Failure, send_failure
from ..terminal.ksocks import open_ksock
from ..terminal.output import flush, put_json, put_line
from ..terminal.signals import EndSignals, polled


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "ping",
        help="send requests one after the other, and show how long the answers take",
        description="Send requests without data, one after the other, and show how long each answer takes."
        " A replier that fails has answered too. In the end, show in what time half of the answers came"
        " (p50), and 99 of 100 (p99).",
    )
    parser.add_argument("name", type=options.name_to_send, metavar="NAME", help="the request's name")
    options.add_device(parser)
    options.add_count(parser, "answers (default: 4)")
    options.add_interval(parser, "time from one request to the next (default: 1)")
    options.add_json(parser)
    options.add_timeout(parser, "if there is no answer", default=10)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    times: list[int] = []
    try:
        _ask_each(args, times)
    except Failure:
        _sum_up(args, times)
        raise
    _sum_up(args, times)


def _ask_each(args: argparse.Namespace, times: list[int]) -> None:
    """Ask until all have been asked or a signal comes, and add the ns that each answer took."""
    interval = 1.0 if args.interval is None else args.interval
    with EndSignals() as signals, open_ksock(args.device) as ksock:
        for number in range(args.count or 4):
            flush()
            if number:
                signals.wait(interval)
            if signals.came:
                return
            began = time.perf_counter_ns()
            answer = _ask(ksock, args.name, args.timeout, signals)
            if answer is None:
                return
            times.append(time.perf_counter_ns() - began)
            how = "answer" if is_good(answer) else decode(answer.data)[0]
            if args.json:
                put_json({"name": args.name, "from": answer.from_, "how": how, "ns": times[-1]})
            else:
                put_line(f"{how} from {answer.from_}: {_shown(times[-1])}")


def _ask(ksock: Ksock, name: str, timeout: float, signals: EndSignals) -> Optional[Message]:
    """Send a request and return what the replier answers, None if a signal came first. Raises a Failure."""
    deadline = time.monotonic() + timeout
    poll = select.poll()
    poll.register(ksock.fileno(), select.POLLIN)
    poll.register(signals.fileno(), select.POLLIN)
    try:
        ksock.send_msg(Request(name))
        answer = None
        while answer is None:
            events = polled(poll, max(0.0, deadline - time.monotonic()))
            if signals.came:
                return None
            if not events:
                raise Failure.timed_out(f"no answer to {name} within {timeout:g} s")
            answer = ksock.read_next_msg()
    except OSError as error:
        raise send_failure(error) from error
    if answer.is_synthetic():
        raise Failure(f"no answer to {name}: {answer.name}")
    return answer


def _sum_up(args: argparse.Namespace, times: list[int]) -> None:
    """Show in what time half of the answers came, 99 of 100, and all."""
    if not times:
        return
    count = len(times)
    times.sort()
    p50, p99, longest = (times[(count * percent + 99) // 100 - 1] for percent in (50, 99, 100))
    if args.json:
        put_json({"name": args.name, "answers": count, "p50_ns": p50, "p99_ns": p99, "max_ns": longest})
    else:
        put_line(f"{count} answers: p50 {_shown(p50)}, p99 {_shown(p99)}, longest {_shown(longest)}")


def _shown(ns: int) -> str:
    return f"{ns / 1e6:.3f} ms"
