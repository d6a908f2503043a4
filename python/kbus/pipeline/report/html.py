# SPDX-License-Identifier: MIT
"""Pieces of the page: sections, and tables that say what is in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple, Optional

from . import words
from .findings import Row


class Field(NamedTuple):
    """A column: its title, what it says of a row, and by which number it is sorted if not by what it says."""

    title: str
    show: Callable[[Row], str]
    sort_by: Optional[Callable[[Row], Optional[float]]] = None


def text(title: str, key: str) -> Field:
    """Return a column of text."""
    return Field(title, lambda row: escape(str(row[key])))


def number(title: str, key: str) -> Field:
    """Return a column of whole numbers."""
    return Field(title, lambda row: words.number(row[key]))


def time(title: str, key: str) -> Field:
    """Return a column of times in nanoseconds."""
    return Field(title, lambda row: words.duration(row[key]), lambda row: row[key])


def size(title: str, key: str) -> Field:
    """Return a column of numbers of bytes."""
    return Field(title, lambda row: words.size(row[key]), lambda row: row[key])


def share(title: str, key: str) -> Field:
    """Return a column of shares, in percent."""
    return Field(title, lambda row: words.share(row[key]))


def moment(title: str, key: str) -> Field:
    """Return a column of times of day."""
    return Field(title, lambda row: words.moment(row[key]))


def section(name: str, title: str, says: str, *parts: str) -> str:
    """Return a section with a title, and a sentence that is plain text."""
    return (
        f'<section id="{name}"><h2>{title}</h2><p class="says">{escape(says)}</p>{"".join(parts)}</section>'
    )


def table(caption: str, rows: Sequence[Row], fields: Sequence[Field], total: int) -> str:
    """Return a table, with a sentence if ``total`` is more than its rows; nothing without rows."""
    if not rows:
        return ""
    more = f"<p class='more'>{len(rows):,} of {total:,} are shown.</p>" if total > len(rows) else ""
    return (
        # What scrolls must be reached by keys, too.
        f'<div class="wide" tabindex="0" role="group" aria-label="{escape(caption)}">'
        f"{bare_table(caption, rows, fields)}</div>{more}"
    )


def bare_table(caption: str, rows: Sequence[Row], fields: Sequence[Field]) -> str:
    """Return a table that neither scrolls nor is sorted."""
    head = "".join(f"<th scope=col>{escape(field.title)}</th>" for field in fields)
    body = "".join(f"<tr>{_head(row, fields[0])}{_cells(row, fields[1:])}</tr>\n" for row in rows)
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _head(row: Row, field: Field) -> str:
    return f"<th scope=row>{field.show(row)}</th>"


def _cells(row: Row, fields: Sequence[Field]) -> str:
    return "".join(f"<td{_value(row, field)}>{field.show(row)}</td>" for field in fields)


def _value(row: Row, field: Field) -> str:
    found: Any = field.sort_by(row) if field.sort_by else None
    return "" if found is None else f" data-v={found:.3g}"
