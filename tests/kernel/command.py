# SPDX-License-Identifier: MIT
"""The `kbus` command as a process."""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from kbus.cli import main
from tests.kernel.helpers import PATIENCE, bindings, has_left, wait_until


def kbus(*arguments: str, stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run it as a shell would, to its end; a warning, such as that of a forgotten KSock, is an error."""
    command = [sys.executable, "-W", "error", "-m", "kbus.cli", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE, check=False)


class Command:
    """It in a process of its own, with pipes for `stdout` and `stderr`; `status` is None until it has ended.

    That is a fork, as a new interpreter takes seconds to start in an emulated machine.
    """

    def __init__(self, *arguments: str) -> None:
        stdout, out = os.pipe()
        stderr, err = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _run(arguments, out, err)
        os.close(out)
        os.close(err)
        self.stdout = os.fdopen(stdout, "rb")
        self.stderr = os.fdopen(stderr, "rb")
        self.status: int | None = None
        self._said = b""

    def has_ended(self) -> bool:
        """True when it has ended."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None and has_left(self.pid)

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def stop(self) -> None:
        """SIGSTOP it, and come back when it has stopped."""
        self.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the command is stopped")

    def end(self) -> tuple[int | None, str, str]:
        """Wait until it ends by itself; its exit status, and the rest of what it wrote."""
        wait_until(self.has_ended, "the command ends")
        os.set_blocking(self.stderr.fileno(), True)
        return self.status, self.stdout.read().decode(), (self._said + self.stderr.read()).decode()

    def so_far(self) -> str:
        """What it has written to stderr by now; `end` gives that too."""
        os.set_blocking(self.stderr.fileno(), False)
        self._said += self.stderr.read() or b""
        return self._said.decode()

    def close(self) -> None:
        """Kill it, if it has not ended."""
        if not self.has_ended():
            self.send_signal(signal.SIGKILL)
            wait_until(self.has_ended, "the command is killed")
        self.stdout.close()
        self.stderr.close()


def _run(arguments: tuple[str, ...], out: int, err: int) -> NoReturn:
    """What the fork does."""
    status = -1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        # The KSocks of the test are not to be kept open from here.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"))
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), line_buffering=True)
        # An interrupt that comes in one, as Hypothesis has, is lost.
        gc.callbacks.clear()
        status = main(list(arguments))
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


@contextmanager
def running(*arguments: str) -> Iterator[Command]:
    """It while it runs."""
    command = Command(*arguments)
    try:
        yield command
    finally:
        command.close()


@contextmanager
def bound(*arguments: str, count: int = 1, device: int = 0) -> Iterator[Command]:
    """It while it runs, from when it has `count` bindings on the device."""

    def has_bound() -> bool:
        assert not command.has_ended(), command.end()
        return sum(binding.pid == command.pid for binding in bindings(device)) == count

    with running(*arguments) as command:
        wait_until(has_bound, "the command has bound")
        yield command
