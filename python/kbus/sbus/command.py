# SPDX-License-Identifier: MIT
"""The command ``kbus-sbus``: publish, subscribe and show the own credentials, from a shell.

Exit status as for ``kbus``: 0 done, 1 failed, 2 wrong command line, 124 timed out.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import json
import sys
import time
from contextlib import suppress
from typing import Optional

from ..terminal import options, output
from ..terminal.data import HEX_HELP, given_data
from ..terminal.failures import TIMED_OUT, Failure
from ..terminal.ksocks import until_ended
from ..terminal.output import StdoutFailed, json_text, put_json, put_line
from ..terminal.signals import EndSignals
from ..terminal.streams import replace_closed_streams
from . import address, packets
from .client import Client, Received, explain

#: Seconds in which a daemon has to report to a subscriber that leaves what it has dropped.
_PATIENCE = 1.0
_EPILOG = "Exit status: 0 done, 1 failed, 2 wrong command line, 124 timed out."


def main(argv: Optional[list[str]] = None) -> int:
    """Run ``kbus-sbus`` with these arguments, or those of the process, and return its exit status."""
    replace_closed_streams()
    one, subparsers = parser()
    words = sys.argv[1:] if argv is None else argv
    try:
        args = options.parse(one, subparsers, words)
    except SystemExit as wanted:
        return int(wanted.code or 0)
    try:
        with Client(args.address, args.protocol) as client:
            for key in args.control:
                client.control(key)
            args.run(client, args)
            output.flush()
    except Failure as failure:
        output.tell(f"kbus-sbus {args.subcommand}", str(failure))
        return failure.status
    except StdoutFailed as failed:
        return output.stdout_failed(f"kbus-sbus {args.subcommand}", failed)
    except TimeoutError as error:
        output.tell(f"kbus-sbus {args.subcommand}", str(error))
        return TIMED_OUT
    except (OSError, ValueError) as error:
        output.tell(f"kbus-sbus {args.subcommand}", explain(error, args.address))
        return 1
    except KeyboardInterrupt:
        return 1
    return 0


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-a",
        "--address",
        type=_address,
        default=address.DEFAULT,
        help=f"a path or /dev/unix/abstract/HEX (default: {address.DEFAULT})",
    )
    parser.add_argument(
        "--protocol", choices=sorted(packets.PROTOCOLS), default="slash", help=packets.PROTOCOL_HELP
    )
    parser.add_argument(
        "--control",
        action="append",
        default=[],
        metavar="KEY",
        help="a control message to send first, such as echo/off; repeatable",
    )


def parser() -> tuple[options.Parser, options.Subparsers]:
    """Return what understands the command line, and what has its subcommands."""
    one = options.Parser(prog="kbus-sbus", description="Use an sbus daemon.", epilog=_EPILOG)
    subparsers = one.add_subparsers(metavar="COMMAND", dest="subcommand", required=True)
    _add_pub(subparsers)
    _add_sub(subparsers)
    _add_whoami(subparsers)
    return one, subparsers


def _add_pub(subparsers: options.Subparsers) -> None:
    parser = subparsers.add_parser(
        "pub", help="publish a message", description="Publish a message, or each line of stdin as one."
    )
    parser.add_argument("key", type=_key, metavar="KEY", help="its routing key")
    options.add_data(parser)
    options.add_hex(parser, HEX_HELP)
    parser.add_argument("--lines", action="store_true", help="publish each line of stdin")
    options.add_timeout(parser, "if the daemon has not answered", 10.0)
    _add_common(parser)
    parser.set_defaults(run=_pub)


def _add_sub(subparsers: options.Subparsers) -> None:
    parser = subparsers.add_parser(
        "sub",
        help="show the messages that match some patterns",
        description="Show messages, one a line, until SIGINT or SIGTERM.",
    )
    parser.add_argument(
        "patterns", nargs="+", type=_key, metavar="PATTERN", help="routing key pattern, '' for all"
    )
    options.add_count(parser, "messages")
    options.add_timeout(parser, "if nothing comes")
    form = parser.add_mutually_exclusive_group()
    options.add_json(form)
    form.add_argument("--raw", action="store_true", help="print payloads as they are, and nothing else")
    _add_common(parser)
    parser.set_defaults(run=_sub)


def _add_whoami(subparsers: options.Subparsers) -> None:
    parser = subparsers.add_parser(
        "whoami", help="print the own credentials", description="Print the own credentials."
    )
    options.add_timeout(parser, "if the daemon has not answered", 10.0)
    _add_common(parser)
    parser.set_defaults(run=_whoami)


def _pub(client: Client, args: argparse.Namespace) -> None:
    if args.lines:
        if args.data is not None or args.file is not None:
            raise Failure.usage("--lines takes the data from stdin, and from nowhere else")
        _publish_lines(client, args.key)
    else:
        client.publish(args.key, given_data(args) or b"")
    _check_dropped(client, args.timeout)


def _publish_lines(client: Client, key: str) -> None:
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            client.publish(key, line[:-1] if line.endswith(b"\n") else line)
        except OSError as error:
            if error.errno != errno.EMSGSIZE:
                raise
            why = f"line {number} of stdin: {error.strerror}; the lines before it are published"
            raise Failure(why) from error


def _check_dropped(client: Client, timeout: float) -> None:
    if client.protocol.has_control and (dropped := client.dropped(timeout)):
        causes = ", ".join(f"{count} ({cause})" for cause, count in dropped.items())
        raise Failure(f"the daemon has dropped {causes}")


def _sub(client: Client, args: argparse.Namespace) -> None:
    with EndSignals() as signals:
        for pattern in args.patterns:
            client.subscribe(pattern)
        messages = until_ended(client.fileno(), signals, args.timeout, lambda: client.receive(0))
        for message in itertools.islice(messages, args.count):
            if args.raw:
                output.put(message.payload)
            elif args.json:
                put_json(_as_json(message))
            else:
                put_line(_as_line(message))
            output.flush()
    # A daemon that does not answer does not keep it from ending.
    with suppress(TimeoutError):
        _check_dropped(client, _PATIENCE)


def _whoami(client: Client, args: argparse.Namespace) -> None:
    put_line(client.whoami(args.timeout).decode("ascii"))


def _as_line(message: Received) -> str:
    """KEY LENGTH [DATA], where KEY and DATA are JSON strings if they are text, else hex digits."""
    words = ["control"] if message.is_control else []
    words += [_shown(message.key), str(len(message.payload))]
    return " ".join([*words, _shown(message.payload)] if message.payload else words)


def _shown(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else json_text(text)


def _as_json(message: Received) -> dict[str, object]:
    record: dict[str, object] = {"time_ns": time.time_ns(), "control": message.is_control}
    for name, data in (("key", message.key), ("data", message.payload)):
        try:
            record[name] = data.decode()
        except UnicodeDecodeError:
            record[f"{name}_hex"] = data.hex()
    return record


def _address(text: str) -> str:
    try:
        address.parse(text).to_connect()
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _key(text: str) -> str:
    if "\0" in text:
        raise argparse.ArgumentTypeError("a routing key has no NUL")
    return text
