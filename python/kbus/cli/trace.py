# SPDX-License-Identifier: MIT
"""``kbus trace``: which KSocks would get a message of some name, without sending it."""

from __future__ import annotations

import argparse
import errno
import os

from .. import _refusals as refusals
from .. import inspect
from .._processes import command_of
from ..names import matches, specificity
from ..terminal import options
from ..terminal.failures import Failure, open_failure, proc_failure
from ..terminal.output import put_json, put_table


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "trace",
        help="show which KSocks would get a message of some name, and which would answer",
        description="Show which KSocks would get a message of this name now, and which would answer a"
        " request. Nothing is sent.",
    )
    parser.add_argument("name", type=options.name_to_send, metavar="NAME", help="the message's name")
    options.add_device(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    try:
        if not inspect.stats(args.device):
            raise _no_device(args.device)
        bindings = [each for each in inspect.bindings(args.device) if matches(each.name, args.name)]
    except OSError as error:
        raise proc_failure(error) from error
    # KBUS gives a request to one replier, the most specific.
    repliers = sorted((each for each in bindings if each.is_replier), key=lambda each: specificity(each.name))
    listeners = [each for each in bindings if not each.is_replier]
    rows = [("answers", each) for each in repliers[-1:]]
    rows += [("listens", each) for each in sorted(listeners, key=lambda each: each.ksock_id)]
    if args.json:
        for does, each in rows:
            put_json(
                {
                    "does": does,
                    "ksock": each.ksock_id,
                    "pid": each.pid,
                    "command": command_of(each.pid),
                    "by": each.name,
                }
            )
        return
    put_table(
        ("DOES", "KSOCK", "PID", "COMMAND", "BY"),
        [(does, each.ksock_id, each.pid, command_of(each.pid), each.name) for does, each in rows],
    )


def _no_device(number: int) -> Failure:
    error = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    return open_failure(refusals.opening(error, f"/dev/kbus{number}", number))
