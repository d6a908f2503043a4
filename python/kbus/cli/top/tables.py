# SPDX-License-Identifier: MIT
"""Rows as the lines of a table that can be sorted by each of its columns, and filtered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Union

from ..printable import printable

__all__ = ["Column", "Order", "Table"]

#: What a row has in a column; None is not known
Value = Union[str, int, float, None]


class Column(NamedTuple):
    """A column: its head, what a row has there, and how that is shown: at the left if it is text."""

    head: str
    value: Callable[[Any], Value]
    show: Callable[[Any], str] = str
    is_text: bool = False


class Order(NamedTuple):
    """The column by which a table is sorted, and whether the greatest comes first."""

    column: int
    descending: bool


class Table(NamedTuple):
    """A table: what it is called, its columns, and by which of them it is sorted at first."""

    title: str
    columns: tuple[Column, ...]
    first: int

    def order_by(self, column: int) -> Order:
        """The order of a column that was just chosen: text from A on, numbers from the greatest."""
        return Order(column % len(self.columns), not self.columns[column % len(self.columns)].is_text)

    def lines(self, rows: Sequence[Any], order: Order, wanted: str = "") -> list[str]:
        """The head, in which the column that sorts is marked, and a line for each row.

        Only rows whose text has ``wanted`` in it are there, in letters of either case. A value of None is
        shown as ``-``, and comes last in every order.
        """
        value = self.columns[order.column].value
        known: list[Any] = [row for row in rows if value(row) is not None]
        known.sort(key=value, reverse=order.descending)  # type: ignore[arg-type]
        unknown = [row for row in rows if value(row) is None]
        cells = [[_cell(column, row) for column in self.columns] for row in [*known, *unknown]]
        cells = [words for words in cells if wanted.lower() in "  ".join(words).lower()]
        heads = [column.head for column in self.columns]
        heads[order.column] += "v" if order.descending else "^"
        widths = [max(map(len, words)) for words in zip(heads, *cells)]
        return [self._line(words, widths) for words in [heads, *cells]]

    def _line(self, words: Sequence[str], widths: Sequence[int]) -> str:
        placed = [
            word.ljust(width) if column.is_text else word.rjust(width)
            for column, word, width in zip(self.columns, words, widths)
        ]
        return "  ".join(placed).rstrip()


def _cell(column: Column, row: Any) -> str:
    value = column.value(row)
    return "-" if value is None else printable(column.show(value))
