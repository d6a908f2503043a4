# SPDX-License-Identifier: MIT
"""``kbus bindings``: show which KSocks are bound to which names."""

from __future__ import annotations

import argparse
import dataclasses
import select
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import ClassVar

from .. import inspect
from .._processes import command_of
from ..inspect import Binding
from ..terminal import options
from ..terminal.failures import Failure, no_device, proc_failure
from ..terminal.output import StdoutClosed, flush, json_text, put_json, put_line, put_table
from ..terminal.signals import EndSignals
from ..terminal.times import TimeStyle
from .tree import tree

#: seconds between two looks
DEFAULT_INTERVAL = 0.5


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "bindings",
        help="show which KSocks are bound to which names",
        description="Show all bindings, the newest first.",
    )
    options.add_device_filter(parser)
    form = parser.add_mutually_exclusive_group()
    options.add_json(form)
    form.add_argument("--tree", action="store_true", help="show the names as a tree")
    watching = parser.add_argument_group("watching")
    watching.add_argument(
        "--watch",
        action="store_true",
        help="show what there is, the oldest first, and then what comes (+) and goes (-), until SIGINT or"
        " SIGTERM; what is bound for less than the interval is not seen",
    )
    options.add_clock(watching)
    options.add_interval(watching, f"how long between looks (default: {DEFAULT_INTERVAL})")
    options.add_count(watching, "changes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    if args.watch:
        if args.tree:
            raise Failure.usage("--tree shows all at once, and --watch what changes")
        if args.json and args.clock:
            raise Failure.usage("--json always has the nanoseconds since 1970, and no -t")
        with EndSignals() as signals:
            _watch(args, signals)
        return
    if args.clock or args.count or args.interval:
        raise Failure.usage("-t, -n and --interval need --watch")
    found = _look(args)
    if args.json:
        for each in found:
            put_json(dataclasses.asdict(each))
    elif args.tree:
        for line in tree(found, command_of):
            put_line(line)
    else:
        put_table(
            ("DEVICE", "KSOCK", "PID", "COMMAND", "AS", "NAME"),
            [
                (f"kbus{each.device}", each.ksock_id, each.pid, command_of(each.pid), _kind(each), each.name)
                for each in found
            ],
        )


def _look(args: argparse.Namespace) -> list[Binding]:
    try:
        found = inspect.bindings(args.device)
        if not found and args.device is not None and args.device not in inspect.devices():
            raise no_device(args.device)
    except OSError as error:
        raise proc_failure(error) from error
    return found


def _kind(binding: Binding) -> str:
    return "replier" if binding.is_replier else "listener"


def _watch(args: argparse.Namespace, signals: EndSignals) -> None:
    screen = _BindingsScreen(args)
    before = _look(args)
    for each in reversed(before):
        screen.show("=", each)
    left = args.count
    for after in _looks(args, signals):
        gone, come = changes(before, after)
        screen.forget_all_but(before + after)
        before = after
        changed = [("-", each) for each in gone] + [("+", each) for each in come]
        for sign, each in changed[:left]:
            screen.show(sign, each)
        if left is not None:
            left -= min(left, len(changed))
            if not left:
                return


def _looks(args: argparse.Namespace, signals: EndSignals) -> Iterator[list[Binding]]:
    """What there is, each time that the interval is over, until one of the signals comes."""
    poll = select.poll()
    poll.register(signals.fileno(), select.POLLIN)
    # Asked for no event, poll still reports that the other end of a pipe has been closed.
    poll.register(sys.stdout.fileno(), 0)
    while True:
        flush()
        ready = dict(poll.poll((args.interval or DEFAULT_INTERVAL) * 1000))
        if signals.came:
            return
        if sys.stdout.fileno() in ready:
            raise StdoutClosed
        yield _look(args)


class _BindingsScreen:
    """Shows bindings and what became of them: ``=`` was there, ``+`` has come, ``-`` has gone."""

    _EVENTS: ClassVar = {"=": "there", "+": "bound", "-": "unbound"}

    def __init__(self, args: argparse.Namespace) -> None:
        self._as_json = args.json
        self._clock = TimeStyle(args.clock or "abs")
        # The process may be gone when the binding is.
        self._commands: dict[tuple[int, int], str] = {}

    def forget_all_but(self, bindings: Iterable[Binding]) -> None:
        """Forget what is known of other KSocks."""
        ksocks = {(each.device, each.ksock_id) for each in bindings}
        self._commands = {ksock: self._commands[ksock] for ksock in ksocks & self._commands.keys()}

    def show(self, sign: str, binding: Binding) -> None:
        """Show that this has been seen now."""
        now = time.time_ns()
        ksock = binding.device, binding.ksock_id
        if sign == "-":
            command = self._commands[ksock]
        else:
            command = self._commands[ksock] = command_of(binding.pid)
        if self._as_json:
            event = {"time_ns": now, "event": self._EVENTS[sign]}
            put_json({**event, **dataclasses.asdict(binding), "command": command})
        else:
            put_line(
                f"({self._clock.text(now)}) {sign} kbus{binding.device} {_kind(binding)} {binding.ksock_id}"
                f" by {binding.pid} {json_text(command)} {binding.name}"
            )


def changes(before: Iterable[Binding], after: Iterable[Binding]) -> tuple[list[Binding], list[Binding]]:
    """The bindings that have gone and those that have come, each as often as that.

    Both are given with the newest first, as ``/proc/kbus/bindings`` has them; the oldest come first here.
    """
    before, after = list(before)[::-1], list(after)[::-1]
    return _without(before, after), _without(after, before)


def _without(these: list[Binding], others: list[Binding]) -> list[Binding]:
    there = Counter(others)
    left = []
    for each in these:
        if there[each]:
            there[each] -= 1
        else:
            left.append(each)
    return left
