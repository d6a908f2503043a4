# SPDX-License-Identifier: MIT
"""``kbus call``: send a request and print the data of its answer."""

from __future__ import annotations

import argparse
import time
from typing import Optional

from .. import ReplierError, StatusError
from .. import _abi as abi
from ..terminal import options
from ..terminal.data import HEX_HELP, given_data
from ..terminal.failures import REPLIER_FAILED, Failure, send_failure
from ..terminal.ksocks import open_ksock
from ..terminal.output import put, put_json, put_line
from .lines import as_json

#: Seconds that a call waits by itself: as long as other buses do
_TIMEOUT = 25.0
_STATUSES = {
    abi.NAME_REPLIER_GONEAWAY: "the replier went away before it read the request",
    abi.NAME_REPLIER_IGNORED: "the replier read the request, and went away without an answer",
    abi.NAME_REPLIER_UNBOUND: "the replier unbound before it read the request",
    abi.NAME_REPLIER_NOROOM: "the replier answered, but there was no room here for the answer",
}


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "call",
        help="send a request and print the data of its answer",
        description="Send a request, wait for its answer, and print the data of that as it is."
        " If the replier answers that it failed, the exit status is 3.",
    )
    parser.add_argument("name", type=options.name_to_send, metavar="NAME", help="the request's name")
    options.add_data(parser)
    options.add_device(parser)
    options.add_hex(parser, f"{HEX_HELP}; the answer's data is printed so")
    options.add_json(parser)
    options.add_timeout(parser, "and abandon the request if there is no answer", default=_TIMEOUT)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    data = given_data(args)
    failure: Optional[Failure] = None
    with open_ksock(args.device) as ksock:
        try:
            reply = ksock.call(args.name, data, args.timeout)
        except ReplierError as error:
            if error.message is None:
                raise
            reply, failure = error.message, Failure(f"{args.name} failed: {error}", REPLIER_FAILED)
        except TimeoutError:
            raise Failure.timed_out(f"no answer to {args.name} within {args.timeout:g} s") from None
        except StatusError as error:
            name = error.status.name
            raise Failure(f"no answer to {args.name}: {_STATUSES.get(name, name)} ({name})") from None
        except OSError as error:
            raise send_failure(error) from error
    if failure and not args.json:
        raise failure
    if args.json:
        put_json(as_json(reply, args.device, time.time_ns(), args.hex))
    elif args.hex:
        put_line((reply.data or b"").hex())
    else:
        put(reply.data or b"")
    if failure:
        raise failure
