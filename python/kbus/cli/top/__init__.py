# SPDX-License-Identifier: MIT
"""``kbus top``: see on the whole screen what the bus is doing."""

from __future__ import annotations

import argparse
import select
import sys
import time
from typing import TYPE_CHECKING

from ... import Ksock
from ... import _abi as abi
from ...terminal import options
from ...terminal.failures import Failure
from ...terminal.ksocks import bind, open_ksock
from ...terminal.signals import EndSignals
from .counting import Counting
from .page import Page

if TYPE_CHECKING:
    from .screen import Screen

#: seconds
DEFAULT_INTERVAL = 1.0


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "top",
        help="see on the whole screen what the bus is doing",
        description="Show names by messages a second, bytes and latency, KSocks by queue and losses, and"
        " requests that wait for their answers. It observes: no sender waits for it. Press h for the keys, q"
        " to quit.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        type=options.name_to_bind,
        metavar="NAME",
        help=f"what to count; {options.NAME_HELP}; default: $.*",
    )
    options.add_device(parser)
    options.add_interval(parser, f"how long rates are counted (default: {DEFAULT_INTERVAL:g})")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure("this needs a terminal; `kbus stats` and `kbus listen` do not")
    try:
        from .screen import Screen
    except ImportError as error:
        raise Failure(f"this Python can't use the whole screen: {error}") from error
    with EndSignals() as signals, open_ksock(args.device, "r") as ksock:
        # The longest that the administrator allows.
        ksock.set_max_messages(abi.U32_MAX)
        ksock.want_messages_once(True)
        for name in args.names or ["$.*"]:
            bind(ksock, name, observer=True)
        with Screen() as screen:
            _until_quit(ksock, signals, screen, args.interval or DEFAULT_INTERVAL)


def _until_quit(ksock: Ksock, signals: EndSignals, screen: Screen, interval: float) -> None:
    counting, page = Counting(ksock), Page()
    poll = select.poll()
    for fd in (ksock.fileno(), signals.fileno(), *screen.filenos()):
        poll.register(fd, select.POLLIN)
    due = time.monotonic()
    while not signals.came:
        if time.monotonic() >= due:
            page.update(counting.look())
            due = time.monotonic() + interval
            screen.draw(page.lines(*screen.size()))
        ready = {fd for fd, _ in poll.poll(max(0.0, due - time.monotonic()) * 1000)}
        if ksock.fileno() in ready:
            counting.read()
        if ready.intersection(screen.filenos()):
            screen.fit()
            while (key := screen.key()) is not None:
                if not page.press(key):
                    return
            if page.wants_clear:
                counting.clear()
                page.wants_clear = False
                page.update(counting.look())
            screen.draw(page.lines(*screen.size()))
