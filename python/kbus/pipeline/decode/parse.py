# SPDX-License-Identifier: MIT
"""From packets to Arrow: the columns of many messages at once.

What makes a packet a good one is what ``kbus.capture.Reader`` says: the tests hold the two against each
other.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kbus import _abi as abi
from kbus.capture import frame, pcapng
from kbus.names import check_sent

from .sections import SectionHead
from .walk import Run

_PACKET_WORDS = (8 + pcapng.PACKET[pcapng.NATIVE].size) // 4
_ORIGIN_AT = frame.LEAST // 4
_HEADER_WORDS = abi.MESSAGE_HEADER.size // 4
_EXTENSION_WORDS = 2 * abi.ORIG_FROM.size // 4

_Numbers = NDArray[np.integer[Any]]

_NANO = 1_000_000_000
_LATEST = (1 << 63) - 1

#: Why a packet is of no use, in the order in which it is looked at.
REASONS = (
    "a packet of an interface that nothing describes",
    "a packet that is not whole",
    "a packet of another layout",
    "a packet whose checksum is wrong",
    "not a message",
)


class Parsed(NamedTuple):
    """The good packets of a run, column by column, all of the same length.

    ``words`` are those of the piece in their byte order, ``order``; ``header`` and ``name_at`` say in which
    word header and name of each message begin. ``bad`` are the packets that are not good: where they begin
    and end, in words, and which of REASONS.
    """

    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    bus: NDArray[np.int64]
    ts_ns: NDArray[np.int64]
    seq: NDArray[np.int64]
    mono_ns: NDArray[np.int64]
    lost: NDArray[np.int64]
    header: NDArray[np.int64]
    name_at: NDArray[np.int64]
    words: NDArray[np.uint32]
    order: str
    bad: list[tuple[int, int, int]]

    def only(self, keep: NDArray[np.bool_]) -> Parsed:
        """Return these packets only."""
        return Parsed._make([*(each[keep] for each in self[:_ARRAYS]), *self[_ARRAYS:]])


#: How many members of Parsed have an entry a packet
_ARRAYS = Parsed._fields.index("words")


def by_order(words: NDArray[np.uint32], run: Run, section: SectionHead) -> list[tuple[str, Run]]:
    """Return the packets that are in either byte order, which their version tells.

    It is that of the section, unless a tool has written the section anew.
    """
    start = words[np.minimum(run.begins + _PACKET_WORDS, len(words) - 1)]
    version, _ = _halves(start, section.order)
    swapped = version == frame.VERSION << 8
    if not swapped.any():
        return [(section.order, run)]
    parts = ((section.order, ~swapped), (_other(section.order), swapped))
    return [(order, Run(run.begins[which], run.ends[which])) for order, which in parts if which.any()]


def parse(data: bytes, words: NDArray[np.uint32], run: Run, section: SectionHead, order: str) -> Parsed:
    """Return what the packets of ``run`` say, all of them in one byte ``order``.

    ``words`` are ``data`` in the byte order of the section.
    """
    begins, ends = run
    inner = words if order == section.order else words.view(words.dtype.newbyteorder())
    reason = np.full(len(begins), -1, np.int8)

    def fail(which: int, wrong: NDArray[np.bool_]) -> None:
        reason[wrong & (reason < 0)] = which

    interface = words[begins + 2].astype(np.int64)
    is_described = interface < len(section.interfaces)
    fail(0, ~is_described)
    captured = words[begins + 5].astype(np.int64)
    room = (ends - begins) * 4 - pcapng.OVERHEAD - pcapng.PACKET[pcapng.NATIVE].size
    fail(1, (captured > room) | (captured != words[begins + 6]) | (captured < frame.LEAST))
    at = begins + _PACKET_WORDS
    start = inner[np.minimum(at, len(words) - 1)]
    version, length = _halves(start, order)
    # A later layout may have a longer header, of whole words as everything is.
    fail(2, (version != frame.VERSION) | (length < frame.LEAST) | (length > captured) | (length % 4 != 0))
    good = np.flatnonzero(reason < 0)
    if len(good):
        begin, end = ((at[good] + 2) * 4).tolist(), (at[good] * 4 + captured[good]).tolist()
        crc32 = zlib.crc32
        sums = np.array([crc32(data[a:b]) for a, b in zip(begin, end)], np.uint32)
        reason[good[sums != inner[at[good] + 1]]] = 3
    bus = np.zeros(len(begins), np.int64)
    bus[is_described] = section.interfaces.table["bus"][interface[is_described]]
    tells = (reason < 0) & (length >= frame.LENGTH)
    bus[tells] = inner[at[tells] + _ORIGIN_AT]
    fail(2, bus > frame.MOST_BUS)
    header = at + length.astype(np.int64) // 4
    message_bytes = captured - length
    fail(4, message_bytes < (_HEADER_WORDS + 1) * 4)
    good = np.flatnonzero(reason < 0)
    name_at = np.zeros(len(begins), np.int64)
    if len(good):
        wrong, name_at[good] = _check_messages(inner, header[good], message_bytes[good], order)
        reason[good[wrong]] = 4
    keep = reason < 0
    bad = [(int(begins[i]), int(ends[i]), int(reason[i])) for i in np.flatnonzero(~keep)]
    begins, ends, at = begins[keep], ends[keep], at[keep]
    ticks = words[begins + 3].astype(np.uint64) << np.uint64(32) | words[begins + 4]
    time = _nanoseconds(ticks, section.interfaces.table["ticks"][interface[keep]])
    low, high = (0, 1) if order == pcapng.LITTLE else (1, 0)
    seq, mono, lost = (_u64(inner[at + 2 + 2 * k + low], inner[at + 2 + 2 * k + high]) for k in range(3))
    bus, header, name_at = bus[keep], header[keep], name_at[keep]
    return Parsed(begins, ends, bus, time, seq, mono, lost, header, name_at, inner, order, bad)


def recordings(words: NDArray[np.uint32], run: Run, order: str) -> NDArray[np.int64]:
    """Return of which recording each packet says it is, right or not; -1 of one that does not say.

    ``words`` are in the byte order ``order``; a packet may be in the other one.
    """
    at = run.begins + _PACKET_WORDS
    found = np.full(len(at), -1, np.int64)
    which = np.flatnonzero(run.ends > at + _ORIGIN_AT + 1)
    at = at[which]
    for inner, each in ((words, order), (words.view(words.dtype.newbyteorder()), _other(order))):
        version, length = _halves(inner[at], each)
        tells = (version == frame.VERSION) & (length >= frame.LENGTH)
        found[which[tells]] = inner[at[tells] + _ORIGIN_AT + 1]
    return found


def _halves(words: NDArray[np.uint32], order: str) -> tuple[_Numbers, _Numbers]:
    """Return the first and the second number of each word, of which it has two of 16 bits."""
    low, high = words & 0xFFFF, words >> 16
    return (low, high) if order == pcapng.LITTLE else (high, low)


def _other(order: str) -> str:
    return pcapng.BIG if order == pcapng.LITTLE else pcapng.LITTLE


def _nanoseconds(ticks: NDArray[np.uint64], units: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return times in ns; those later than 64 bits can tell become the latest that they can."""
    if (units != _NANO).any():
        pairs = zip(ticks.tolist(), units.tolist())
        return np.array([min(tick * _NANO // unit, _LATEST) for tick, unit in pairs], np.int64)
    found: NDArray[np.uint64] = np.minimum(ticks, np.uint64(_LATEST))
    return found.astype(np.int64)


def _u64(low: NDArray[np.uint32], high: NDArray[np.uint32]) -> NDArray[np.int64]:
    return high.astype(np.int64) << 32 | low


def _check_messages(
    words: NDArray[np.uint32], header: NDArray[np.int64], size: NDArray[np.int64], order: str
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which are no messages, and in which word the name of each begins."""
    flags = words[header + 7]
    name_len = words[header + 8].astype(np.int64)
    extension = np.where(flags & abi.BIT_EXTENDED, _EXTENSION_WORDS, 0)
    name_at = header + _HEADER_WORDS + extension
    name_words = (name_len + 3) // 4
    promised = _HEADER_WORDS + extension + name_words + words[header + 9] + 1
    wrong = (words[header] != abi.MSG_START_GUARD) | (promised * 4 != size)
    end = header + size // 4 - 1
    wrong |= words[end] != abi.MSG_END_GUARD
    # What the last word of the name has after the name must be zero.
    last = words[np.where(wrong | (name_len == 0), 0, name_at + name_words - 1)]
    spare = (-name_len % 4 * 8).astype(np.uint32)
    padding = last >> (32 - spare) if order == pcapng.LITTLE else last << (32 - spare)
    wrong |= (name_len > 0) & (spare > 0) & (padding != 0)
    return wrong, name_at


def strings(data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64], which: int = 0) -> pa.Array:
    """Return the bytes between ``begins`` and ``ends``, which ascend and do not overlap, as a binary array.

    All of ``data`` is one Arrow array whose values are in turn one of these and what lies between; Arrow then
    takes every other of them.
    """
    count = len(begins)
    borders = np.empty(2 * count, np.int32)
    borders[0::2], borders[1::2] = begins, ends
    pieces = pa.BinaryArray.from_buffers(
        pa.binary(), max(2 * count - 1, 0), [None, pa.py_buffer(borders), pa.py_buffer(data)]
    )
    return pieces.take(pa.array(np.arange(which, 2 * count, 2, dtype=np.int32)))


def names(data: bytes, parsed: Parsed) -> pa.DictionaryArray:
    """Return the names, still as bytes, each different one stored once."""
    begins = parsed.name_at * 4
    return strings(data, begins, begins + parsed.words[parsed.header + 8]).dictionary_encode()


def payload(data: bytes, parsed: Parsed) -> pa.Array:
    """Return the data of the messages: binary, null where there are none."""
    length = _payload_length(parsed)
    begins = parsed.name_at * 4 + (parsed.words[parsed.header + 8].astype(np.int64) + 3) // 4 * 4
    values = strings(data, begins, begins + length)
    return pc.if_else(pa.array(parsed.words[parsed.header + 9] > 0), values, pa.scalar(None, pa.binary()))


def _payload_length(parsed: Parsed) -> NDArray[np.int64]:
    """Return how many bytes of data each message has, without padding."""
    size = parsed.words[parsed.header + 9].astype(np.int64) * 4
    # A careless sender may claim padding where there is no data, and KBUS does not look.
    pad = (parsed.words[parsed.header + 7] >> abi.DATA_PAD_SHIFT).astype(np.int64)
    return np.where(size > 0, size - pad, 0)


def valid_names(distinct: pa.Array) -> Sequence[bool]:
    """Return which of these are names of messages."""

    def is_name(name: bytes) -> bool:
        try:
            check_sent(name.decode())
        except ValueError:
            return False
        return True

    return [is_name(each) for each in distinct.to_pylist()]
