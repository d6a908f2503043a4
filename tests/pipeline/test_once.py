# SPDX-License-Identifier: MIT
"""Each message once, and the holes that there are: recordings of several buses, however they are uploaded."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from kbus import Announcement
from kbus.capture import Frame, Reader, Writer
from kbus.pipeline.decode.paths import uploads
from kbus.pipeline.derive.holes import GAP, LOST, holes
from kbus.pipeline.ingest.batch import covered, ingest, rounds
from kbus.pipeline.ingest.loading import inspect, load
from kbus.pipeline.tables.parquet import write_rows
from kbus.pipeline.tables.steps import Entry
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import NOON, capture, info
from tests.pipeline.test_ingest import MANY
from tests.pipeline.warehouses import directory

SECOND = 10**9
GZIP = b"\x1f\x8b"
SUFFIXES = (".pcapng", ".pcapng.gz")


class Heard(NamedTuple):
    """A message: by which device's recorder, with which number, and what else tells where holes are."""

    device: str
    sequence: int
    bus: int
    mono_ns: int
    lost: int


class File(NamedTuple):
    """A file that a recorder has made, and where the packets after the first one begin and end."""

    raw: bytes
    packets: list[tuple[int, int]]


def test_a_copy_by_another_tool_is_another_recording(tmp_path: Path) -> None:
    """The field's case P5: docs/pipeline tells it."""
    path = tmp_path / "a.pcapng"
    path.write_bytes(capture(MANY))
    subprocess.run(["editcap", path, tmp_path / "b.pcapng"], check=True)
    subprocess.run(["tshark", "-r", path, "-w", tmp_path / "c.pcapng"], check=True, capture_output=True)
    shutil.copy(path, tmp_path / "d.pcapng")
    a, b, c, d = (each.captures for each in inspect(uploads(str(tmp_path)), 1 << 20))
    assert a == d
    assert not set(a) & {*b, *c}


@st.composite
def files(draw: st.DrawFn, device: str) -> list[File]:
    """What a recorder of some buses makes: its numbers go on from file to file."""
    buses = draw(st.sampled_from([(0,), (0, 3), (0, 3), (2, 0, 1)]))
    chance = draw(st.randoms(use_true_random=False))
    lost = dict.fromkeys(buses, 0)
    sequence, mono = 0, chance.choice([0, SECOND])
    found = []
    for _ in range(draw(st.integers(1, 3))):
        file = io.BytesIO()
        writer = Writer(file, {**info(device), "bus": list(buses)}, buses)
        ends = []
        for _ in range(draw(st.integers(1, 12))):
            sequence, mono = sequence + 1, mono + chance.choice([0, 1, 5]) * SECOND
            bus = chance.choice(buses)
            lost[bus] += chance.choice([0, 0, 0, 0, 2])
            message = Announcement("$.A", b"x" * chance.randrange(9)).to_bytes()
            frame = Frame(sequence, mono, lost[bus])
            writer.write(buses.index(bus), NOON + mono, frame, [message])
            ends.append(file.tell())
        found.append(File(file.getvalue(), list(zip(ends, ends[1:]))))
    return found


def damaged(file: File, chance: random.Random) -> bytes:
    """The file with packets that are damaged, but not its first, or cut.

    Interface and time of a packet, its bytes 8 to 19, have no checksum, so that damage there does not show.
    """
    raw = bytearray(file.raw)
    for begin, end in file.packets:
        if chance.random() < 0.2:
            at = chance.choice([*range(begin, begin + 8), *range(begin + 20, end)])
            raw[at] ^= 1 << chance.randrange(8)
    return bytes(raw[: chance.randrange(len(raw))] if chance.random() < 0.2 else raw)


@st.composite
def inboxes(draw: st.DrawFn) -> list[list[bytes]]:
    """What lies in the inbox when it is looked at, each time."""
    made = draw(files("pump")) + draw(files("valve"))
    chance = draw(st.randoms(use_true_random=False))
    found: list[list[bytes]] = []
    for _ in range(draw(st.integers(1, 3))):
        found.append([])
        for _ in range(draw(st.integers(1, 3))):
            raw = b"".join(
                damaged(each, chance) if draw(st.booleans()) else each.raw
                for each in draw(st.lists(st.sampled_from(made), min_size=1, max_size=3))
            )
            found[-1].append(gzip.compress(raw, mtime=0) if draw(st.booleans()) else raw)
    return found


def take_in(warehouse: Warehouse, inbox: Path, split: int) -> None:
    """What ``ingest`` does, without Spark: a task for each range of a file."""
    found = inspect(uploads(str(inbox)), split)
    for some in rounds(sorted(found, key=lambda each: -each.upload.size)):
        snapshot = warehouse.snapshot()
        known = covered(warehouse, snapshot, {capture for each in some for capture in each.captures})
        entry = Entry("ingest")
        stretches = []
        for each in some:
            for part in each.ranges:
                loaded = load(warehouse.root, snapshot.buckets, [(each.upload.path, part)], known)
                entry.add += loaded.parts
                stretches += loaded.stretches
        entry.add += write_rows(warehouse.root, "stretches", stretches)
        warehouse.commit(entry, snapshot)


