# SPDX-License-Identifier: MIT
"""``kbus listen``: show the messages that come by some names."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from typing import Optional

from .. import Ksock, Message, abi
from . import options
from .ksocks import EndSignals, bind, open_ksock, until_ended
from .lines import CLOCKS, Clock, as_json, as_line
from .output import put_json, put_line, say


def add(subparsers: options.Subparsers) -> None:
    """Tell argparse of this subcommand."""
    parser = subparsers.add_parser(
        "listen",
        help="show the messages that come by some names",
        description="Show messages, one a line, until SIGINT or SIGTERM; what had come by then is shown too.",
    )
    parser.add_argument("names", nargs="+", type=options.name_to_bind, metavar="NAME", help=options.NAME_HELP)
    options.add_device(parser)
    options.add_count(parser, "messages")
    options.add_timeout(parser, "if nothing comes")
    form = parser.add_mutually_exclusive_group()
    options.add_json(form)
    form.add_argument(
        "-t",
        dest="clock",
        choices=CLOCKS,
        help="how lines tell the time: seconds since 1970, since the line before, since the first line,"
        " or date and time (default: abs)",
    )
    options.add_hex(parser, "show the data as hex digits, even if it is text")
    parser.add_argument("--max-messages", type=options.positive, metavar="N", help="length of the queue")
    parser.add_argument(
        "--only-once", action="store_true", help="show a message that several names match once"
    )
    parser.add_argument(
        "--observer",
        action="store_true",
        help="miss what finds no room in the queue, also if its sender wants all who listen to have room",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    clock = Clock(args.clock or "abs")
    with EndSignals() as signals, open_ksock(args.device, "r") as ksock:
        if args.max_messages:
            ksock.set_max_messages(args.max_messages)
        ksock.want_messages_once(args.only_once)
        ksock.report_lost_messages(True)
        for name in args.names:
            bind(ksock, name, observer=args.observer)
        try:
            for message in itertools.islice(_messages(ksock, signals, args.timeout), args.count):
                now = time.time_ns()
                if args.json:
                    put_json(as_json(message, args.device, now, args.hex))
                else:
                    put_line(as_line(message, args.device, clock.text(now), args.hex))
        finally:
            lost = ksock.lost_messages()
            if lost:
                say("listen", f"{lost} messages were lost in all; --max-messages makes the queue longer")


def _messages(ksock: Ksock, signals: EndSignals, timeout: Optional[float]) -> Iterator[Message]:
    """What is to be shown, up to what had arrived when a signal came; losses are told on the way."""
    for message in itertools.chain(until_ended(ksock, signals, timeout), _queued(ksock)):
        if message.name == abi.NAME_MESSAGES_LOST:
            (count,) = abi.U32.unpack(message.data or b"")
            say("listen", f"{count} messages were lost: the queue of {ksock.max_messages()} was full")
        else:
            yield message


def _queued(ksock: Ksock) -> Iterator[Message]:
    """What is in the queue when the first of it is asked for, and nothing that comes later."""
    yield from itertools.islice(ksock, ksock.num_messages())
