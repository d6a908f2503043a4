# SPDX-License-Identifier: MIT
"""The command ``kbus-sbusd``: its options, and a daemon from its start to its end."""

from __future__ import annotations

import argparse
import gc
import os
import re
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import fields
from functools import partial
from typing import Optional, TypeVar

from ..terminal import options
from ..terminal.failures import Failure, open_failure
from ..terminal.monitoring import notify
from ..terminal.output import tell
from ..terminal.streams import close_stdout, replace_closed_streams
from . import address, listening, log, packets
from .access import RulesFile, id_of
from .address import Address
from .bridge import Bridge
from .bus import BridgeKsock
from .keymap import KeyMap
from .limits import LONGEST_PACKET, BridgeLimits
from .listening import Listening
from .process import DEFAULT_PIDFILE, Background, PidFile, raise_descriptor_limit
from .secret import split
from .server import Server, Signals
from .telling import FORMS, tell_stats

_T = TypeVar("_T")
#: What the options --max-... limit, in the order of the help.
_LIMITS = {
    "packet": "bytes of a packet from a client, or to one",
    "queued": "packets in a client's queue",
    "queued_bytes": "bytes in a client's queue",
    "queued_bytes_in_all": "bytes in all queues",
    "wildcards": "segments of a user's patterns with *; one with * beside other bytes is 128 of them",
    "user_clients": "clients of one user",
    "user_subscription_bytes": "bytes of memory for the subscriptions of a user",
    "user_queued_bytes": "bytes in the queues of a user",
}
_EPILOG = "Exit status: 0 done, 1 failed, 2 wrong command line."


def main(argv: Optional[list[str]] = None) -> int:
    """Run ``kbus-sbusd`` with these arguments, or those of the process, and return its exit status."""
    replace_closed_streams()
    try:
        args = parser().parse_args(argv)
    except SystemExit as wanted:
        return int(wanted.code or 0)
    if args.stats:
        return tell_stats(args.address, args.stats)
    try:
        with ExitStack() as stack:
            _serve(args, stack)
    except Failure as failure:
        tell("kbus-sbusd", str(failure))
        return 1
    return 0


def _serve(args: argparse.Namespace, stack: ExitStack) -> None:
    raise_descriptor_limit()
    protocol = packets.PROTOCOLS[args.protocol]
    rules = None if args.access is None else RulesFile(args.access, protocol)
    passed = listening.passed() if args.address is None else None
    background = None if args.foreground else Background()
    # Before there is anything that a signal would leave behind.
    signals = stack.enter_context(closing(Signals()))
    pidfile = args.pidfile or (os.devnull if args.foreground else DEFAULT_PIDFILE)
    if pidfile != os.devnull:
        stack.enter_context(closing(PidFile(pidfile)))
    bus = stack.enter_context(closing(_bus(args.device)))
    place = args.address or passed or Address(path=address.DEFAULT)
    mode = 0o700 | args.group_bits | args.others_bits if args.mode is None else args.mode
    at = stack.enter_context(closing(Listening(place, mode, args.group, args.replace)))
    limits = BridgeLimits(**{each.name: getattr(args, f"max_{each.name}") for each in fields(BridgeLimits)})
    bridge = Bridge(bus, protocol, args.root, limits, args.credential_prefix, rules)
    users = {os.geteuid(), *args.user} if args.user else None
    try:
        server = Server(bridge, bus, at, signals, users, args.until_last, args.grace)
    except OSError as error:
        raise Failure(f"cannot begin: {error.strerror}") from error
    stack.enter_context(closing(server))
    if place == Address():
        print(at.address)
    # That is what a script waits for.
    close_stdout()
    if background is not None:
        log.go_to_background()
        background.ready()
    # Nothing below makes cycles, and with 100,000 subscriptions to look through clients would wait for it.
    gc.disable()
    _tell_systemd("READY=1")
    server.run()
    _tell_systemd("STOPPING=1")


def _tell_systemd(state: str) -> None:
    try:
        notify(state)
    except OSError as error:
        log.say(f"cannot report {state} to systemd: {error.strerror}")


def _bus(device: int) -> BridgeKsock:
    try:
        return BridgeKsock(device)
    except OSError as error:
        raise open_failure(error) from error


