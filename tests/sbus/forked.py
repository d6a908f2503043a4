# SPDX-License-Identifier: MIT
"""Commands run in forked processes: Python takes seconds to start in an emulated machine."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NamedTuple

Main = Callable[[list[str]], int]


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    stdout: bytes
    stderr: str


class Forked:
    """A command that runs, with stdout and stderr going to memory. `done` waits for its end."""

    def __init__(self, main: Main, arguments: Sequence[str], given: bytes = b"") -> None:
        self._fds = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
        os.pwrite(self._fds[0], given, 0)
        self.pid = os.fork()
        if self.pid == 0:
            self._run(main, arguments)

    def _run(self, main: Main, arguments: Sequence[str]) -> None:
        try:
            for number, fd in enumerate(self._fds):
                os.dup2(fd, number)
            sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
            status = main(list(arguments))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(70)

    def terminate(self) -> None:
        """SIGTERM."""
        os.kill(self.pid, signal.SIGTERM)

    def done(self) -> Done:
        """Wait for its end."""
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        printed = [os.pread(fd, os.fstat(fd).st_size, 0) for fd in self._fds[1:]]
        for fd in self._fds:
            os.close(fd)
        return Done(status, printed[0], printed[1].decode())


def run(main: Main, *arguments: str, given: bytes = b"") -> Done:
    """Run a command to its end."""
    return Forked(main, arguments, given).done()
