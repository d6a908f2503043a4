# SPDX-License-Identifier: MIT
"""``kbus play``: send recorded messages again."""

from __future__ import annotations

import argparse
import errno
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from .. import Ksock, Message, names
from .. import _abi as abi
from ..capture import CaptureError, Damage, Reader, Record
from ..capture.part import PART, is_being_written
from ..capture.player import Casting, timed
from ..capture.sections import NO_CAPTURE
from ..capture.series import by_any_name
from ..terminal import options
from ..terminal.failures import Failure
from ..terminal.ksocks import open_ksock, send_kept
from ..terminal.output import say
from ..terminal.signals import EndSignals
from .info import captures_in, check_gone, not_a_capture


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "play",
        help="send recorded messages again",
        description="Send the messages of captures again, at the times at which they were recorded, each to"
        " the device of the same number. What KBUS itself had sent is left out, and so are repliers' errors,"
        " which have one of its names. Several captures are played"
        " one after the other. The exit status is 1 if a message could not be sent.",
    )
    options.add_captures(parser)
    parser.add_argument(
        "--rate",
        type=options.seconds,
        default=1.0,
        metavar="X",
        help="X times as fast (default: 1); 0 is without waiting",
    )
    parser.add_argument(
        "--start", type=options.seconds, default=0.0, metavar="S", help="leave out the first S seconds"
    )
    parser.add_argument("--loop", action="store_true", help="begin again at the end, until SIGINT or SIGTERM")
    parser.add_argument(
        "--map",
        dest="maps",
        action="append",
        type=_mapping,
        default=[],
        metavar="FROM=TO",
        help="for $.A=$.B, let names begin with $.B in place of $.A; for 0=1, use /dev/kbus1 in place of"
        " /dev/kbus0",
    )
    parser.add_argument(
        "--requests",
        action="store_true",
        help="send requests as requests, and no replies (default: announce both)",
    )
    parser.add_argument("--tolerant", action="store_true", help="play what is undamaged of a damaged capture")
    parser.set_defaults(run=run)


def _mapping(text: str) -> tuple[str, str]:
    begin, equals, other = text.partition("=")
    if equals and begin.isascii() and begin.isdigit() and other.isascii() and other.isdigit():
        return begin, other
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not FROM=TO")
    for name in (begin, other):
        try:
            names.check(name)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
        if names.is_wildcard(name):
            raise argparse.ArgumentTypeError(f"{text!r}: the beginning of a name is no wildcard")
    return begin, other


def run(args: argparse.Namespace) -> None:
    """Do it."""
    if args.loop and options.STDIN in args.paths:
        raise Failure.usage("stdin can be read once, and --loop begins again")
    player = _Player(args)
    with EndSignals() as signals, ExitStack() as player.stack:
        paths = captures_in(args.paths)
        while not signals.came:
            before = player.seen
            player.play(_records(paths, args), signals)
            if not args.loop:
                break
            if player.seen == before and not signals.came:
                raise Failure("there is nothing to play")
    player.tell()


def _records(paths: list[Path], args: argparse.Namespace) -> Iterator[Record]:
    named = set(args.paths)
    for path in paths:
        if path.name.endswith(PART) and _is_being_recorded(path):
            # It would grow by what is played from it, for ever.
            say("play", f"{path} is being recorded: it is left out")
            continue
        try:
            read = partial(Reader, strict=not args.tolerant)
            with read(path) if path in named else by_any_name(path, read) as reader:
                yield from reader
        except OSError as error:
            check_gone("play", path, args.paths, error)
            continue
        except CaptureError as error:
            if why := _why_no_capture(path, reader.damage):
                raise Failure(why) from error
            raise Failure(f"{error}; --tolerant plays what is undamaged") from error
        for damage in reader.damage:
            say("play", f"{path}: {damage.length} bytes from {damage.offset} are left out: {damage.reason}")
        if reader.more_damage:
            say("play", f"{path}: and {reader.more_damage} more places")


def _is_being_recorded(path: Path) -> bool:
    try:
        return is_being_written(path)
    except OSError:
        return False


def _why_no_capture(path: Path, damage: Sequence[Damage]) -> str:
    """Why there is nothing of a capture in a file; empty if there is, or it can be read only once."""
    if damage[0].reason in NO_CAPTURE:
        return not_a_capture(path, damage)
    if path.is_file():
        with suppress(OSError), Reader(path, strict=False) as reader:
            if next(reader.blocks(), None) is None:
                return not_a_capture(path, reader.damage)
    return ""


class _Player:
    """Sends messages, and counts what becomes of them."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.stack = ExitStack()
        self.seen = 0
        self._rate: float = args.rate
        self._start: float = args.start
        self._requests: bool = args.requests
        self._buses = {int(begin): int(other) for begin, other in args.maps if begin.isdigit()}
        self._casting = Casting(
            args.requests, {begin: other for begin, other in args.maps if not begin.isdigit()}
        )
        self._ksocks: dict[int, Ksock] = {}
        self._sent = 0
        self._left_out = 0
        self._failed: Counter[tuple[int, str]] = Counter()

    def play(self, records: Iterator[Record], signals: EndSignals) -> None:
        """Send these, each at its time."""
        due = itertools.dropwhile(lambda each: each[0] < self._start, timed(records))
        began = time.monotonic()
        for seconds, record in due:
            if self._rate:
                signals.wait_until(began + (seconds - self._start) / self._rate)
            if signals.came:
                return
            self.seen += 1
            self._send(record, signals)

    def _send(self, record: Record, signals: EndSignals) -> None:
        message = self._casting.cast(record.message)
        bus = record.facts.bus
        if message is None or bus is None:
            self._left_out += 1
            return
        ksock = self._ksock(self._buses.get(bus, bus))
        try:
            self._sent += _post(ksock, message, signals)
        except OSError as error:
            self._failed[error.errno or 0, error.strerror or ""] += 1
        if self._requests:
            # Answers must not fill the queue.
            for _ in ksock:
                pass

    def _ksock(self, bus: int) -> Ksock:
        if bus not in self._ksocks:
            ksock = self.stack.enter_context(open_ksock(bus, nonblocking=True))
            # It stands for all senders, and each open Request needs a place for its answer.
            ksock.set_max_messages(abi.U32_MAX)
            self._ksocks[bus] = ksock
        return self._ksocks[bus]

    def tell(self) -> None:
        """Say what was sent; a Failure if something could not be."""
        say("play", f"{self._sent} messages sent, {self._left_out} left out")
        if self._failed:
            causes = ", ".join(
                f"{count} {errno.errorcode.get(number, number)} ({why})"
                for (number, why), count in self._failed.most_common()
            )
            raise Failure(f"{sum(self._failed.values())} messages could not be sent: {causes}")


def _post(ksock: Ksock, message: Message, signals: EndSignals) -> bool:
    """Send it, also if that means to wait for room; False if a signal came first. Raises OSError."""
    try:
        ksock.send_msg(message)
    except BlockingIOError:
        return send_kept(ksock, signals, None) is not None
    return True
