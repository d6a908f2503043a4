# SPDX-License-Identifier: MIT
"""``kbus serve``: answer requests with what a command prints."""

from __future__ import annotations

import argparse
import errno
import itertools
import os
import shutil
import subprocess

from .. import Ksock, Message, reply_to
from ..answering import settle
from . import options
from .failures import Failure, send_failure
from .ksocks import EndSignals, bind, open_ksock, until_ended
from .output import say


def add(subparsers: options.Subparsers) -> None:
    """Tell argparse of this subcommand."""
    parser = subparsers.add_parser(
        "serve",
        usage="kbus serve [-h] [-d N] [-n COUNT] [--timeout S] NAME -- COMMAND...",
        help="answer requests with what a command prints",
        description="Be the replier for NAME until SIGINT or SIGTERM. COMMAND is run for one request after"
        " the other, with the request's data as its stdin and KBUS_NAME, KBUS_FROM (KSock id) and KBUS_ID"
        " ([network:serial]) in its environment. Its stdout is the answer. If it fails, what it had printed"
        " is the answer all the same, and stderr tells how it ended.",
    )
    parser.add_argument("name", type=options.name_to_bind, metavar="NAME", help=options.NAME_HELP)
    options.add_device(parser)
    options.add_count(parser, "answers")
    options.add_timeout(parser, "if nothing comes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    if not args.command:
        raise Failure.usage("there is no command: it comes last, after --")
    if shutil.which(args.command[0]) is None:
        raise Failure(f"there is no command {args.command[0]!r}")
    with EndSignals() as signals, open_ksock(args.device) as ksock:
        bind(ksock, args.name, replier=True)
        # A Request whose sender gave it up before it was read is nobody's to answer.
        wanted = filter(Message.wants_us_to_reply, until_ended(ksock, signals, args.timeout))
        for request in itertools.islice(wanted, args.count):
            _answer(ksock, request, _output(request, args.command))


def _output(request: Message, command: list[str]) -> bytes:
    """What the command prints for this request."""
    about = {"KBUS_NAME": request.name, "KBUS_FROM": str(request.from_), "KBUS_ID": str(request.id)}
    try:
        done = subprocess.run(
            command,
            input=request.data or b"",
            stdout=subprocess.PIPE,
            env={**os.environ, **about},
            check=False,
        )
    except OSError as error:
        raise Failure(f"can't run {command[0]!r} for request {request.id}: {error.strerror}") from error
    if done.returncode < 0:
        say("serve", f"request {request.id}: {command[0]} was ended by signal {-done.returncode}")
    elif done.returncode:
        say("serve", f"request {request.id}: {command[0]} ended with status {done.returncode}")
    return done.stdout


def _answer(ksock: Ksock, request: Message, data: bytes) -> None:
    """Send the answer; that it can't be sent, or not whole, is no reason to end."""
    try:
        ksock.send_msg(reply_to(request, data))
    except OSError as error:
        if error.errno == errno.EMSGSIZE:
            say("serve", f"request {request.id}: the answer is too long and left empty ({len(data)} bytes)")
            _answer(ksock, request, b"")
        else:
            _say_why_not(ksock, request, data, error)


def _say_why_not(ksock: Ksock, request: Message, data: bytes, error: OSError) -> None:
    try:
        ended = settle(ksock, reply_to(request, data), error)
    except OSError as failed:
        raise send_failure(failed, ksock, request.name) from failed
    if ended == errno.ENOBUFS:
        say("serve", f"request {request.id}: the requester has no room for the answer ({len(data)} bytes)")
    elif ended:
        say("serve", f"request {request.id}: nobody waits for the answer any more")
