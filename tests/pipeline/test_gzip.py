# SPDX-License-Identifier: MIT
"""Captures of gzip are that whatever their names are, and are read from their beginning."""

from __future__ import annotations

import gzip
import io
import os
import random
from pathlib import Path
from typing import Any

import pytest

from kbus import Announcement
from kbus.capture import Reader
from kbus.capture.blocks import Damage
from kbus.pipeline.decode.paths import uploads
from kbus.pipeline.decode.scan import End, Range, outline, scan
from kbus.pipeline.ingest.loading import inspect, load
from kbus.pipeline.source.data_source import KbusReader
from kbus.pipeline.source.reading import Options
from kbus.pipeline.tables import schemas
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import capture, info
from tests.pipeline.inbox import LONG_AGO, Inbox

COUNT = 2000
#: Data that gzip makes nothing shorter of, so that half of the file has half of the messages
RAW = capture([Announcement("$.A", random.Random(k).randbytes(40)) for k in range(COUNT)])
ZIPPED = gzip.compress(RAW)


@pytest.mark.parametrize(("name", "later"), [("X.pcapng.gz.part", "X.pcapng.gz"), ("X", "X")])
def test_an_upload_of_gzip_is_taken_when_it_is_whole(tmp_path: Path, name: str, later: str) -> None:
    inbox = Inbox(tmp_path)
    for length in (0, 1, 5, len(ZIPPED) // 2, len(ZIPPED) - 1):
        inbox.put(name, ZIPPED[:length])
        assert inbox.take() == 0
    inbox.put(name, ZIPPED)
    assert inbox.take() == COUNT
    (tmp_path / name).rename(tmp_path / later)
    os.utime(tmp_path / later, (LONG_AGO, LONG_AGO))
    assert inbox.take() == COUNT
    assert (inbox.numbers, inbox.damage) == (list(range(1, COUNT + 1)), [])


def test_an_upload_of_gzip_that_goes_on_late(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    inbox.put("X.pcapng.gz.part", ZIPPED[: len(ZIPPED) // 2])
    os.utime(tmp_path / "X.pcapng.gz.part", (LONG_AGO, LONG_AGO))
    assert 0 < inbox.take() < COUNT
    assert inbox.damage == ["a file ends inside a block, and nothing more has come"]
    inbox.put("X.pcapng.gz.part", ZIPPED)
    assert inbox.take() == COUNT
    assert inbox.numbers == list(range(1, COUNT + 1)) and len(inbox.damage) == 1


def test_files_of_gzip_are_one_range_each(tmp_path: Path) -> None:
    for name in ("a.pcapng", "b.pcapng.gz", "c.pcapng.gz.part"):
        (tmp_path / name).write_bytes(ZIPPED)
    for each in inspect(uploads(str(tmp_path)), 4096):
        assert [part[:2] for part in each.ranges] == [(0, None)], each.upload.path
    settings = Options({"path": str(tmp_path), "split": "4096"})
    reader = KbusReader(settings, schemas.spark_schema(schemas.SOURCE))
    rows = sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))
    assert rows == 3 * COUNT


def test_a_file_that_is_compressed_before_its_ranges_are_read(tmp_path: Path) -> None:
    path, warehouse = tmp_path / "X.pcapng", Warehouse.create(str(tmp_path / "tables"), buckets=1)
    path.write_bytes(RAW)
    ranges = inspect(uploads(str(path)), 100_000)[0].ranges
    assert len(ranges) > 2
    path.write_bytes(ZIPPED)
    loaded = load(warehouse.root, 1, [(str(path), part) for part in ranges], {})
    assert [each.messages for each in loaded.health if not each.damage.count] == [
        each.messages for each in loaded.health
    ]
    assert sum(each.messages for each in loaded.health) == COUNT


def test_a_part_of_gzip_can_not_be_read_alone() -> None:
    part = outline(io.BytesIO(RAW), 100_000).ranges[1]
    with pytest.raises(ValueError, match="gzip"):
        list(scan(io.BytesIO(ZIPPED), *part[:3]))


def found_in(raw: bytes, part: Range) -> list[Any]:
    found = list(scan(io.BytesIO(raw), *part[:3]))
    return [each for each in found if isinstance(each, (Damage, End))]


def test_what_a_range_has_and_the_file_has_not_is_damage() -> None:
    size = len(RAW)
    section = outline(io.BytesIO(RAW), 100_000).ranges[1].section
    for begin, end, length in ((size + 8, None, 0), (size + 8, size + 20, 12), (0, size + 8, 8)):
        damage, last = found_in(RAW, Range(begin, end, section if begin else None))
        assert damage[:2] == (max(begin, size), length) and "shorter" in damage.reason
        assert isinstance(last, End)
    assert len(found_in(RAW, Range(size, None, section))) == 1, "the end of the file is no damage"


def test_a_block_may_begin_as_gzip_does() -> None:
    """Blocks of unknown kinds are passed over, wherever reading begins."""
    odd = b"\x1f\x8b\0\0" + (16).to_bytes(4, "little") + bytes(4) + (16).to_bytes(4, "little")
    part = outline(io.BytesIO(RAW), 100_000).ranges[1]
    raw = RAW[: part.begin] + odd + RAW[part.begin :]
    found = list(scan(io.BytesIO(raw), *part[:3]))
    assert not [each for each in found if isinstance(each, Damage)]


@pytest.mark.parametrize("buses", [[0], [0, 3]])
def test_an_upload_may_be_looked_at_when_it_has_just_begun(tmp_path: Path, buses: list[int]) -> None:
    """Not one interface is described then, or not all are."""
    raw = capture([Announcement("$.A")] * 6, info("pump", bus=buses), buses=buses)
    for cut in range(0, next(Reader(io.BytesIO(raw))).facts.offset + 8):
        where = tmp_path / str(cut)
        where.mkdir()
        inbox = Inbox(where)
        for content in (raw[:cut], raw):
            inbox.put("a.pcapng", content)
            inbox.take()
        assert (inbox.numbers, inbox.damage) == ([1, 2, 3, 4, 5, 6], []), cut
        assert inbox.devices == {("pump", bus) for bus in buses}, cut