def rows(warehouse: Warehouse, table: str) -> list[dict[str, Any]]:
    return warehouse.rows(warehouse.snapshot().of(table))


def readable(path: Path) -> list[Heard]:
    """What the other reader of captures finds in a file."""
    with Reader(path, strict=False) as reader:
        return [
            Heard(
                facts.section.info.get("device", ""),
                facts.sequence,
                facts.bus,
                facts.mono_ns,
                facts.lost,
            )
            for _, _, facts in reader
            if facts.bus is not None
        ]


def expected_holes(heard: Iterable[Heard]) -> list[tuple[Any, ...]]:
    """By device and bus: kind, beginning, end, and how many messages are missing."""
    numbers: dict[str, list[int]] = defaultdict(list)
    by_bus: dict[tuple[str, int], list[Heard]] = defaultdict(list)
    for each in sorted(heard):
        numbers[each.device].append(each.sequence)
        by_bus[each.device, each.bus].append(each)
    found: list[tuple[Any, ...]] = []
    for (device, bus), mine in by_bus.items():
        for before, after in zip(mine, mine[1:]):
            between = range(before.sequence + 1, after.sequence)
            missing = len(set(between) - set(numbers[device]))
            lost = after.lost - before.lost
            if missing or lost:
                kind, count = (GAP, missing) if missing else (LOST, lost)
                found.append((device, bus, kind, before.mono_ns, after.mono_ns, count))
        found.append((device, bus, GAP, mine[-1].mono_ns, None, 0))
    return sorted(found, key=str)


@pytest.fixture(scope="module")
def no_messages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables without messages, of which a copy is there sooner than new ones."""
    return directory(Warehouse.create(str(tmp_path_factory.mktemp("none") / "tables"), buckets=1))


def check_that_it_is_what_is_readable(no_messages: Path, inbox: list[list[bytes]], split: int) -> None:
    truth: set[Heard] = set()
    with tempfile.TemporaryDirectory() as where:
        warehouse = Warehouse.open(str(shutil.copytree(no_messages, f"{where}/tables")))
        for turn, raws in enumerate(inbox):
            directory = Path(where, f"inbox{turn}")
            directory.mkdir()
            for number, raw in enumerate(raws):
                path = directory / f"{number}{SUFFIXES[raw.startswith(GZIP)]}"
                path.write_bytes(raw)
                truth.update(readable(path))
            take_in(warehouse, directory, split)
        messages = rows(warehouse, "messages")
        stretches = rows(warehouse, "stretches")
    found = Counter(
        Heard(row["device"], row["rec_seq"], row["bus"], row["mono_ns"], row["lost"]) for row in messages
    )
    assert found == Counter(truth)
    assert sum(row["messages"] for row in stretches) == len(truth)
    names = ("device", "bus", "kind", "from_ns", "until_ns", "count")
    told = [tuple(hole[name] for name in names) for hole in holes(stretches)]
    assert sorted(told, key=str) == expected_holes(truth)


ANY_UPLOADS = given(inbox=inboxes(), split=st.sampled_from([300, 1 << 20]))


@settings(max_examples=12, deadline=None)
@ANY_UPLOADS
def test_it_is_what_is_readable_in_any_upload(
    no_messages: Path, inbox: list[list[bytes]], split: int
) -> None:
    check_that_it_is_what_is_readable(no_messages, inbox, split)


@pytest.mark.long("more of the same")
@settings(max_examples=100, deadline=None)
@ANY_UPLOADS
def test_it_is_what_is_readable_in_many_uploads(
    no_messages: Path, inbox: list[list[bytes]], split: int
) -> None:
    check_that_it_is_what_is_readable(no_messages, inbox, split)


def test_a_file_of_two_buses_and_its_gzip(spark: SparkSession, tmp_path: Path) -> None:
    """What one bus says is all among what the other one says, and it is uploaded twice."""
    buses = [0] * 8 + [3] * 2 + [0] * 8
    file = io.BytesIO()
    writer = Writer(file, {**info(), "bus": [0, 3]}, [0, 3])
    for number, bus in enumerate(buses):
        frame = Frame(number + 1, number * SECOND, 0)
        writer.write([0, 3].index(bus), NOON + number * SECOND, frame, [MANY[number].to_bytes()])
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=1)
    for name, raw, new in (("a.pcapng", file.getvalue(), 18), ("a.gz", gzip.compress(file.getvalue()), 0)):
        (tmp_path / name).write_bytes(raw)
        assert ingest(spark, warehouse, [str(tmp_path / name)]).messages == new
    assert sorted(row["rec_seq"] for row in rows(warehouse, "messages")) == list(range(1, 19))
    ends = [(hole["from_ns"], hole["until_ns"]) for hole in holes(rows(warehouse, "stretches"))]
    assert sorted(ends) == [(9 * SECOND, None), (17 * SECOND, None)]
