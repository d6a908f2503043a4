# SPDX-License-Identifier: MIT
"""The data of a message that the command line describes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Optional

from .failures import Failure

__all__ = ["HEX_HELP", "given_data"]

HEX_HELP = "DATA is pairs of hex digits (what a file or stdin has is always taken as it is)"


def given_data(args: argparse.Namespace) -> Optional[bytes]:
    """What DATA, ``--file`` and ``--hex`` say; None if nothing is said."""
    if args.file is not None:
        if args.data is not None:
            raise Failure.usage("DATA and --file can't both be given")
        try:
            return Path(args.file).read_bytes()
        except OSError as error:
            raise Failure(f"can't read the data from {args.file}: {error.strerror}") from error
    if args.data is None:
        return None
    if args.data == "-":
        return sys.stdin.buffer.read()
    # What is no UTF-8 on the command line arrives as surrogates, and is meant as the bytes that it was.
    text: str = args.data
    if not args.hex:
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Failure.usage(f"{text!r} is not pairs of hex digits") from None
