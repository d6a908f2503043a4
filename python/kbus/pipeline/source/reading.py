# SPDX-License-Identifier: MIT
"""Reading parts of captures as rows of the data source, as its options ask for it."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Optional

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kbus.capture.blocks import Damage

from ..decode.batches import Messages, messages, source_batch
from ..decode.beginning import open_upload
from ..decode.scan import Found, Piece, Range, scan_part
from ..decode.sections import SectionHead
from ..tables import schemas
from .selection import Selection, filtered

SPLIT = 128 << 20
SETTLE = 60
_MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


class CorruptCapture(ValueError):
    """A capture is damaged, and the mode is FAILFAST."""


@dataclass(frozen=True)
class Task(InputPartition):
    """What one task reads: parts of files, one after the other."""

    parts: tuple[tuple[str, Range], ...]


class Options:
    """The options, checked. Raises ValueError for one that is wrong."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.path = options.get("path", "")
        if not self.path:
            raise ValueError('no path: spark.read.format("kbus").load("DIRECTORY")')
        self.mode = options.get("mode", _MODES[0]).upper()
        if self.mode not in _MODES:
            raise ValueError(f"option mode is {self.mode!r}, and not one of {', '.join(_MODES)}")
        self.split = _number(options, "split", SPLIT)
        self.max_bytes = _number(options, "maxBytes", 0)
        self.settle = _number(options, "settle", SETTLE)
        self.selection = Selection.from_options(options)


def _number(options: MutableMapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not text.isdigit():
        raise ValueError(f"option {name} is {text!r}, and not a whole number")
    return int(text)


#: A file from its beginning to its end
WHOLE = Range(0, None, None)


def wanted_columns(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of the columns that ``schema`` names. Raises ValueError for one that there is
    not.
    """
    known = {each.name: each for each in schemas.arrow_schema(schemas.SOURCE)}
    missing = [name for name in schema.fieldNames() if name not in known]
    if missing:
        raise ValueError(f"there is no column {', '.join(missing)}; there are {', '.join(known)}")
    return pa.schema([known[name] for name in schema.fieldNames()])


def read_range(path: str, part: Range, settings: Options, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows of the data source from part of a file. Raises CorruptCapture in the mode FAILFAST."""
    for each in messages(_wanted(_found(path, part), settings.selection)):
        if isinstance(each, Messages):
            keep = settings.selection.rows(each)
            if keep is None or keep.any():
                yield filtered(source_batch(each, path, columns), keep)
        elif isinstance(each, Damage):
            if settings.mode == "FAILFAST":
                raise CorruptCapture(f"{path}: at byte {each.offset}: {each.reason}")
            if settings.mode == "PERMISSIVE":
                yield source_batch(each, path, columns)


def _found(path: str, part: Range) -> Iterator[Found]:
    """Yield what is found in part of a file; it is damage if the file can't be opened."""
    try:
        file = open_upload(path, part.begins)
    except OSError as error:
        yield Damage(part.begin, (part.end or part.begin) - part.begin, error.strerror or str(error))
        return
    with file:
        yield from scan_part(file, part)


def _wanted(found: Iterator[Found], selection: Selection) -> Iterator[Found]:
    """Yield what was found, but no packets of devices that nobody asks for."""
    section: Optional[SectionHead] = None
    wants = True
    for each in found:
        if isinstance(each, Piece):
            if each.section is not section:
                section, wants = each.section, selection.wants_device(each.section.device)
            if not wants:
                continue
        yield each
