# SPDX-License-Identifier: MIT
"""The ``kbus`` command.

What was asked for goes to stdout, everything else to stderr. The exit status is

==== ==========================================================================================
0    done; also when SIGTERM or SIGINT ended what goes on until then, or the reader of stdout left
1    failed, and stderr says why
2    the command line is wrong
3    ``call``: the replier answered that it failed, and stderr says how
124  timed out (``--timeout``), the number that timeout(1) uses
==== ==========================================================================================

Each module whose name is a subcommand's has ``add(subparsers)``, which says what the subcommand takes, and
``run(args)``, which does it and raises :class:`kbus.terminal.failures.Failure` if it can't.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Optional

from .. import __version__
from ..terminal import options
from ..terminal.failures import Failure
from ..terminal.output import StdoutFailed, flush, stdout_failed, tell
from ..terminal.streams import replace_closed_streams

__all__ = ["SUBCOMMANDS", "main", "parser"]

SUBCOMMANDS = (
    *("listen", "send", "call", "serve", "ping", "trace", "bindings", "stats", "top", "devices", "bench"),
    *("record", "info", "play", "recover"),
)
_EPILOG = "Exit status: 0 done, 1 failed, 2 wrong command line, 3 the replier failed, 124 timed out."


def main(argv: Optional[list[str]] = None) -> int:
    """Run ``kbus`` with these arguments, or those of the process, and return its exit status."""
    replace_closed_streams()
    words, command = _split_command(sys.argv[1:] if argv is None else argv)
    # To import all of them takes longer than most of them do.
    one, subparsers = parser(words[:1] if words and words[0] in SUBCOMMANDS else SUBCOMMANDS)
    try:
        args = options.parse(one, subparsers, words)
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
    except MemoryError:
        tell(f"kbus {args.subcommand}", "there is not enough memory")
        return 1
    except OSError as error:
        # What no subcommand has words for, as the end of a test bus.
        tell(f"kbus {args.subcommand}", str(error.strerror or error))
        return 1
    return 0


def parser(names: Sequence[str] = SUBCOMMANDS) -> tuple[options.Parser, options.Subparsers]:
    """Return what understands the command line, with these subcommands, and what has those."""
    one = options.Parser(prog="kbus", description="Send and read KBUS messages.", epilog=_EPILOG)
    one.add_argument("--version", action="version", version=f"kbus {__version__}")
    subparsers = one.add_subparsers(metavar="COMMAND", dest="subcommand", required=True)
    for name in names:
        import_module(f".{name}", __name__).add(subparsers)
    return one, subparsers


def _split_command(argv: list[str]) -> tuple[list[str], list[str]]:
    """Split off COMMAND from the arguments of ``kbus``: argparse would remove each ``--`` in it."""
    if argv[:1] != ["serve"] or "--" not in argv:
        return argv, []
    where = argv.index("--")
    return argv[:where], argv[where + 1 :]
