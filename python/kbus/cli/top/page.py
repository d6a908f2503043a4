# SPDX-License-Identifier: MIT
"""What is on the screen, and what keys do to it; no terminal is needed for either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

from .tables import Order
from .views import VIEWS, Look, amount

__all__ = ["HELP", "Page", "ScreenLine"]

HELP = """\
n, k, w   names; KSocks; requests that wait (Tab: the next of these)
< >       sort by another column, also with the arrow keys
r         sort the other way round
/         show only lines with some text: type it, then Enter (Esc: all)
Up, Down  move by a line; PageUp, PageDown by a page; Home, End
p         pause: what is shown stays; counting goes on
c         count messages from 0
h, ?      this help
q         quit

Names: RATE and BYTES/S are those of the last interval, the rest is counted
since kbus top began. LATENCY is the mean time from a Request to its answer,
from when the one to when the other was sent, LONGEST the longest. FAILED are
those of the answered to which the replier answered that it failed.
KSocks: SENT/S, READ/S, LOST/S: of the last interval; the rest is what
/proc/kbus/stats has.
Unseen: requests that wait, but were sent before kbus top began, or by other
names than it counts.

Any key goes back."""

_VIEW_KEYS = {"n": 0, "k": 1, "w": 2}
_HEADS = 3


class ScreenLine(NamedTuple):
    """A line of the screen: its text, and whether it stands out."""

    text: str
    stands_out: bool = False


class Page:
    """The page that is shown, and how: which table, its order, filter and place, pause, help.

    ``wants_clear`` is set when the user asks to count anew; the caller does that, and resets it.
    """

    def __init__(self) -> None:
        self.view = 0
        self.orders = [view.order_by(view.first) for view in VIEWS]
        self.wanted = ""
        self.wants_clear = False
        self._typed: Optional[str] = None
        self._top = 0
        self._seen = 1
        self._shows_help = False
        self._paused = False
        self._look: Optional[Look] = None

    def update(self, look: Look) -> None:
        """Have something newer to show, unless the page is paused."""
        if not self._paused or self._look is None:
            self._look = look

    def press(self, key: str) -> bool:
        """Do what a key says, a character or the name of curses such as ``KEY_UP``; False to quit."""
        if self._typed is not None:
            self._type(key)
        elif self._shows_help:
            self._shows_help = False
        elif key == "q":
            return False
        else:
            self._do(key)
        return True

    def _type(self, key: str) -> None:
        typed = self._typed or ""
        if key in ("\n", "\r", "KEY_ENTER"):
            self._typed = None
        elif key == "\x1b":
            self._typed, self.wanted = None, ""
        elif key in ("KEY_BACKSPACE", "\x7f", "\b"):
            self._typed = self.wanted = typed[:-1]
        elif len(key) == 1 and key.isprintable():
            self._typed = self.wanted = typed + key
        self._top = 0

    def _do(self, key: str) -> None:
        order = self.orders[self.view]
        if key in _VIEW_KEYS:
            self._show(_VIEW_KEYS[key])
        elif key == "\t":
            self._show((self.view + 1) % len(VIEWS))
        elif key in ("<", "KEY_LEFT"):
            self.orders[self.view] = VIEWS[self.view].order_by(order.column - 1)
        elif key in (">", "KEY_RIGHT"):
            self.orders[self.view] = VIEWS[self.view].order_by(order.column + 1)
        elif key == "r":
            self.orders[self.view] = Order(order.column, not order.descending)
        elif key == "/":
            self._typed = self.wanted = ""
        elif key == "\x1b":
            self.wanted = ""
        elif key == "p":
            self._paused = not self._paused
        elif key == "c":
            self.wants_clear = True
        elif key in ("h", "?"):
            self._shows_help = True
        else:
            self._move(key)

    def _show(self, view: int) -> None:
        self.view = view
        self._top = 0

    def _move(self, key: str) -> None:
        page = max(1, self._seen)
        steps = {"KEY_UP": -1, "KEY_DOWN": 1, "KEY_PPAGE": -page, "KEY_NPAGE": page}
        if key == "KEY_HOME":
            self._top = 0
        elif key == "KEY_END":
            self._top = 1 << 30
        else:
            self._top = max(0, self._top + steps.get(key, 0))

    def lines(self, width: int, height: int) -> list[ScreenLine]:
        """What is on a screen of this size, which may be as small as there are."""
        if self._shows_help:
            shown = [ScreenLine(text) for text in HELP.splitlines()]
        elif self._look is None:
            shown = [ScreenLine("looking ...")]
        else:
            shown = self._table(self._look, width, height)
        return [ScreenLine(line.text[:width], line.stands_out) for line in shown[:height]]

    def _table(self, look: Look, width: int, height: int) -> list[ScreenLine]:
        view = VIEWS[self.view]
        table = view.lines(look.rows(self.view), self.orders[self.view], self.wanted, max(1, width))
        rows = table.rows
        room = max(1, height - _HEADS)
        self._top = max(0, min(self._top, _last_page(rows, room)))
        seen: list[list[str]] = []
        for row in rows[self._top :]:
            # One that is higher than the screen has its beginning there.
            if seen and sum(map(len, seen)) + len(row) > room:
                break
            seen.append(row)
        self._seen = len(seen)
        where = f"{self._top + 1}-{self._top + len(seen)} of {len(rows)}" if seen else "none"
        return [
            ScreenLine(self._summary(look)),
            ScreenLine(f"{view.title}: {where}  {self._state(table.left_out)}"),
            ScreenLine(table.head, stands_out=True),
            *(ScreenLine(text) for row in seen for text in row),
        ]

    def _summary(self, look: Look) -> str:
        words = [
            f"kbus{look.device} {look.clock}",
            f"{amount(look.messages)} messages/s, {amount(look.bytes)} bytes/s",
            f"{len(look.ksocks)} KSocks",
            f"{len(look.waiting) + look.unseen} waiting" + _part(look.unseen, "unseen"),
            f"{look.lost} lost" + _part(look.lost_here, "here"),
        ]
        if look.not_followed:
            words.append(f"{look.not_followed} not followed")
        return "  ".join(words)

    def _state(self, left_out: int) -> str:
        if self._typed is not None:
            return f"/{self._typed}_"
        words = ["h help, q quit"]
        if left_out:
            words.append(f"{left_out} column{'s' * (left_out > 1)} hidden")
        if self._paused:
            words.insert(0, "paused")
        if self.wanted:
            words.insert(0, f'only "{self.wanted}"')
        return "  ".join(words)


def _part(number: int, what: str) -> str:
    return f" ({number} {what})" if number else ""


def _last_page(rows: Sequence[Sequence[str]], room: int) -> int:
    """The first row of those that are at the end of the table, as many as there is room for."""
    first = len(rows)
    while first and (room := room - len(rows[first - 1])) >= 0:
        first -= 1
    return min(first, max(0, len(rows) - 1))
