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

import sys
from importlib import import_module
from typing import Optional

from . import options
from .failures import Failure
from .output import StdoutFailed, flush, stdout_failed, tell
from .streams import replace_closed_streams

__all__ = ["main"]

_SUBCOMMANDS = (
    *("listen", "send", "call", "serve", "bindings", "stats", "top", "devices"),
    *("record", "info", "play", "recover"),
)
_EPILOG = "Exit status: 0 done, 1 failed, 2 wrong command line, 124 timed out."


def main(argv: Optional[list[str]] = None) -> int:
    """Run ``kbus`` with these arguments, or those of the process, and return its exit status."""
    replace_closed_streams()
    parser = options.Parser(prog="kbus", description="Send and read KBUS messages.", epilog=_EPILOG)
    subparsers = parser.add_subparsers(metavar="COMMAND", dest="subcommand", required=True)
    words, command = _split_command(sys.argv[1:] if argv is None else argv)
    # To import all of them takes longer than most of them do.
    for name in words[:1] if words and words[0] in _SUBCOMMANDS else _SUBCOMMANDS:
        import_module(f".{name}", __name__).add(subparsers)
    try:
        args = options.parse(parser, subparsers, words)
    except SystemExit as wanted:
        return int(wanted.code or 0)
    try:
        args.command = command
        args.run(args)
        flush()
    except Failure as failure:
        tell(f"kbus {args.subcommand}", str(failure))
        return failure.status
    except KeyboardInterrupt:
        tell(f"kbus {args.subcommand}", "interrupted")
        return 1
    except StdoutFailed as failure:
        return stdout_failed(f"kbus {args.subcommand}", failure)
    return 0


def _split_command(argv: list[str]) -> tuple[list[str], list[str]]:
    """Part the arguments of ``kbus`` from COMMAND, which argparse would rob of every ``--`` of its own."""
    if argv[:1] != ["serve"] or "--" not in argv:
        return argv, []
    where = argv.index("--")
    return argv[:where], argv[where + 1 :]
