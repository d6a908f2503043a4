# SPDX-License-Identifier: MIT
"""A real terminal, of tmux, in which a command runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kernel.helpers import wait_until

_SERVER = ("tmux", "-L", f"kbus-test-{os.getpid()}", "-f", "/dev/null")


class Terminal:
    """The terminal; what is on its screen, and keys."""

    def screen(self) -> list[str]:
        """The lines that are on the screen, without blanks at their ends."""
        return [line.rstrip() for line in _tmux("capture-pane", "-p").splitlines()]

    def wait_for(self, text: str) -> list[str]:
        """Come back when the text is on the screen, with that."""
        screen: list[str] = []

        def is_there() -> bool:
            screen[:] = self.screen()
            return any(text in line for line in screen)

        try:
            wait_until(is_there, f"{text!r} is on the screen")
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *screen])) from None
        return screen

    def press(self, *keys: str) -> None:
        """Press keys, by the names that tmux has for them."""
        _tmux("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size."""
        _tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def pid(self) -> int:
        """The command's process."""
        return int(_tmux("display-message", "-p", "#{pane_pid}"))

    def end(self) -> int:
        """Wait until the command ends by itself; its exit status."""
        said: list[str] = []

        def has_ended() -> bool:
            said[:] = _tmux("display-message", "-p", "#{pane_dead_status}").split()
            return bool(said)

        wait_until(has_ended, "the command ends")
        return int(said[0])


@contextmanager
def terminal(*arguments: str, columns: int, lines: int, term: str = "screen") -> Iterator[Terminal]:
    """A terminal of this size in which `kbus` runs with these arguments."""
    kbus = ["env", f"TERM={term}", sys.executable, "-W", "error", "-m", "kbus.cli", *arguments]
    size = ("-x", str(columns), "-y", str(lines))
    try:
        # What ended stays on the screen.
        _tmux("new-session", "-d", *size, "sleep infinity", ";", "set-option", "-g", "remain-on-exit", "on")
        _tmux("respawn-pane", "-k", *kbus)
        yield Terminal()
    finally:
        _tmux("kill-server")


def _tmux(*arguments: str) -> str:
    done = subprocess.run(
        [*_SERVER, *arguments], capture_output=True, encoding="utf-8", env={**os.environ, "LC_ALL": "C.UTF-8"}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
