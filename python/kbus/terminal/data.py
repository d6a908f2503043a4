# SPDX-License-Identifier: MIT
"""The data of a message that the command line describes."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterator
from typing import Optional

from .failures import Failure
from .output import flush
from .signals import EndSignals

__all__ = ["HEX_HELP", "given_data", "input_lines", "read_input"]

HEX_HELP = "DATA is pairs of hex digits (what a file or stdin has is always taken as it is)"


#: Bytes that no message has, whatever an administrator allows: what has them may never end
LONGEST = 1 << 28


def read_input(read: Callable[[int], bytes], where: str, what: Optional[str] = None) -> bytes:
    """Return what ``read`` gives; its argument is how much it gives at most.

    Raises a Failure if ``where`` can't be read, or ``what`` is there (if not given, ``where``) is too long.
    """
    try:
        found = read(LONGEST + 1)
    except OSError as error:
        raise Failure(f"can't read the data from {where}: {error.strerror}") from error
    if len(found) > LONGEST:
        raise Failure(f"{what or where} has more than {LONGEST} bytes")
    return found


def given_data(args: argparse.Namespace) -> Optional[bytes]:
    """What DATA, ``--file`` and ``--hex`` say; None if nothing is said."""
    if args.file is not None:
        if args.data is not None:
            raise Failure.usage("DATA and --file can't both be given")
        with contextlib.ExitStack() as stack:
            return read_input(lambda most: stack.enter_context(open(args.file, "rb")).read(most), args.file)
    if args.data is None:
        return None
    if args.data == "-":
        return read_input(sys.stdin.buffer.read, "standard input")
    # What is no UTF-8 on the command line arrives as surrogates, and is meant as the bytes that it was.
    text: str = args.data
    if not args.hex:
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Failure.usage(f"{text!r} is not pairs of hex digits") from None


def input_lines(signals: EndSignals) -> Iterator[bytes]:
    """The lines of stdin without their ends, each as soon as it is there, until one of the signals.

    What follows the last end of a line is a line, too. What was written to stdout is flushed before waiting.
    Raises a Failure if stdin can't be read, or a line is too long.
    """
    stdin = sys.stdin.fileno()
    poll = select.poll()
    poll.register(stdin, select.POLLIN)
    poll.register(signals.fileno(), select.POLLIN)
    pieces: list[bytes] = []
    length = number = 0
    while True:
        flush()
        poll.poll()
        if signals.came:
            return
        piece = _read_piece(stdin)
        if piece is None:
            continue
        first, *others = piece.split(b"\n")
        pieces.append(first)
        length += len(first)
        if length > LONGEST:
            raise Failure(f"line {number + 1} of standard input has more than {LONGEST} bytes")
        if others:
            for line in (b"".join(pieces), *others[:-1]):
                number += 1
                yield line
            pieces, length = [others[-1]], len(others[-1])
        if not piece:
            if length:
                yield b"".join(pieces)
            return


def _read_piece(stdin: int) -> Optional[bytes]:
    """What stdin has now, empty at its end; None if it has nothing, whatever poll() said."""
    try:
        return os.read(stdin, 1 << 16)
    except BlockingIOError:
        return None
    except OSError as error:
        raise Failure(f"can't read the data from standard input: {error.strerror}") from error