def parser() -> argparse.ArgumentParser:
    """Return what understands the command line."""
    parser = options.Parser(
        prog="kbus-sbusd",
        description="Let programs that know only the sbus protocol use a KBUS device.",
        epilog=_EPILOG,
    )
    limits = BridgeLimits()
    at = parser.add_argument_group("where clients connect")
    at.add_argument(
        "-a",
        "--address",
        type=_checked(address.parse),
        metavar="ADDRESS",
        help=f"a path (default: the socket that systemd has passed, or {address.DEFAULT}),"
        " /dev/unix/abstract/HEX, /dev/unix/abstract (made up, and printed) or /dev/fd/N (inherited)",
    )
    at.add_argument(
        "-r", "--replace", action="store_true", help="replace what is at the path, if nothing listens there"
    )
    bits = partial(at.add_argument, action="store_const", default=0)
    bits("-g", dest="group_bits", const=0o070, help="let the socket's group connect")
    bits("-o", dest="others_bits", const=0o007, help="let everybody connect")
    at.add_argument(
        "--mode", type=_checked(_mode), metavar="OCTAL", help="mode of the socket (default: 0700, -g and -o)"
    )
    at.add_argument(
        "--group",
        type=_checked(partial(id_of, "group")),
        metavar="GROUP",
        help="group of the socket, name or id",
    )
    at.add_argument(
        "-u",
        "--user",
        type=_checked(partial(id_of, "user")),
        action="append",
        default=[],
        metavar="USER",
        help="name or uid of a user that may connect, beside the daemon's own; repeatable (default: all that"
        " the mode lets)",
    )
    bus = parser.add_argument_group("what they use")
    bus.add_argument(
        "-d", "--device", type=options.natural, default=0, metavar="N", help="/dev/kbusN (default: 0)"
    )
    bus.add_argument(
        "--root",
        type=_checked(_root),
        default="$",
        metavar="NAME",
        help="the name that keys are below (default: $)",
    )
    bus.add_argument(
        "--protocol", choices=sorted(packets.PROTOCOLS), default="slash", help=packets.PROTOCOL_HELP
    )
    bus.add_argument(
        "--credential-prefix",
        type=_checked(_server),
        default=b"",
        metavar="KEY",
        help="what servers in between put before credentials, such as !/cred/100/1000/1111",
    )
    bus.add_argument(
        "--access",
        metavar="FILE",
        help="rules for who may publish and subscribe where, read anew at SIGHUP (default: everybody may)",
    )
    running = parser.add_argument_group("how it runs")
    running.add_argument("-f", "--foreground", action="store_true", help="stay in the foreground")
    running.add_argument(
        "-p",
        "--pidfile",
        metavar="PATH",
        help=f"where the process id is written, /dev/null for nowhere (default: {DEFAULT_PIDFILE}, with -f"
        " nowhere)",
    )
    running.add_argument("-c", "--until-last", action="store_true", help="end when the last client has left")
    running.add_argument(
        "--grace",
        type=options.seconds,
        default=1.0,
        metavar="S",
        help="how long to deliver in the end (default: 1)",
    )
    running.add_argument(
        "--stats",
        nargs="?",
        const=FORMS[0],
        choices=FORMS,
        help="print the statistics of the daemon at ADDRESS: a JSON object a line, or metrics for Prometheus",
    )
    most = parser.add_argument_group("limits")
    for name, meaning in _LIMITS.items():
        default = getattr(limits, name)
        most.add_argument(
            f"--max-{name.replace('_', '-')}",
            type=_packet if name == "packet" else options.positive,
            default=default,
            metavar="N",
            help=f"{meaning} (default: {'as many as it leaves to others' if default is None else default})",
        )
    return parser


def _packet(text: str) -> int:
    length = options.positive(text)
    if length > LONGEST_PACKET:
        raise argparse.ArgumentTypeError(f"{text} is more than {LONGEST_PACKET}")
    return length


def _checked(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """What argparse may call in place of a function that says why in a ValueError."""

    def convert(text: str) -> _T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _root(text: str) -> str:
    KeyMap(packets.SLASH, text)
    return text


def _server(text: str) -> bytes:
    key = os.fsencode(text)
    split(key + b"/")
    return key


def _mode(text: str) -> int:
    if re.fullmatch("0?[0-7]{1,3}", text):
        return int(text, 8)
    raise ValueError(f"{text!r} is not a mode such as 0770")
