# SPDX-License-Identifier: MIT
"""``kbus send``: send an announcement, or many."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from typing import Optional

from .. import Announcement, Ksock, Message, MessageId
from ..terminal import options
from ..terminal.data import HEX_HELP, given_data, input_lines
from ..terminal.failures import Failure, send_failure
from ..terminal.ksocks import open_ksock, send_kept
from ..terminal.output import StdoutClosed, StdoutFailed, flush, put_json, put_line, say
from ..terminal.signals import EndSignals
from .pace import Pace


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "send",
        help="send an announcement to the listeners of its name",
        description="Send an announcement and print its id. A listener whose queue is full misses it.",
    )
    parser.add_argument("name", type=options.name_to_send, metavar="NAME", help="the message's name")
    options.add_data(parser)
    options.add_device(parser)
    options.add_hex(parser, HEX_HELP)
    many = parser.add_argument_group(
        "many of them",
        "Until all are sent, one can't be sent, or SIGINT or SIGTERM comes. In place of their ids, one line"
        " is printed: how many were sent, and the ids of the first and the last.",
    )
    how_many = many.add_mutually_exclusive_group()
    how_many.add_argument(
        "-l", "--lines", action="store_true", help="one for each line of stdin, as soon as it is there"
    )
    how_many.add_argument("--repeat", type=options.positive, metavar="N", help="the same N times")
    many.add_argument(
        "--rate", type=options.rate, metavar="R", help="R a second at most (default: as fast as possible)"
    )
    parser.add_argument("--urgent", action="store_true", help="to the front of the listeners' queues")
    room = parser.add_mutually_exclusive_group()
    room.add_argument("--all-or-wait", action="store_true", help="wait until all listeners have room")
    room.add_argument("--all-or-fail", action="store_true", help="fail if a listener has no room")
    options.add_timeout(parser, "if, with --all-or-wait, there is no room")
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    _check(args)
    if not args.lines and args.repeat is None:
        data = given_data(args)
        with open_ksock(args.device, nonblocking=args.all_or_wait) as ksock:
            message_id = _send(ksock, _message(args, data), args.timeout)
            assert message_id is not None
            _show(args, message_id)
        return
    with EndSignals() as signals:
        data = None if args.lines else given_data(args)
        with open_ksock(args.device, nonblocking=args.all_or_wait) as ksock:
            many = (
                input_lines(signals) if args.lines else itertools.repeat(data, min(args.repeat, sys.maxsize))
            )
            _send_many(args, ksock, many, signals)


def _check(args: argparse.Namespace) -> None:
    if args.timeout is not None and not args.all_or_wait:
        raise Failure.usage("--timeout needs --all-or-wait: nothing else waits")
    if args.rate is not None and not args.lines and args.repeat is None:
        raise Failure.usage("--rate needs --lines or --repeat: one message has no rate")
    if args.lines:
        for given, what in ((args.data is not None, "DATA"), (args.file, "--file"), (args.hex, "--hex")):
            if given:
                raise Failure.usage(f"{what} can't be given with --lines: stdin has the data, as it is")


def _message(args: argparse.Namespace, data: Optional[bytes]) -> Message:
    flags = (
        (Message.URGENT if args.urgent else 0)
        | (Message.ALL_OR_WAIT if args.all_or_wait else 0)
        | (Message.ALL_OR_FAIL if args.all_or_fail else 0)
    )
    return Announcement(args.name, data, flags=flags)


class _Sent:
    """How many have been sent, and the ids of the first and the last."""

    def __init__(self) -> None:
        self.count = 0
        self._first: Optional[MessageId] = None
        self._last: Optional[MessageId] = None

    def __str__(self) -> str:
        return "1 message sent" if self.count == 1 else f"{self.count} messages sent"

    def add(self, message_id: MessageId) -> None:
        """One more."""
        self.count += 1
        self._first = self._first or message_id
        self._last = message_id

    def told(self) -> str:
        """Return how many, and their ids."""
        ids = f", {self._first}" + (f" to {self._last}" if self.count > 1 else "") if self.count else ""
        return f"{self}{ids}"


def _send_many(
    args: argparse.Namespace, ksock: Ksock, many: Iterator[Optional[bytes]], signals: EndSignals
) -> None:
    """Send messages with such data, and say how many were sent, whatever ends it."""
    pace = Pace(args.rate) if args.rate is not None else None
    sent = _Sent()
    try:
        _send_each(args, ksock, many, signals, pace, sent)
        if not args.json:
            put_line(sent.told())
        flush()
    except Failure as failure:
        raise Failure(f"{failure}; {sent} before", failure.status) from failure
    except StdoutClosed:
        say("send", f"standard output has no reader any more; {sent} before")
        raise
    except StdoutFailed as failure:
        raise StdoutFailed(f"{failure}; {sent} before") from failure
    shortfall = pace.shortfall() if pace else None
    if shortfall:
        say("send", shortfall)


def _send_each(
    args: argparse.Namespace,
    ksock: Ksock,
    many: Iterator[Optional[bytes]],
    signals: EndSignals,
    pace: Optional[Pace],
    sent: _Sent,
) -> None:
    while not signals.came:
        asked = time.monotonic()
        try:
            data = next(many)
        except StopIteration:
            return
        if pace:
            # The reader of the ids has them before this waits.
            flush()
            pace.wait(asked, signals)
        if signals.came:
            return
        try:
            message_id = _send(ksock, _message(args, data), args.timeout, signals)
        except Failure as failure:
            which = f"{'line' if args.lines else 'message'} {sent.count + 1}"
            raise Failure(f"{which}: {failure}", failure.status) from failure
        if message_id is None:
            return
        sent.add(message_id)
        if args.json:
            _show(args, message_id)


def _show(args: argparse.Namespace, message_id: MessageId) -> None:
    if args.json:
        put_json({"device": args.device, "id": [message_id.network_id, message_id.serial_num]})
    else:
        put_line(str(message_id))


def _send(
    ksock: Ksock, message: Message, timeout: Optional[float], signals: Optional[EndSignals] = None
) -> Optional[MessageId]:
    """Send, and if that has to wait, wait no longer than ``timeout`` seconds; None if a signal came first.

    Raises a Failure.
    """
    try:
        try:
            return ksock.send_msg(message)
        except BlockingIOError:
            if not message.flags & Message.ALL_OR_WAIT:
                raise
            return send_kept(ksock, signals, timeout)
    except OSError as error:
        raise send_failure(error) from error
