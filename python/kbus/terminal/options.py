# SPDX-License-Identifier: MIT
"""Options that several subcommands have, so that they look and mean the same in all of them."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Any, NoReturn, Optional

from .. import names
from .failures import Failure
from .output import StdoutFailed, flush, printable, put, show, stdout_failed
from .times import CLOCKS

__all__ = [
    "NAME_HELP",
    "STDIN",
    "Parser",
    "Subparsers",
    "add_captures",
    "add_clock",
    "add_count",
    "add_data",
    "add_device",
    "add_device_filter",
    "add_hex",
    "add_interval",
    "add_json",
    "add_timeout",
    "capture",
    "default_device",
    "interval",
    "name_to_bind",
    "name_to_send",
    "natural",
    "parse",
    "positive",
    "queue_length",
    "rate",
    "seconds",
    "size",
    "span",
]

NAME_HELP = "a message name; its last word may be * (one or more words) or %% (exactly one)"

#: What ``-`` means among captures
STDIN = Path("/dev/stdin")

_LONGEST_QUEUE = 0xFFFFFFFF

#: what argparse's add_subparsers() returns; it is generic only for type checkers
Subparsers = Any


class Parser(argparse.ArgumentParser):
    """A parser whose errors are printable; those of its subcommands are too."""

    def error(self, message: str) -> NoReturn:
        """Say it, and exit with status 2."""
        super().error(printable(message))

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write help, version and usage as all else is written; exit if that fails on stdout."""
        if file is not sys.stdout:
            show(message)
            return
        try:
            put(message.encode())
            flush()
        except StdoutFailed as failure:
            sys.exit(stdout_failed(self.prog, failure))


def parse(parser: argparse.ArgumentParser, subparsers: Subparsers, words: list[str]) -> argparse.Namespace:
    """Parse a command line, whose options may stand between the subcommand's arguments.

    A plain parse_args() does not allow that. Raises SystemExit as it does.
    """
    if words and words[0] in subparsers.choices:
        chosen: argparse.ArgumentParser = subparsers.choices[words[0]]
        return chosen.parse_intermixed_args(words[1:], argparse.Namespace(subcommand=words[0]))
    return parser.parse_args(words)


def add_device(parser: argparse.ArgumentParser) -> None:
    """``-d N``, the device to open; the environment may have another default than 0."""
    parser.add_argument(
        "-d",
        "--device",
        type=_device,
        # Of a text, argparse makes a number as it does of what is given, and only if nothing is.
        default=_Default(),
        metavar="N",
        help="/dev/kbusN (default: KBUS_DEVICE, or 0)",
    )


def default_device() -> int:
    """The device that KBUS_DEVICE says, or 0. Raises a Failure if it says no number."""
    try:
        return _device(_Default())
    except argparse.ArgumentTypeError as error:
        raise Failure.usage(str(error)) from None


class _Default(str):
    """The number of the device to open if none is given, as text."""

    def __new__(cls) -> _Default:
        return super().__new__(cls, os.environ.get("KBUS_DEVICE") or "0")


def _device(text: str) -> int:
    """The number of a device, for argparse."""
    try:
        return natural(text)
    except argparse.ArgumentTypeError as error:
        if not isinstance(text, _Default):
            raise
        raise argparse.ArgumentTypeError(f"KBUS_DEVICE: {error}") from None


def add_device_filter(parser: argparse.ArgumentParser) -> None:
    """``-d N``, the only device to show."""
    parser.add_argument("-d", "--device", type=natural, metavar="N", help="only /dev/kbusN (default: all)")


def add_captures(parser: argparse.ArgumentParser) -> None:
    """``PATH...``, as ``paths``."""
    parser.add_argument(
        "paths",
        nargs="+",
        type=capture,
        metavar="PATH",
        help="a capture, or a directory with captures; - is stdin",
    )


def capture(text: str) -> Path:
    """A capture, or a directory with captures; ``-`` is ``STDIN``."""
    return STDIN if text == "-" else Path(text)


def add_json(parser: argparse._ActionsContainer) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def add_clock(parser: argparse._ActionsContainer) -> None:
    """``-t WAY``, how lines show the time; None if it is not given."""
    parser.add_argument(
        "-t",
        dest="clock",
        choices=CLOCKS,
        help="how lines show the time: seconds since 1970, since the line before, since the first line,"
        " or date and time (default: abs)",
    )


def add_hex(parser: argparse.ArgumentParser, what: str) -> None:
    """``--hex``; ``what`` says which data that concerns."""
    parser.add_argument("--hex", action="store_true", help=what)


def add_interval(parser: argparse._ActionsContainer, what: str) -> None:
    """``--interval S``; ``what`` it sets. None if it is not given."""
    parser.add_argument("--interval", type=interval, metavar="S", help=f"{what}, in seconds")


def add_count(parser: argparse._ActionsContainer, what: str) -> None:
    """``-n COUNT``; ``what`` is counted."""
    parser.add_argument("-n", "--count", type=positive, metavar="COUNT", help=f"end after COUNT {what}")


def add_timeout(parser: argparse.ArgumentParser, what: str, default: Optional[float] = None) -> None:
    """``--timeout S``; ``what`` it limits, and what S is if it is not given. Then it can be ``inf``, too."""
    parser.add_argument(
        "--timeout",
        type=seconds if default is None else seconds_or_never,
        default=default,
        metavar="S",
        help=f"give up with exit status 124 {what} for S seconds"
        + ("" if default is None else f" (default: {default:g}; inf: never)"),
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """What a message carries: an argument, a file or stdin."""
    parser.add_argument(
        "data", nargs="?", metavar="DATA", help="the data (default: none); - for all of stdin"
    )
    parser.add_argument("--file", metavar="PATH", help="take the data from this file")


def name_to_bind(text: str) -> str:
    """A message name or a wildcard, for argparse."""
    try:
        names.check(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def name_to_send(text: str) -> str:
    """The name of a message, for argparse."""
    if names.is_wildcard(name_to_bind(text)):
        raise argparse.ArgumentTypeError(f"a message can't be sent to the wildcard {text!r}")
    return text


def natural(text: str) -> int:
    """A number from 0, for argparse."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)


def positive(text: str) -> int:
    """A number from 1, for argparse."""
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def queue_length(text: str) -> int:
    """A number of messages for MAXMSGS, which has 32 bits, for argparse."""
    value = positive(text)
    if value > _LONGEST_QUEUE:
        raise argparse.ArgumentTypeError(f"{text!r} is more than {_LONGEST_QUEUE}")
    return value


def size(text: str) -> int:
    """A number of bytes from 1, for argparse: ``K``, ``M`` and ``G`` mean 1024 of what is before them."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number, unit = (text[:-1], units[text[-1].upper()]) if text[-1:].upper() in units else (text, 1)
    if not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 65536, 64K, 10M or 1G")
    return int(number) * unit


def interval(text: str) -> float:
    """A time between looks, for argparse: a number of seconds from 0.05, and not over an hour."""
    value = seconds(text)
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.05 to 3600")
    return value


def span(text: str) -> float:
    """How long something takes, for argparse: a number of seconds from 0.05, and not over a minute."""
    value = seconds(text)
    if not 0.05 <= value <= 60:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.05 to 60")
    return value


def rate(text: str) -> float:
    """How often in a second, for argparse: a number from 0.001 to 1000000."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.001 <= value <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0.001 to 1000000")
    return value


def seconds_or_never(text: str) -> float:
    """A time, or ``inf``, for argparse."""
    return math.inf if text == "inf" else seconds(text)


def seconds(text: str) -> float:
    """A time, for argparse: a finite number of seconds from 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0")
    return value
