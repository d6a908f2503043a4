# SPDX-License-Identifier: MIT
"""What the footer of a Parquet file says of it: rows, and for Delta the least and the greatest values."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, Optional

import pyarrow as pa
import pyarrow.parquet as pq

from .parts import Part, WarehouseError, first_line, problem_of
from .stores import Store, arrow

#: Of longer texts the beginning is told: all of them would make the log longer than it helps.
_MOST_TEXT = 64
#: No text is after one that goes on with this character, unless it has that too.
_LAST = "\U0010ffff"
#: Bytes of the length of a footer, and of the mark behind it
_MARK = 8
_MILLISECOND = timedelta(milliseconds=1)


def seen(root: Store, part: Part) -> Part:
    """Return the file with its ``stats``, as it is found here, whoever wrote it.

    Raises WarehouseError if it is not there, or not what it was said to be.
    """
    problem = problem_of(root, part)
    if problem:
        raise WarehouseError(
            f"{problem}, as seen from here: all machines must see the tables under the same name"
        )
    return replace(part, stats=stats(footer_of(root, part)))


def footer_of(root: Store, part: Part) -> pq.FileMetaData:
    """Return the footer of a file.

    Raises WarehouseError if it is damaged, or tells of other rows, and OSError if it can't be read now.
    """
    path = root / part.path
    end = _end_of(path)
    try:
        footer = pq.read_metadata(pa.BufferReader(end))
    except (OSError, pa.ArrowException) as error:
        raise WarehouseError(f"{path} is no Parquet file that is whole: {first_line(error)}") from error
    if footer.num_rows != part.rows:
        raise WarehouseError(f"{path} has {footer.num_rows:,} rows of {part.rows:,}")
    return footer


def _end_of(path: Store) -> bytes:
    """Return what a Parquet file ends with: its footer, the length of that, and a mark. Raises OSError."""
    filesystem, name = arrow(path)
    with filesystem.open_input_file(name) as file:
        size = file.size()
        length = int.from_bytes(file.read_at(min(size, _MARK), max(0, size - _MARK))[:4], "little")
        count = min(size, length + _MARK)
        return bytes(file.read_at(count, size - count))


def stats(footer: pq.FileMetaData) -> str:
    """Return the statistics that Delta's log has of a file, as JSON."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        found = [group.column(index).statistics for group in groups]
        if not found or "." in name:
            continue
        if all(each is not None and each.has_null_count for each in found):
            nulls[name] = sum(each.null_count for each in found)
        if all(each is not None and each.has_min_max for each in found):
            low, high = (
                _told(min(each.min for each in found)),
                _told(max(each.max for each in found), up=True),
            )
            if low is not None and high is not None:
                least[name], greatest[name] = low, high
    told = {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(told)


def _told(value: Any, up: bool = False) -> Optional[Any]:
    """Return a value as Delta's log has it; None if it is not to be told.

    Times are in milliseconds there, so the greatest is rounded ``up``, and so is a long text.
    """
    if isinstance(value, datetime):
        utc = value.astimezone(timezone.utc) if value.tzinfo else value.replace(tzinfo=timezone.utc)
        rest = timedelta(microseconds=utc.microsecond % 1000)
        utc += _MILLISECOND - rest if rest and up else -rest
        return utc.strftime("%Y-%m-%dT%H:%M:%S.") + f"{utc.microsecond // 1000:03}Z"
    if isinstance(value, str) and len(value) > _MOST_TEXT and _LAST not in value:
        return value[:_MOST_TEXT] + _LAST * up
    return value if isinstance(value, (int, str)) else None
