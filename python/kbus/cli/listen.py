# SPDX-License-Identifier: MIT
"""``kbus listen``: show the messages that come by some names."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from io import FileIO
from typing import Optional

from .. import Message
from .. import _abi as abi
from ..terminal import options
from ..terminal.failures import Failure
from ..terminal.ksocks import bind, open_ksock, until_ended
from ..terminal.output import put_json, put_line, say
from ..terminal.signals import EndSignals
from ..terminal.times import TimeStyle
from .filters import Filter, add_filters, given_filter
from .incoming import Incoming
from .lines import as_json, as_line, colour_of, colours_are_wanted
from .peers import Opener, Peers
from .templates import DATA, filled, template


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "listen",
        help="show the messages that come by some names",
        description="Show messages, one a line, until SIGINT or SIGTERM; what had come by then is shown too.",
    )
    parser.add_argument("names", nargs="+", type=options.name_to_bind, metavar="NAME", help=options.NAME_HELP)
    options.add_device(parser)
    options.add_count(parser, "messages that were shown")
    options.add_timeout(parser, "if nothing comes")
    form = parser.add_mutually_exclusive_group()
    options.add_json(form)
    options.add_clock(form)
    template_or_data = parser.add_mutually_exclusive_group()
    template_or_data.add_argument(
        "--format",
        type=template,
        metavar="TEXT",
        help="a line made of TEXT, in which %%t is the time, %%n the name, %%d the data, %%i the id, %%f the"
        " sender, %%k the kind, %%l the length of the data",
    )
    template_or_data.add_argument(
        "--data", dest="format", action="store_const", const=DATA, help="only the data, one a line"
    )
    options.add_hex(parser, "show the data as hex digits, even if it is text")
    parser.add_argument("--peers", action="store_true", help="show which process sent it: id and program")
    parser.add_argument(
        "--log", metavar="FILE", help="append them to a file too, as lines with seconds since 1970"
    )
    parser.add_argument("--max-messages", type=options.queue_length, metavar="N", help="length of the queue")
    parser.add_argument(
        "--only-once", action="store_true", help="show a message that several names match once"
    )
    parser.add_argument(
        "--observer",
        action="store_true",
        help="miss what the queue has no room for, also if it was sent all-or-wait or all-or-fail",
    )
    add_filters(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    if args.json and args.format is not None:
        raise Failure.usage("--json can't be given with --format or --data")
    chosen = given_filter(args)
    with ExitStack() as stack:
        signals = stack.enter_context(EndSignals())
        log = stack.enter_context(_open_log(args.log)) if args.log else None
        ksock = stack.enter_context(open_ksock(args.device, "r"))
        if args.max_messages:
            ksock.set_max_messages(args.max_messages)
        ksock.want_messages_once(args.only_once)
        ksock.report_lost_messages(True)
        incoming = Incoming(ksock)
        for name in args.names:
            bind(ksock, name, observer=args.observer)
        peers = Peers(ksock) if args.peers or chosen.wants_peers else None
        screen = _Screen(args, log)
        lost = 0
        passed_over = 0
        try:
            for message, time_ns in _messages(incoming, signals, args.timeout):
                peer = peers.of(message.from_) if peers else None
                if not chosen.passes(message, peer):
                    passed_over += 1
                    continue
                screen.show(message, time_ns, peer if args.peers else None)
                if screen.count == args.count:
                    break
        finally:
            with suppress(OSError):
                # If that fails, so has what ends this, and says why.
                lost = ksock.lost_messages()
            if lost:
                say("listen", f"{lost} messages were lost in total; --max-messages makes the queue longer")
            if chosen != Filter():
                say("listen", f"{screen.count} shown, {passed_over} passed over")


class _Screen:
    """Shows messages in the form that the options say, and writes them to the log if there is one."""

    def __init__(self, args: argparse.Namespace, log: Optional[FileIO]) -> None:
        self._args = args
        self._log = log
        self._clock = TimeStyle(args.clock or "abs")
        self._log_clock = TimeStyle("abs")
        self._has_colours = colours_are_wanted()
        self.count = 0

    def show(self, message: Message, time_ns: int, peer: Optional[Opener]) -> None:
        """Show a message that was sent at this time, in ns since 1970."""
        device, always_hex = self._args.device, self._args.hex
        if self._args.json:
            record = as_json(message, device, time_ns, always_hex)
            if self._args.peers:
                record.update(pid=peer.pid if peer else None, command=peer.command if peer else None)
            put_json(record)
        elif self._args.format is not None:
            put_line(filled(self._args.format, message, self._clock.text(time_ns), always_hex))
        else:
            line = as_line(message, device, self._clock.text(time_ns), always_hex, peer)
            put_line(line, colour_of(message) if self._has_colours else "")
        if self._log:
            line = as_line(message, device, self._log_clock.text(time_ns), always_hex, peer)
            _append(self._log, line)
        self.count += 1


def _open_log(path: str) -> FileIO:
    try:
        return FileIO(path, "a")
    except OSError as error:
        raise Failure(f"can't write to {path}: {error.strerror}") from error


def _append(log: FileIO, line: str) -> None:
    """Write the line at once, so that the log has all that was shown."""
    rest = line.encode() + b"\n"
    try:
        while rest:
            rest = rest[log.write(rest) or 0 :]
    except OSError as error:
        raise Failure(f"can't write to {log.name}: {error.strerror}") from error


def _messages(
    incoming: Incoming, signals: EndSignals, timeout: Optional[float]
) -> Iterator[tuple[Message, int]]:
    """What is to be shown, up to what had arrived when a signal came; losses are reported on the way."""
    ksock = incoming.ksock
    for message, time_ns in itertools.chain(
        until_ended(ksock.fileno(), signals, timeout, incoming.take), incoming.queued()
    ):
        # A reply may have any name, that one too.
        if message.is_synthetic() and message.name == abi.NAME_MESSAGES_LOST:
            (count,) = abi.U32.unpack(message.data or b"")
            say("listen", f"{count} messages were lost: the queue of {ksock.max_messages()} was full")
        else:
            yield message, time_ns
