# SPDX-License-Identifier: MIT
"""Sections of many interfaces: a limit, and no more time than other files of their size take."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kbus import Announcement
from kbus.capture import Frame, Reader, Writer, pcapng
from kbus.capture.blocks import Damage
from kbus.capture.sections import MOST_INTERFACES, NOT_DESCRIBED
from kbus.pipeline.decode import batches, scan
from kbus.pipeline.decode.sections import SectionHead
from kbus.pipeline.ingest.loading import Damages
from tests.capture.captures import without_origins
from tests.capture.effort import peak_memory
from tests.pipeline.captures import NOON, info
from tests.pipeline.test_scan import by_reader, by_scan

ORDER = pcapng.NATIVE
DESCRIPTION = pcapng.interface_description(ORDER, "kbus3")
SHORT_DESCRIPTION = pcapng.block(ORDER, pcapng.INTERFACE_DESCRIPTION, struct.pack("HHI", 147, 0, 0))
UNKNOWN = pcapng.block(ORDER, 0x777, b"")
SIZE = 1 << 19
#: As many devices as the module may have
MOST = 256
ALL = range(MOST)


def said(buses: Sequence[int] = ()) -> dict[str, Any]:
    """What a header tells; if no devices are given, it does not tell them."""
    return {key: value for key, value in info(bus=list(buses)).items() if buses or key != "bus"}


def header(buses: Sequence[int] = ()) -> bytes:
    return pcapng.section_header(ORDER, json.dumps(said(buses), separators=(",", ":")))


def packet(interface: int, buses: Sequence[int] = ()) -> bytes:
    """A packet of a section of these devices."""
    file = io.BytesIO()
    writer = Writer(file, said(buses), buses or range(interface + 1))
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


@pytest.mark.parametrize("count", [MOST, MOST + 1])
def test_a_header_that_tells_too_many_devices_tells_none(count: int) -> None:
    buses = list(range(count))
    raw = header(buses) + packet(count - 1, buses) + DESCRIPTION + packet(0, buses)
    rows, damage = by_scan(raw)
    assert (rows, damage) == by_reader(raw)
    assert len(rows) == (2 if count <= MOST else 1)


def test_interfaces_that_are_missing_together_are_one_damage() -> None:
    raw = (header(ALL) + packet(MOST - 1, ALL)) * 3
    with Reader(io.BytesIO(raw), strict=False) as reader:
        assert [each.facts.bus for each in reader] == [MOST - 1] * 3
    found = [each for each in scan.scan(io.BytesIO(raw)) if isinstance(each, Damage)]
    assert found == reader.damage and len(found) == 3
    assert {each.reason for each in found} == {NOT_DESCRIBED}


def test_headers_that_claim_thousands_of_devices_take_no_memory() -> None:
    """A file of gzip that has 20 kB may be 1 MB of them, and each would be thousands of interfaces."""
    buses = range(4096)
    zipped = gzip.compress((header(buses) + packet(4095, buses)) * 50)
    assert len(zipped) < 30_000

    def read_all() -> None:
        for _ in batches.messages(scan.scan(io.BytesIO(zipped))):
            pass

    assert peak_memory(read_all) < 16 << 20


def test_descriptions_that_come_again_are_no_damage() -> None:
    """editcap makes one section of the files of a recorder that were put one after the other."""
    buses = [3, 5]
    again = DESCRIPTION + pcapng.interface_description(ORDER, "kbus5")
    raw = header(buses) + again + packet(1, buses) + again + packet(1, buses)
    rows, damage = by_scan(raw)
    assert (rows, damage) == by_reader(raw)
    assert [row[4] for row in rows] == [5, 5] and not damage


@pytest.mark.parametrize("tells", [True, False])
def test_interfaces_that_nobody_has_described(tells: bool) -> None:
    """There may be as many of them as there are devices, whether or not the packets tell theirs."""
    for index in (MOST - 1, MOST):
        raw = pcapng.section_header(ORDER, "lost") + packet(index)
        raw = raw if tells else without_origins(raw)
        rows, damage = by_scan(raw)
        assert (rows, damage) == by_reader(raw)
        assert [row[4] for row in rows] == ([index if tells else None] if index < MOST else [])
        assert damage


def test_damage_beyond_the_most_that_is_told_is_counted() -> None:
    damages = Damages()
    for number in range(700):
        damages.add(Damage(number, 2, "torn"))
    damages.add_all(damages)
    assert (len(damages.first), damages.count, damages.bytes) == (1000, 1400, 2800)
    assert damages.reasons() == ["and more, after 1000 places", "torn"]


def many_descriptions() -> bytes:
    return header() + SHORT_DESCRIPTION * (SIZE // len(SHORT_DESCRIPTION))


def packets_behind_many_descriptions() -> bytes:
    raw = (packet(0) + UNKNOWN) * (SIZE // 160)
    return header() + SHORT_DESCRIPTION * (MOST_INTERFACES - 1) + raw


def packets_between_descriptions() -> bytes:
    return header() + (SHORT_DESCRIPTION + packet(0)) * (MOST_INTERFACES - 1)


def assumed_for_packets() -> bytes:
    raw = header(ALL) + packet(MOST - 1, ALL)
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


@pytest.mark.long("measures time")
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
    buses = [0, 3, 5]
    begin = header(buses) + pcapng.interface_description(ORDER, "kbus0") + packet(0, buses)
    raw = begin + DESCRIPTION + packet(1, buses)
    raw += pcapng.interface_description(ORDER, "kbus5") + packet(2, buses)
    sections = [each.section for each in scan.scan(io.BytesIO(raw)) if isinstance(each, scan.Piece)]
    assert [len(each.interfaces) for each in sections] == [1, 2, 3]
    for number, each in enumerate(sections):
        again: SectionHead = pickle.loads(pickle.dumps(each))
        assert len(again.interfaces) == number + 1
        assert again.interfaces.table["bus"].tolist() == [0, 3, 5][: number + 1]
    assert not [each for each in scan.scan(io.BytesIO(raw)) if isinstance(each, Damage)]


def test_a_device_of_a_number_that_there_is_not() -> None:
    raw = header([1 << 40]) + packet(0, [0])
    assert len(by_scan(raw)[0]) == len(by_reader(raw)[0]) == 1
