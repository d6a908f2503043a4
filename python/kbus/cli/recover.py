# SPDX-License-Identifier: MIT
"""``kbus recover``: make whole captures of damaged ones."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..capture import CaptureError
from ..capture.compress import GZIP
from ..capture.part import PART
from ..capture.recover import RECOVERING, recover
from ..capture.series import SUFFIX
from . import options
from .failures import Failure
from .output import put_line, say


def add(subparsers: options.Subparsers) -> None:
    """Tell argparse of this subcommand."""
    parser = subparsers.add_parser(
        "recover",
        help="make whole captures of damaged ones",
        description="Copy what is undamaged of a capture to a new file, which all tools can read, and print"
        " its name. FILE.pcapng.part becomes FILE.pcapng, any other FILE.recovered.pcapng. The damaged file"
        " stays.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a capture; it may be of gzip")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help="the new file, if there is one FILE"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    if args.output and len(args.files) > 1:
        raise Failure.usage("--output is one file, and there are several to recover")
    for path in args.files:
        _recover(path, args.output or target_of(path))


def target_of(path: Path) -> Path:
    """What the whole capture of this one is called."""
    name = path.name
    if name.endswith(SUFFIX + PART):
        return path.with_name(name[: -len(PART)])
    for suffix in (PART, GZIP, SUFFIX):
        name = name[: -len(suffix)] if name.endswith(suffix) else name
    return path.with_name(f"{name}.recovered{SUFFIX}")


def _recover(path: Path, target: Path) -> None:
    try:
        done = recover(path, target)
    except FileExistsError as error:
        if error.filename == str(target.with_name(target.name + RECOVERING)):
            why = "another one makes it, or has died; then remove it"
            raise Failure(f"{error.filename} is there already: {why}") from error
        raise Failure(f"{target} is there already, and is not replaced") from error
    except CaptureError as error:
        raise Failure(f"there is nothing to recover in {error}") from error
    except OSError as error:
        raise Failure(f"can't recover {path}: {error.strerror}") from error
    for damage in done.damage:
        say("recover", f"{path}: {damage.length} bytes from {damage.offset} are left out: {damage.reason}")
    say("recover", f"{path}: {done.messages} messages are whole")
    put_line(str(done.path))
