# SPDX-License-Identifier: MIT
"""``kbus send``: send an announcement."""

from __future__ import annotations

import argparse
import select
import time
from typing import Optional

from .. import Announcement, Ksock, Message, MessageId
from . import options
from .data import HEX_HELP, given_data
from .failures import Failure, send_failure
from .ksocks import open_ksock
from .output import put_json, put_line


def add(subparsers: options.Subparsers) -> None:
    """Tell argparse of this subcommand."""
    parser = subparsers.add_parser(
        "send",
        help="send an announcement to those who listen to its name",
        description="Send an announcement and print its id. A listener whose queue is full misses it.",
    )
    parser.add_argument("name", type=options.name_to_send, metavar="NAME", help="the message's name")
    options.add_data(parser)
    options.add_device(parser)
    options.add_hex(parser, HEX_HELP)
    parser.add_argument("--urgent", action="store_true", help="to the front of the listeners' queues")
    room = parser.add_mutually_exclusive_group()
    room.add_argument("--all-or-wait", action="store_true", help="wait until all who listen have room")
    room.add_argument("--all-or-fail", action="store_true", help="fail if one who listens has no room")
    options.add_timeout(parser, "if, with --all-or-wait, there is no room")
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    if args.timeout is not None and not args.all_or_wait:
        raise Failure.usage("--timeout needs --all-or-wait: nothing else waits")
    flags = (
        (Message.URGENT if args.urgent else 0)
        | (Message.ALL_OR_WAIT if args.all_or_wait else 0)
        | (Message.ALL_OR_FAIL if args.all_or_fail else 0)
    )
    message = Announcement(args.name, given_data(args), flags=flags)
    with open_ksock(args.device, nonblocking=args.timeout is not None) as ksock:
        try:
            message_id = _send(ksock, message, args.timeout)
        except OSError as error:
            raise send_failure(error, ksock, args.name, args.all_or_wait) from error
    if args.json:
        put_json({"device": args.device, "id": [message_id.network_id, message_id.serial_num]})
    else:
        put_line(str(message_id))


def _send(ksock: Ksock, message: Message, timeout: Optional[float]) -> MessageId:
    """Send, and if that has to wait, wait no longer than ``timeout`` seconds."""
    if timeout is None:
        return ksock.send_msg(message)
    deadline = time.monotonic() + timeout
    poll = select.poll()
    poll.register(ksock.fileno(), select.POLLOUT)
    try:
        return ksock.send_msg(message)
    except BlockingIOError:
        while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            try:
                return ksock.send()
            except BlockingIOError:
                continue
        raise Failure.timed_out(f"not everybody had room within {timeout:g} s; nobody got it") from None
