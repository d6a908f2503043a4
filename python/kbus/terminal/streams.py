# SPDX-License-Identifier: MIT
"""Standard streams that are closed, at the beginning or in the end."""

from __future__ import annotations

import os
import sys
from typing import TextIO

__all__ = ["close_stdout", "forget_stderr", "forget_stdout", "replace_closed_streams"]


def replace_closed_streams() -> None:
    """Put /dev/null in place of each standard stream that was closed when the command was started.

    Otherwise a KSock or a socket would get its number, and Python has None instead of the stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # This is the lowest number that is free, and so the one of the stream.
            fd = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(fd, True)
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))


def close_stdout() -> None:
    """Let the reader of stdout see its end; what is written there from now on goes nowhere."""
    sys.stdout.flush()
    _forget(sys.stdout)


def forget_stdout() -> None:
    """Let what is still buffered go nowhere, so that Python does not complain at its end."""
    _forget(sys.stdout)


def forget_stderr() -> None:
    """Likewise, but only if there is still nowhere else to go."""
    try:
        sys.stderr.flush()
    except OSError:
        _forget(sys.stderr)


def _forget(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
