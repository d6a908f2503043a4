# SPDX-License-Identifier: MIT
"""A real terminal, of tmux, in which a command runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from tests.kernel.helpers import wait_until

ENDED = "ended with status "


class Terminal:
    """The terminal; what is on its screen, and keys."""

    _numbers = count()

    def __init__(self) -> None:
        # A server of its own: one that has been told to end may still take a command, and then not do it.
        self._server = f"kbus-test-{os.getpid()}-{next(self._numbers)}"

    def tmux(self, *arguments: str) -> str:
        """Run a command of tmux; its output."""
        done = subprocess.run(
            ["tmux", "-L", self._server, "-f", "/dev/null", *arguments],
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def screen(self) -> list[str]:
        """The lines that are on the screen, without blanks at their ends."""
        return [line.rstrip() for line in self.tmux("capture-pane", "-p").splitlines()]

    def text(self) -> str:
        """What is on the screen, each line in one piece that went on in the next."""
        return self.tmux("capture-pane", "-p", "-J")

    def wait_for(self, text: str) -> list[str]:
        """Come back when the text is on the screen, and no more is being drawn, with the screen."""
        screen: list[str] = []

        def is_there() -> bool:
            screen[:] = self.screen()
            return any(text in line for line in screen) and self.screen() == screen

        try:
            wait_until(is_there, f"{text!r} is on the screen")
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *screen])) from None
        return screen

    def press(self, *keys: str) -> None:
        """Press keys, by the names that tmux has for them."""
        self.tmux("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size."""
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def end(self) -> int:
        """Wait until the command ends by itself; its exit status. What it left is on the screen."""
        line = next(line for line in self.wait_for(ENDED) if line.startswith(ENDED))
        return int(line[len(ENDED) :])


@contextmanager
def terminal(*arguments: str, columns: int, lines: int, term: str = "screen") -> Iterator[Terminal]:
    """A terminal of this size in which `kbus` runs with these arguments."""
    kbus = [sys.executable, "-W", "error", "-m", "kbus.cli", *arguments]
    with running(*kbus, columns=columns, lines=lines, term=term) as started:
        yield started


@contextmanager
def running(*command: str, columns: int, lines: int, term: str = "screen") -> Iterator[Terminal]:
    """A terminal of this size in which a command runs."""
    script = f'unset COLUMNS LINES; TERM={term} "$@"; echo "{ENDED}$?"; exec sleep infinity'
    started = Terminal()
    started.tmux(
        "new-session", "-d", "-x", str(columns), "-y", str(lines), "sh", "-c", script, "sh", *command
    )
    try:
        yield started
    finally:
        started.tmux("kill-server")
