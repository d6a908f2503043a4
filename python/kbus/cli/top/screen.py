# SPDX-License-Identifier: MIT
"""A terminal in full-screen mode, by curses."""

from __future__ import annotations

import contextlib
import curses
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Optional

from ...terminal.failures import Failure
from .page import ScreenLine

__all__ = ["Screen"]


class Screen:
    """The terminal of stdin and stdout, inside a ``with``; afterwards it is as it was.

    Raises the Failure of a terminal that can't do it.
    """

    def __enter__(self) -> Screen:
        try:
            self._window = curses.initscr()
            curses.noecho()
            curses.cbreak()
            self._window.keypad(True)
            self._window.nodelay(True)
        except curses.error as error:
            raise Failure(f"the terminal (TERM={os.environ.get('TERM', '')}) can't do it: {error}") from error
        with contextlib.suppress(curses.error):
            curses.curs_set(0)
        # Escape alone is a key, and shall not take a second.
        if hasattr(curses, "set_escdelay"):
            curses.set_escdelay(50)
        self._resized, self._resizing = os.pipe()
        os.set_blocking(self._resized, False)
        self._before = signal.signal(signal.SIGWINCH, self._on_resize)
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        signal.signal(signal.SIGWINCH, self._before)
        curses.endwin()
        os.close(self._resized)
        os.close(self._resizing)

    def filenos(self) -> tuple[int, int]:
        """What is readable when there is a key, or the terminal has another size."""
        return sys.stdin.fileno(), self._resized

    def key(self) -> Optional[str]:
        """The next key that was pressed, as a character or by its curses name; None if there is none."""
        try:
            key = self._window.get_wch()
        except curses.error:
            return None
        return key if isinstance(key, str) else curses.keyname(key).decode()

    def fit(self) -> None:
        """Take note of the terminal's size, if it has another one now."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._resized, 1024)
        size = os.get_terminal_size(sys.stdout.fileno())
        # A serial line, for example, has no size.
        if size.lines and size.columns:
            curses.resizeterm(size.lines, size.columns)

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        lines, columns = self._window.getmaxyx()
        return columns, lines

    def draw(self, lines: Sequence[ScreenLine]) -> None:
        """Show these lines, which fit, and nothing else."""
        self._window.erase()
        columns, _ = self.size()
        for row, line in enumerate(lines):
            text = line.text.ljust(columns) if line.stands_out else line.text
            # curses fails at what the locale does not have.
            text = text.encode(self._window.encoding, "replace").decode(self._window.encoding)
            # insstr, as addstr fails behind the last place of all.
            self._window.insstr(row, 0, text, curses.A_REVERSE if line.stands_out else curses.A_NORMAL)
        self._window.refresh()

    def _on_resize(self, number: int, frame: Optional[FrameType]) -> None:
        os.write(self._resizing, b"\0")
