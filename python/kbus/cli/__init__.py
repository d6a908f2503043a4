# SPDX-License-Identifier: MIT
"""The ``kbus`` command.

What was asked for goes to stdout, everything else to stderr. The exit status is

==== ==========================================================================================
0    done; also when SIGTERM or SIGINT ended ``listen``, ``serve`` or ``record``, or whoever read stdout left
1    failed, and stderr says why
2    the command line is wrong
124  timed out (``--timeout``), the number that timeout(1) uses
==== ==========================================================================================

Each module whose name is a subcommand's has ``add(subparsers)``, which tells what the subcommand takes, and
``run(args)``, which does it and raises :class:`kbus.cli.failures.Failure` if it can't.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Optional

from . import bindings, call, devices, info, listen, play, record, recover, send, serve, stats, top
from .failures import Failure
from .output import StdoutClosed, flush

__all__ = ["main"]

_EPILOG = "Exit status: 0 done, 1 failed, 2 wrong command line, 124 timed out."


def main(argv: Optional[list[str]] = None) -> int:
    """Run ``kbus`` with these arguments, or those of the process, and return its exit status."""
    _replace_closed_streams()
    parser = argparse.ArgumentParser(prog="kbus", description="Send and read KBUS messages.", epilog=_EPILOG)
    subparsers = parser.add_subparsers(metavar="COMMAND", dest="subcommand", required=True)
    for module in (listen, send, call, serve, bindings, stats, top, devices, record, info, play, recover):
        module.add(subparsers)
    words, command = serve.split_command(sys.argv[1:] if argv is None else argv)
    try:
        if words and words[0] in subparsers.choices:
            # Options may stand between NAME and DATA, which a plain parse_args() does not allow.
            chosen = subparsers.choices[words[0]]
            args = chosen.parse_intermixed_args(words[1:], argparse.Namespace(subcommand=words[0]))
        else:
            args = parser.parse_args(words)
    except SystemExit as wanted:
        return int(wanted.code or 0)
    try:
        args.command = command
        args.run(args)
        flush()
    except Failure as failure:
        print(f"kbus {args.subcommand}: {failure}", file=sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        print(f"kbus {args.subcommand}: interrupted", file=sys.stderr)
        return 1
    except StdoutClosed:
        _forget_stdout()
    return 0


def _replace_closed_streams() -> None:
    """Have /dev/null in place of each standard stream that whoever started ``kbus`` has closed.

    Otherwise a KSock would get its number, and Python has None instead of the stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # This is the lowest number that is free, and so the one of the stream.
            fd = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(fd, True)
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))


def _forget_stdout() -> None:
    """Let what is still buffered go nowhere, so that Python does not complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
