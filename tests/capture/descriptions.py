# SPDX-License-Identifier: MIT
"""Captures of which a part of an interface's description has become zeros."""

from __future__ import annotations

import io
from collections.abc import Iterator

from kbus.capture import Damage, pcapng
from kbus.capture.input import Window
from kbus.capture.sections import Blocks

from .captures import INFO, capture, numbered, without_origins

COUNT = 60
_ZEROS = bytes(16)

WHOLE = {
    f"{'old' if is_old else 'new'} {order} of {len(buses)}": without_origins(data) if is_old else data
    for is_old in (False, True)
    for order in (pcapng.LITTLE, pcapng.BIG)
    for buses in ([5], [0, 3])
    for data in [capture(numbered(COUNT), order, buses=buses, info={**INFO, "bus": buses})]
}


def with_zeros(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each word of the descriptions at which 16 bytes that become zeros are inside one, and the capture.

    Also the word before the first one, which ends the section's header, as -1.
    """
    for each in Blocks(Window(io.BytesIO(data))):
        assert not isinstance(each, Damage)
        if each.kind == pcapng.INTERFACE_DESCRIPTION:
            for at in range(each.offset, each.offset + len(each.raw) - len(_ZEROS) + 1, 4):
                yield at, _zeroed(data, at)
        elif each.kind == pcapng.SECTION_HEADER:
            yield -1, _zeroed(data, len(each.raw) - 4)


def _zeroed(data: bytes, at: int) -> bytes:
    return data[:at] + _ZEROS + data[at + len(_ZEROS) :]
