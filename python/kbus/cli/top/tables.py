# SPDX-License-Identifier: MIT
"""Rows as the lines of a table that can be sorted by each of its columns, and filtered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, Union

from ...terminal.output import printable

__all__ = ["Order", "ScreenColumn", "ScreenTable", "Shown"]

_GAP = "  "
#: Columns of text have at least so many characters, if the screen has, before they go on in the next line
_NARROWEST = 8

#: What a row has in a column; None is not known
Value = Union[str, int, float, None]


class ScreenColumn(NamedTuple):
    """A column: its head, what a row has there, and how that is shown: at the left if it is text.

    Where there is no room for all columns, that of the greatest ``rank`` is left out first; 0 never is.
    """

    head: str
    value: Callable[[Any], Value]
    show: Callable[[Any], str] = str
    is_text: bool = False
    rank: int = 0


class Order(NamedTuple):
    """The column by which a table is sorted, and whether the greatest comes first."""

    column: int
    descending: bool


class Shown(NamedTuple):
    """A table as lines: its head; those of each row, mostly one; how many columns there was no room for."""

    head: str
    rows: list[list[str]]
    left_out: int


class ScreenTable(NamedTuple):
    """A table: what it is called, its columns, and by which of them it is sorted at first."""

    title: str
    columns: tuple[ScreenColumn, ...]
    first: int

    def order_by(self, column: int) -> Order:
        """The order of a column that was just chosen: text from A on, numbers from the greatest."""
        return Order(column % len(self.columns), not self.columns[column % len(self.columns)].is_text)

    def lines(self, rows: Sequence[Any], order: Order, wanted: str = "", width: int = 1 << 20) -> Shown:
        """The head, in which the column that sorts is marked, and the lines of each row, in this width.

        Only rows whose text has ``wanted`` in it are there, in letters of either case. A value of None is
        shown as ``-``, and comes last in every order. Text is never cut: where it has no room even if columns
        are left out, it goes on in the next line.
        """
        value = self.columns[order.column].value
        known: list[Any] = [row for row in rows if value(row) is not None]
        known.sort(key=value, reverse=order.descending)  # type: ignore[arg-type]
        unknown = [row for row in rows if value(row) is None]
        cells = [[_cell(column, row) for column in self.columns] for row in [*known, *unknown]]
        cells = [words for words in cells if wanted.lower() in _GAP.join(words).lower()]
        heads = [column.head for column in self.columns]
        heads[order.column] += "v" if order.descending else "^"
        widths = [max(map(len, words)) for words in zip(heads, *cells)]
        kept = self._kept(widths, order.column, width)
        widths = self._narrowed(widths, kept, width)
        head, *lines = [self._lines(words, widths, kept) for words in [heads, *cells]]
        return Shown(head[0], lines, len(self.columns) - len(kept))

    def _kept(self, widths: Sequence[int], sorts: int, width: int) -> list[int]:
        """Which columns there is room for, with half of the width for text, or as much as it needs."""
        kept = list(range(len(self.columns)))
        by_rank = sorted(kept, key=lambda index: -self.columns[index].rank)
        least = [
            min(each, width // 2) if column.is_text else each for column, each in zip(self.columns, widths)
        ]
        for index in by_rank:
            if _total(least, kept) <= width:
                break
            if self.columns[index].rank and index != sorts:
                kept.remove(index)
        return kept

    def _narrowed(self, widths: Sequence[int], kept: Sequence[int], width: int) -> list[int]:
        """The widths that columns of text have, so that all fits: the widest gives first."""
        narrowed = list(widths)
        texts = [index for index in kept if self.columns[index].is_text]
        while texts and _total(narrowed, kept) > width:
            widest = max(texts, key=lambda index: narrowed[index])
            if narrowed[widest] <= _NARROWEST:
                break
            narrowed[widest] -= 1
        return narrowed

    def _lines(self, words: Sequence[str], widths: Sequence[int], kept: Sequence[int]) -> list[str]:
        pieces = [_pieces(words[index], widths[index]) for index in kept]
        return [
            _GAP.join(self._placed(index, word, widths[index]) for index, word in zip(kept, line)).rstrip()
            for line in zip_longest(*pieces, fillvalue="")
        ]

    def _placed(self, index: int, word: str, width: int) -> str:
        return word.ljust(width) if self.columns[index].is_text else word.rjust(width)


def _total(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[index] for index in kept) + len(_GAP) * (len(kept) - 1)


def _pieces(word: str, width: int) -> list[str]:
    return [word[at : at + width] for at in range(0, len(word), width)] or [""]


def _cell(column: ScreenColumn, row: Any) -> str:
    value = column.value(row)
    return "-" if value is None else printable(column.show(value))
