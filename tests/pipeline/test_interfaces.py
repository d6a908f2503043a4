# SPDX-License-Identifier: MIT
"""Sections of many interfaces: a limit, and no more time than other files of their size take."""

from __future__ import annotations

import io
import json
import pickle
import struct
import time
from collections.abc import Callable, Sequence

import pytest

from kbus import Announcement, Message
from kbus.capture import Frame, Writer, pcapng
from kbus.capture.assumed import MOST_INTERFACES
from kbus.capture.blocks import Damage
from kbus.pipeline import batches, scan
from kbus.pipeline.sections import Section
from tests.pipeline.captures import NOON, capture, info
from tests.pipeline.test_scan import SAMPLES, by_reader, by_scan

ORDER = pcapng.NATIVE
DESCRIPTION = pcapng.interface_description(ORDER, "kbus3")
SHORT_DESCRIPTION = pcapng.block(ORDER, pcapng.INTERFACE_DESCRIPTION, struct.pack("HHI", 147, 0, 0))
UNKNOWN = pcapng.block(ORDER, 0x777, b"")
SIZE = 1 << 19


def header(buses: Sequence[int] = (0,)) -> bytes:
    return pcapng.section_header(ORDER, json.dumps({**info(), "bus": list(buses)}, separators=(",", ":")))


def packet(interface: int) -> bytes:
    file = io.BytesIO()
    writer = Writer(file, info(), range(interface + 1))
    begin = file.tell()
    writer.write(interface, NOON, Frame(1, 0, 0), [Announcement("$.A").to_bytes()])
    return file.getvalue()[begin:]


@pytest.mark.parametrize("count", [MOST_INTERFACES - 1, MOST_INTERFACES, MOST_INTERFACES + 3])
def test_descriptions_beyond_the_limit_are_damage(count: int) -> None:
    used = packet(count - 1)
    raw = header() + DESCRIPTION * count + used + SHORT_DESCRIPTION + used
    rows, damage = by_scan(raw)
    assert (rows, damage) == by_reader(raw)
    assert len(rows) == (2 if count <= MOST_INTERFACES else 0)
    assert bool(damage) == (count >= MOST_INTERFACES)


@pytest.mark.parametrize("count", [MOST_INTERFACES, MOST_INTERFACES + 1])
def test_a_header_that_tells_too_many_devices_tells_none(count: int) -> None:
    raw = header([0] * count) + packet(count - 1) + DESCRIPTION + packet(0)
    rows, damage = by_scan(raw)
    assert (rows, damage) == by_reader(raw)
    assert len(rows) == (2 if count <= MOST_INTERFACES else 1)


def many_descriptions() -> bytes:
    return header() + SHORT_DESCRIPTION * (SIZE // len(SHORT_DESCRIPTION))


def packets_behind_many_descriptions() -> bytes:
    raw = (packet(0) + UNKNOWN) * (SIZE // 160)
    return header() + SHORT_DESCRIPTION * (MOST_INTERFACES - 1) + raw


def packets_between_descriptions() -> bytes:
    return header() + (SHORT_DESCRIPTION + packet(0)) * (MOST_INTERFACES - 1)


def assumed_for_packets() -> bytes:
    start = header([0] * MOST_INTERFACES)
    raw = start + packet(MOST_INTERFACES - 1)
    return raw * (SIZE // len(raw))


def seconds(raw: bytes) -> float:
    """How long reading it takes, the shorter of two times."""
    times = []
    for _ in range(2):
        begin = time.process_time()
        for _ in batches.messages(scan.scan(io.BytesIO(raw))):
            pass
        times.append(time.process_time() - begin)
    return min(times)


@pytest.mark.parametrize(
    "make",
    [
        many_descriptions,
        packets_behind_many_descriptions,
        packets_between_descriptions,
        assumed_for_packets,
    ],
)
def test_it_takes_as_long_as_blocks_of_other_kinds(make: Callable[[], bytes]) -> None:
    """Pieces of a single packet each are the slowest of what is healthy."""
    raw = make()
    slow = (packet(0) + UNKNOWN) * (len(raw) // 120)
    assert seconds(raw) < 1.4 * seconds(header() + DESCRIPTION + slow) + 0.2


def test_a_section_keeps_the_interfaces_that_it_had() -> None:
    """Where a range begins, only what is described before it is known."""
    messages: list[Message] = [*SAMPLES, *SAMPLES]
    begin = capture(messages, info(bus=[0, 3, 3]), buses=(0,), is_sealed=False)
    raw = begin + DESCRIPTION + packet(1) + DESCRIPTION + packet(2)
    sections = [each.section for each in scan.scan(io.BytesIO(raw)) if isinstance(each, scan.Piece)]
    assert [len(each.interfaces) for each in sections] == [1, 2, 3]
    for number, each in enumerate(sections):
        again: Section = pickle.loads(pickle.dumps(each))
        assert len(again.interfaces) == number + 1
        assert again.interfaces.table["bus"].tolist() == [0, 3, 3][: number + 1]
    assert not [each for each in scan.scan(io.BytesIO(raw)) if isinstance(each, Damage)]


def test_a_device_of_a_number_that_there_is_not() -> None:
    raw = header([1 << 40]) + packet(0)
    assert len(by_scan(raw)[0]) == len(by_reader(raw)[0]) == 1
