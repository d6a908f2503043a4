# SPDX-License-Identifier: MIT
"""Options that several subcommands have, so that they look and mean the same in all of them."""

from __future__ import annotations

import argparse
import math
from typing import Any, NoReturn

from .. import names
from .lines import CLOCKS
from .printable import printable

__all__ = [
    "NAME_HELP",
    "Parser",
    "Subparsers",
    "add_clock",
    "add_count",
    "add_data",
    "add_device",
    "add_device_filter",
    "add_hex",
    "add_interval",
    "add_json",
    "add_timeout",
    "interval",
    "name_to_bind",
    "name_to_send",
    "natural",
    "parse",
    "positive",
    "queue_length",
    "seconds",
    "size",
]

NAME_HELP = "a message name; its last word may be * (one or more words) or %% (exactly one)"

_LONGEST_QUEUE = 0xFFFFFFFF

#: what argparse's add_subparsers() returns; it is generic only for type checkers
Subparsers = Any


class Parser(argparse.ArgumentParser):
    """A parser whose errors are printable; those of its subcommands are too."""

    def error(self, message: str) -> NoReturn:
        """Say it, and exit with status 2."""
        super().error(printable(message))


def parse(parser: argparse.ArgumentParser, subparsers: Subparsers, words: list[str]) -> argparse.Namespace:
    """Parse a command line, whose options may stand between the subcommand's arguments.

    A plain parse_args() does not allow that. Raises SystemExit as it does.
    """
    if words and words[0] in subparsers.choices:
        chosen: argparse.ArgumentParser = subparsers.choices[words[0]]
        return chosen.parse_intermixed_args(words[1:], argparse.Namespace(subcommand=words[0]))
    return parser.parse_args(words)


def add_device(parser: argparse.ArgumentParser) -> None:
    """``-d N``, the device to open."""
    parser.add_argument(
        "-d", "--device", type=natural, default=0, metavar="N", help="/dev/kbusN (default: 0)"
    )


def add_device_filter(parser: argparse.ArgumentParser) -> None:
    """``-d N``, the only device to show."""
    parser.add_argument("-d", "--device", type=natural, metavar="N", help="only /dev/kbusN (default: all)")


def add_json(parser: argparse._ActionsContainer) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def add_clock(parser: argparse._ActionsContainer) -> None:
    """``-t WAY``, how lines tell the time; None if it is not given."""
    parser.add_argument(
        "-t",
        dest="clock",
        choices=CLOCKS,
        help="how lines tell the time: seconds since 1970, since the line before, since the first line,"
        " or date and time (default: abs)",
    )


def add_hex(parser: argparse.ArgumentParser, what: str) -> None:
    """``--hex``; ``what`` tells which data that concerns."""
    parser.add_argument("--hex", action="store_true", help=what)


def add_interval(parser: argparse._ActionsContainer, what: str) -> None:
    """``--interval S``; ``what`` it sets. None if it is not given."""
    parser.add_argument("--interval", type=interval, metavar="S", help=f"{what}, in seconds")


def add_count(parser: argparse._ActionsContainer, what: str) -> None:
    """``-n COUNT``; ``what`` is counted."""
    parser.add_argument("-n", "--count", type=positive, metavar="COUNT", help=f"end after COUNT {what}")


def add_timeout(parser: argparse.ArgumentParser, what: str) -> None:
    """``--timeout S``; ``what`` it limits."""
    parser.add_argument(
        "--timeout", type=seconds, metavar="S", help=f"give up with exit status 124 {what} for S seconds"
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


def seconds(text: str) -> float:
    """A time, for argparse: a finite number of seconds from 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0")
    return value
