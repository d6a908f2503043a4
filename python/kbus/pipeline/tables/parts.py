# SPDX-License-Identifier: MIT
"""What a table consists of: Parquet files, and where they stand."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

from .stores import Store, make_directory, size_of

#: How Delta's library shows what caused an error, coloured or not
_CAUSE = re.compile(r"\s*\n\s*(?:\x1b\[\d+m)?↳(?:\x1b\[\d+m)?\s*")
#: A store's answer, and what it says
_ANSWER = re.compile(r"<\?xml.*?<Message>(.*?)</Message>.*", re.DOTALL)


class WarehouseError(Exception):
    """The tables can't be used; the text says why."""


class ConflictError(WarehouseError):
    """Another step has changed what this one was made from."""


class Partition(NamedTuple):
    """A directory within a table: a date, as ISO 8601, and a bucket of devices."""

    date: str
    bucket: int


@dataclass(frozen=True)
class Part:
    """A Parquet file of a table: its path within the directory of the tables, rows, bytes, and partition.

    ``stats`` is what Delta is told of its columns, as JSON; empty as long as nobody has looked.
    """

    table: str
    path: str
    rows: int
    bytes: int
    partition: Optional[Partition] = None
    stats: str = field(default="", compare=False)


def part_from(said: dict[str, Any]) -> Part:
    """Return the file of which a log says this, with the names of ``Part`` for keys."""
    return Part(**{**said, "partition": Partition(*said["partition"]) if said["partition"] else None})


def place_of(root: Store, table: str, partition: Optional[Partition] = None) -> Store:
    """Return where files of a table, or of one of its partitions, are. It is made if it is not there."""
    path = root / table
    if partition:
        path = path / f"date={partition.date}" / f"bucket={partition.bucket}"
    make_directory(path)
    return path


def sync(path: Path) -> None:
    """Have a file or a directory on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check(root: Store, parts: Iterable[Part]) -> None:
    """Raise WarehouseError unless all these files are there, and as long as they were."""
    for part in parts:
        problem = problem_of(root, part)
        if problem:
            raise WarehouseError(f"{problem}: `kbus-pipeline check` says what to do")


def problem_of(root: Store, part: Part) -> str:
    """Return what is wrong with the file at first sight; empty if nothing is."""
    path = root / part.path
    try:
        size = size_of(path)
    except FileNotFoundError:
        return f"{path} is missing"
    return "" if size == part.bytes else f"{path} has {size:,} bytes of {part.bytes:,}"


def first_line(error: BaseException) -> str:
    """Return what an exception says first, which for some is followed by where in their program it was.

    Delta's library has each cause on a line of its own, the last of them may be a store's answer in XML.
    """
    text = _ANSWER.sub(r"\1", _CAUSE.sub(": ", str(error)))
    return (text.splitlines() or [type(error).__name__])[0]
