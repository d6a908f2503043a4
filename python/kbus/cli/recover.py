# SPDX-License-Identifier: MIT
"""``kbus recover``: make whole captures of damaged ones."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Optional

from ..capture import CaptureError
from ..capture.input import open_file
from ..capture.part import GZIP, PART
from ..capture.recover import RECOVERING, recover
from ..capture.series import RECOVERED, SUFFIX
from ..terminal import options
from ..terminal.failures import Failure
from ..terminal.output import put_line, say


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "recover",
        help="make whole captures of damaged ones",
        description="Copy what is undamaged of a capture to a new file, which all tools can read, and print"
        " its name. FILE.pcapng.part becomes FILE.pcapng, any other FILE.recovered.pcapng. The damaged file"
        " stays.",
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=options.capture,
        metavar="FILE",
        help="a capture; it may be of gzip; - is stdin",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PATH", help="the new file, if there is one FILE"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    if args.output and len(args.files) > 1:
        raise Failure.usage("--output is one file, and there are several to recover")
    if options.STDIN in args.files and not args.output:
        raise Failure.usage("stdin has no name for the new file: --output says where it goes")
    failed = 0
    for path in args.files:
        try:
            _recover(path, args.output)
        except Failure as failure:
            if len(args.files) == 1:
                raise
            say("recover", str(failure))
            failed += 1
    if failed:
        raise Failure(f"{failed} of the files could not be recovered")


def target_of(path: Path) -> Path:
    """What the whole capture of this one is called."""
    name = path.name
    if name.endswith(SUFFIX + PART):
        return path.with_name(name[: -len(PART)])
    for suffix in (PART, GZIP, SUFFIX):
        name = name[: -len(suffix)] if name.endswith(suffix) else name
    return path.with_name(f"{name}{RECOVERED}{SUFFIX}")


def _whole_one(path: Path) -> Optional[Path]:
    """The capture of which this is a copy that was being compressed, if it is there: it has all of it."""
    name = path.name
    if not name.endswith(SUFFIX + GZIP + PART):
        return None
    whole = (path.with_name(name[: -len(end)]) for end in (GZIP + PART, PART))
    return next((each for each in whole if os.path.isfile(each)), None)


def _recover(path: Path, output: Optional[Path]) -> None:
    for each in filter(None, (path, output)):
        if not each.name:
            raise Failure(f"can't recover {path}: {each} is a directory")
    if not output and (whole := _whole_one(path)):
        why = f"{whole} has all that it was made of, or --output says where to recover it"
        say("recover", f"there is nothing to recover in {path}: {why}")
        return
    target = output or target_of(path)
    try:
        if not output and not os.path.isfile(path):
            open_file(path).close()
            raise Failure.usage(f"{path} is not a regular file: --output says where the new one goes")
        messages, done = recover(path, target)
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
    if done.more_damage:
        say("recover", f"{path}: and {done.more_damage} more places")
    say("recover", f"{path}: {messages} messages are whole")
    put_line(str(target))
