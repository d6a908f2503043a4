# SPDX-License-Identifier: MIT
"""Messages of a capture as Arrow record batches, and what is worth knowing about them besides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Optional, Union

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbus import _abi as abi
from kbus.capture import pcapng
from kbus.capture.blocks import Damage

from . import parse
from .columns import MESSAGES
from .scan import Counts, End, Found, Piece
from .sections import SectionHead
from .walk import Run

_FLAGS = (
    ("want_a_reply", abi.BIT_WANT_A_REPLY),
    ("want_you_to_reply", abi.BIT_WANT_YOU_TO_REPLY),
    ("synthetic", abi.BIT_SYNTHETIC),
    ("urgent", abi.BIT_URGENT),
    ("all_or_wait", abi.BIT_ALL_OR_WAIT),
    ("all_or_fail", abi.BIT_ALL_OR_FAIL),
)
_USER_SHIFT = 16
_BODY = [each.name for each in MESSAGES]


class Messages(NamedTuple):
    """Messages of one piece. ``columns`` are those of the table ``messages``, by name.

    ``device``, ``boot``, ``load``, ``capture`` and ``name`` are dictionary arrays. ``parsed`` has the numbers
    again.
    """

    columns: dict[str, pa.Array]
    parsed: parse.Parsed
    section: SectionHead
    offset: int

    def __len__(self) -> int:
        return len(self.parsed.begins)


def messages(found: Iterator[Found]) -> Iterator[Union[Messages, Damage, Counts, End]]:
    """Yield what ``scan`` found, its packets as messages, and as damage those that are none."""
    for each in found:
        if isinstance(each, Piece):
            yield from _of_piece(each)
        else:
            yield each


def _of_piece(piece: Piece) -> Iterator[Union[Messages, Damage]]:
    for order, run in parse.by_order(piece.words, piece.run, piece.section):
        yield from _of_run(piece, run, order)


def _of_run(piece: Piece, run: Run, order: str) -> Iterator[Union[Messages, Damage]]:
    parsed = parse.parse(piece.data, piece.words, run, piece.section, order)
    bad = parsed.bad
    names: Optional[pa.DictionaryArray] = None
    if len(parsed.begins):
        names = parse.names(piece.data, parsed)
        valid = np.array(parse.valid_names(names.dictionary), bool)
        if not valid.all():
            good = valid[names.indices.to_numpy()]
            bad = bad + [(int(parsed.begins[i]), int(parsed.ends[i]), 4) for i in np.flatnonzero(~good)]
            parsed = parsed.only(good)
            names = parse.names(piece.data, parsed) if len(parsed.begins) else None
    for begin, end, reason in sorted(bad):
        yield Damage(piece.offset + begin * 4, (end - begin) * 4, parse.REASONS[reason])
    if names is not None:
        yield Messages(_columns(piece, parsed, names), parsed, piece.section, piece.offset)


def _columns(piece: Piece, parsed: parse.Parsed, names: pa.DictionaryArray) -> dict[str, pa.Array]:
    section, words, header = piece.section, parsed.words, parsed.header
    count = len(header)
    flags = words[header + 7]
    columns = {
        "session": _sessions(piece, parsed),
        "device": _same(section.device, count),
        "boot": _same(section.boot, count),
        "load": _same(section.load, count),
        "bus": parsed.bus.astype(np.int32),
        "ts": pa.array(parsed.ts_ns // 1000, pa.timestamp("us", tz="UTC")),
        "ts_ns": parsed.ts_ns,
        "mono_ns": parsed.mono_ns,
        "rec_seq": parsed.seq,
        "lost": parsed.lost,
        "network": _u32(words[header + 1]),
        "serial": _u32(words[header + 2]),
        "reply_network": _u32(words[header + 3]),
        "reply_serial": _u32(words[header + 4]),
        "to": _u32(words[header + 5]),
        "from": _u32(words[header + 6]),
        **{name: (flags & bit) != 0 for name, bit in _FLAGS},
        "user_flags": ((flags & abi.BITS_USER) >> _USER_SHIFT).astype(np.int32),
        **_extension(words, header, (flags & abi.BIT_EXTENDED) != 0),
        "big_endian": np.full(count, parsed.order == pcapng.BIG),
        "name": pa.DictionaryArray.from_arrays(names.indices, names.dictionary.cast(pa.string())),
        "data": parse.payload(piece.data, parsed),
        "capture": _same(section.capture, count),
        "offset": parsed.begins * 4 + (piece.offset - section.begin),
        "length": (parsed.ends - parsed.begins) * 4,
    }
    return {name: pa.array(columns[name]) for name in _BODY}


def _sessions(piece: Piece, parsed: parse.Parsed) -> NDArray[np.int64]:
    section = piece.section
    said = np.full(len(parsed.begins), -1, np.int64)
    if section.is_unknown:
        said = parse.recordings(piece.words, Run(parsed.begins, parsed.ends), section.order)
    # Both are whole numbers from -1, and those of devices have 30 bits.
    places, which = np.unique((said + 1) << 30 | parsed.bus + 1, return_inverse=True)
    numbers = [section.session((each & (1 << 30) - 1) - 1, (each >> 30) - 1) for each in places.tolist()]
    return np.array(numbers, np.int64)[which]


def _u32(values: NDArray[np.uint32]) -> NDArray[np.int64]:
    return values.astype(np.int64)


def _same(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))


def _extension(
    words: NDArray[np.uint32], header: NDArray[np.int64], is_there: NDArray[np.bool_]
) -> dict[str, pa.Array]:
    """Return orig_from and final_to, null where the message has none."""
    names = ("orig_network", "orig_local", "final_network", "final_local")
    if not is_there.any():
        return {name: pa.nulls(len(header), pa.int64()) for name in names}
    # The shortest message is followed by enough words of its block for these not to be out of bounds.
    at = np.where(is_there, header + abi.MESSAGE_HEADER.size // 4, 0)
    return {name: pa.array(_u32(words[at + k]), mask=~is_there) for k, name in enumerate(names)}


def source_batch(found: Union[Messages, Damage], path: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of the data source, with the columns of ``schema`` only."""
    if isinstance(found, Damage):
        row = {"path": path, "offset": found.offset, "length": found.length, "corrupt": found.reason}
        return pa.RecordBatch.from_pylist([row], schema)
    count = len(found)
    columns = {**found.columns, "path": _same(path, count), "corrupt": pa.nulls(count, pa.string())}
    return pa.RecordBatch.from_arrays([columns[each.name].cast(each.type) for each in schema], schema=schema)
