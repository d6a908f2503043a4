# SPDX-License-Identifier: MIT
"""Running a program under a time limit, with its output passed on as it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

TIMED_OUT = 124
"""What `run` returns at the time limit, as timeout(1) does."""


def run(command: Sequence[str], limit: float, out: IO[bytes], err: IO[bytes]) -> int:
    """Run `command` without a standard input for `limit` seconds at most; its exit status, or TIMED_OUT.

    What it writes is copied to `out` and `err` at once. Afterwards none of the processes that it started is
    left; at the time limit timeout(1) sees to that even when this process is no more.
    """
    timed = ["timeout", "--signal=KILL", str(limit), *command]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(timed, stdin=nothing, stdout=pipe, stderr=pipe, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        pairs = [(child.stdout, out), (child.stderr, err)]
        copiers = [threading.Thread(target=_copy, args=pair) for pair in pairs]
        try:
            for copier in copiers:
                copier.start()
            status = child.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            for copier in copiers:
                copier.join()
    return TIMED_OUT if status == -signal.SIGKILL else status


def _copy(source: IO[bytes], sink: IO[bytes]) -> None:
    """All of `source` to `sink`, or to nowhere once nobody reads `sink`: the writer is not held up."""
    while data := os.read(source.fileno(), 65536):
        with suppress(BrokenPipeError):
            sink.write(data)
            sink.flush()
