# SPDX-License-Identifier: MIT
"""``kbus serve``: answer requests with what a command prints."""

from __future__ import annotations

import argparse
import errno
import itertools
import os
import shutil
import signal
from typing import Optional

from .. import Ksock, Message, Reply, reply_to
from .._answering import deliver
from .._failed import failed_reply
from ..terminal import options
from ..terminal.failures import Failure, send_failure
from ..terminal.ksocks import bind, open_ksock, until_ended
from ..terminal.output import say
from ..terminal.signals import EndSignals
from .commands import SIGNAL, TIME_LIMIT, TOO_LONG, run_command

#: as a shell has it
_CANNOT_RUN = 126


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "serve",
        usage="kbus serve [-h] [-d N] [-n COUNT] [--timeout S] [--time-limit S] NAME -- COMMAND...",
        help="answer requests with what a command prints",
        description="Be the replier for NAME until SIGINT or SIGTERM. COMMAND is run for one request after"
        " the other, with the request's data as its stdin and KBUS_NAME, KBUS_FROM (KSock id) and KBUS_ID"
        " ([network:serial]) in its environment. Its stdout is the answer. If it ends with a status other"
        " than 0, the answer is an error: its kind is Exit.STATUS or Signal.NUMBER, its text the last line of"
        " stderr.",
    )
    parser.add_argument("name", type=options.name_to_bind, metavar="NAME", help=options.NAME_HELP)
    options.add_device(parser)
    options.add_count(parser, "answers")
    options.add_timeout(parser, "if nothing comes")
    parser.add_argument(
        "--time-limit",
        type=options.seconds,
        metavar="S",
        help="end a COMMAND that takes longer than S seconds: the answer is an error of the kind TimeLimit",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    if not args.command:
        raise Failure.usage("there is no command: it comes last, after --")
    if shutil.which(args.command[0]) is None:
        raise Failure(f"there is no command {args.command[0]!r}")
    # If it is ignored, as the parent may have left it, a command's status is lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with EndSignals() as signals, open_ksock(args.device) as ksock:
        bind(ksock, args.name, replier=True)
        # A Request that was abandoned before it was read needs no answer.
        requests = until_ended(ksock.fileno(), signals, args.timeout, ksock.read_next_msg, writes=False)
        wanted = filter(Message.wants_us_to_reply, requests)
        for request in itertools.islice(wanted, args.count):
            reply = _reply(ksock, request, args.command, signals, args.time_limit)
            _answer(ksock, request, reply)


def _reply(
    ksock: Ksock, request: Message, command: list[str], signals: EndSignals, time_limit: Optional[float]
) -> Reply:
    """What the command prints for this request, or how it failed."""
    about = {"KBUS_NAME": request.name, "KBUS_FROM": str(request.from_), "KBUS_ID": str(request.id)}
    longest = ksock.max_message_size()
    try:
        done = run_command(
            command, {**os.environ, **about}, request.data or b"", longest, signals, time_limit
        )
    except OSError as error:
        return _failed(ksock, request, f"Exit.{_CANNOT_RUN}", f"can't run {command[0]!r}: {error.strerror}")
    if done.ended == SIGNAL:
        return _failed(ksock, request, "Stopped", "`kbus serve` was ended before the command had answered")
    if done.ended == TIME_LIMIT:
        return _failed(ksock, request, "TimeLimit", f"no answer within {time_limit:g} seconds")
    if done.status < 0 and done.ended != TOO_LONG:
        how = f"{command[0]} was ended by signal {-done.status}"
        return _failed(ksock, request, f"Signal.{-done.status}", done.last_words, how)
    if done.status > 0:
        how = f"{command[0]} ended with status {done.status}"
        return _failed(ksock, request, f"Exit.{done.status}", done.last_words, how)
    if not done.is_whole and done.ended != TOO_LONG:
        say(
            "serve", f"{command[0]} has ended, but others can still write: the answer is what came until then"
        )
    reply = reply_to(request, done.output)
    if reply.total_length() > longest:
        length = len(done.output)
        size = f"{length} bytes" if length <= longest else f"more than {longest} bytes"
        text = f"the answer of {size} is longer than a message can be"
        return _failed(ksock, request, "AnswerTooLong", text)
    return reply


def _failed(ksock: Ksock, request: Message, kind: str, text: str, how: str = "") -> Reply:
    """Say on stderr how it failed, and return the error to answer with."""
    say("serve", f"request {request.id}: {how or text}")
    return failed_reply(request, kind, text, ksock.max_message_size())


def _answer(ksock: Ksock, request: Message, reply: Reply) -> None:
    """Send the answer. Go on if the requester can't take it."""
    try:
        ksock.send_msg(reply)
    except OSError as error:
        _say_why_not(ksock, request, reply, error)


def _say_why_not(ksock: Ksock, request: Message, reply: Reply, error: OSError) -> None:
    try:
        ended = deliver(ksock, request, reply, error)
    except OSError as failed:
        raise send_failure(failed) from failed
    if ended == errno.ENOBUFS:
        size = len(reply.data or b"")
        say("serve", f"request {request.id}: the requester has no room for the answer ({size} bytes)")
    elif ended:
        say("serve", f"request {request.id}: the requester does not wait for the answer any more")
