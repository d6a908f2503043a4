# SPDX-License-Identifier: MIT
"""What lies in an inbox beside captures, or is gone when it is to be read, stops nothing."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kbus import Announcement
from kbus.capture.identity import file_prefix
from kbus.capture.input import open_file
from kbus.capture.series import SUFFIXES
from kbus.pipeline.decode import paths
from kbus.pipeline.decode.paths import existing, unusable, uploads
from kbus.pipeline.ingest import loading
from kbus.pipeline.ingest.batch import ingest
from kbus.pipeline.ingest.loading import inspect, load
from kbus.pipeline.source import streaming
from kbus.pipeline.source.reading import WHOLE, Options, read_range
from kbus.pipeline.source.streaming import KbusStreamReader
from kbus.pipeline.tables import schemas
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import capture, info

MANY = [Announcement("$.Count", str(number)) for number in range(40)]
COLUMNS = schemas.arrow_schema(schemas.SOURCE)


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    where = tmp_path / "inbox"
    where.mkdir()
    (where / "a.pcapng").write_bytes(capture(MANY))
    return where


def litter(inbox: Path) -> None:
    (inbox / "loop").symlink_to("loop")
    (inbox / "zero").symlink_to("/dev/zero")
    os.mkfifo(inbox / "b.pcapng")


def forbid(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have this file refuse to be opened, which root can't be."""

    def refusing(path: str) -> object:
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied", path)
        return open_file(path)

    for module in (loading, paths, streaming):
        monkeypatch.setattr(module, "open_file", refusing)


def test_only_regular_files_are_uploads(inbox: Path) -> None:
    litter(inbox)
    assert [Path(each.path).name for each in uploads(str(inbox))] == ["a.pcapng"]
    reasons = {Path(path).name: reason for path, reason in unusable(str(inbox)).items()}
    assert reasons.keys() == {"loop", "zero", "b.pcapng"}
    assert reasons["loop"] == "Too many levels of symbolic links"
    assert reasons["zero"] == reasons["b.pcapng"] == "it is not a regular file"


@pytest.mark.parametrize("device", ["Öfen-1", "_saw", ".press"])
def test_no_machine_has_a_name_that_hides_its_captures(device: str, inbox: Path) -> None:
    """The field's case P2."""
    prefix = file_prefix(device, [0])
    names = [f"{prefix}20260101T000000Z-0001{suffix}" for suffix in SUFFIXES]
    for name in names:
        (inbox / name).touch()
    assert {Path(each.path).name for each in uploads(str(inbox))} == {"a.pcapng", *names}
    assert unusable(str(inbox)) == {}


def test_what_is_hidden_is_told(inbox: Path) -> None:
    for name in (".a.pcapng.Xy12", "_SUCCESS"):
        (inbox / name).touch()
    (inbox / ".old").mkdir()
    (inbox / ".old" / "b.pcapng").touch()
    assert [Path(each.path).name for each in uploads(str(inbox))] == ["a.pcapng"]
    why = "its name begins with . or _, and is no capture's"
    hidden = (".a.pcapng.Xy12", ".old", "_SUCCESS")
    assert unusable(str(inbox)) == {str(inbox / name): why for name in hidden}


def test_a_name_that_is_no_text_is_told(inbox: Path) -> None:
    """Tables have no such text, nor has Spark's checkpoint."""
    path = os.fsdecode(os.fsencode(inbox) + b"/\xff.pcapng")
    shutil.copy(inbox / "a.pcapng", path)
    assert [Path(each.path).name for each in uploads(str(inbox))] == ["a.pcapng"]
    assert unusable(str(inbox)) == {path: "its name is not UTF-8"}


def test_a_fifo_is_not_waited_for(inbox: Path) -> None:
    litter(inbox)
    rows = list(read_range(str(inbox / "b.pcapng"), WHOLE, Options({"path": str(inbox)}), COLUMNS))
    assert [batch.column("corrupt").to_pylist() for batch in rows] == [["it is not a regular file"]]


def test_the_command_passes_over_and_tells(
    inbox: Path, tmp_path: Path, pipeline: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    litter(inbox)
    for number, command in enumerate((["ingest"], ["stream", "--once"])):
        assert pipeline(*command, "--quiet", "--tables", str(tmp_path / f"tables{number}"), str(inbox)) == 0
        said = capsys.readouterr()
        assert "40 messages" in said.out and ", 3 files passed over" in said.out
        assert f"{command[0]}: {inbox / 'loop'}: Too many levels of symbolic links" in said.err


def test_a_file_that_can_not_be_read_waits(inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (inbox / "b.pcapng").write_bytes(capture(MANY, info("valve")))
    reader = KbusStreamReader(Options({"path": str(inbox)}), COLUMNS, gives_ranges=False)
    with monkeypatch.context() as patch:
        forbid(patch, "a.pcapng")
        offset = reader.latestOffset({}, ReadAllAvailable())
        assert [Path(path).name for path in offset] == ["b.pcapng"]
        assert list(unusable(str(inbox)).values()) == ["Permission denied"]
    assert len(reader.latestOffset(offset, ReadAllAvailable())) == 2


def test_ingest_tries_again_what_could_not_be_read(
    inbox: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=1)
    refused = loading.Inspected(uploads(str(inbox))[0], error="Permission denied")
    with monkeypatch.context() as patch:
        patch.setattr("kbus.pipeline.ingest.batch.tasks.run", lambda *_: [[refused]] if _[2] else [])
        assert ingest(spark, warehouse, [str(inbox)]).health == {"unreadable": 1}
    assert ingest(spark, warehouse, [str(inbox)]).messages == 40


@pytest.mark.parametrize("now", SUFFIXES)
@pytest.mark.parametrize("then", SUFFIXES)
def test_a_recording_under_its_other_names(tmp_path: Path, then: str, now: str) -> None:
    (tmp_path / f"X{now}").write_bytes(b"")
    (tmp_path / "Y.pcapng").write_bytes(b"")
    assert existing(str(tmp_path / f"X{then}")) == str(tmp_path / f"X{now}")


def test_names_that_are_no_recordings(tmp_path: Path) -> None:
    (tmp_path / "notes.part").write_bytes(b"")
    assert existing(str(tmp_path / "notes")) == str(tmp_path / "notes.part")
    with pytest.raises(FileNotFoundError, match="taken away"):
        existing(str(tmp_path / "other"))


@pytest.mark.parametrize("split", [1 << 20, 1000])
def test_a_file_that_is_sealed_and_compressed_meanwhile(inbox: Path, tmp_path: Path, split: int) -> None:
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=1)
    (inbox / "a.pcapng").rename(inbox / "a.pcapng.part")
    found = inspect(uploads(str(inbox)), split)
    (inbox / "a.pcapng.part").unlink()
    (inbox / "a.pcapng.gz").write_bytes(gzip.compress(capture(MANY)))
    todo = [(each.upload.path, part) for each in found for part in each.ranges]
    loaded = load(warehouse.root, 1, todo, {})
    assert sum(each.messages for each in loaded.health) == 40
    assert not [each for each in loaded.health if each.damage.count or each.error]


def test_ingest_goes_on_without_what_is_gone(
    inbox: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = inbox / "gone.pcapng"
    gone.write_bytes(capture(MANY, info("valve")))
    warehouse = Warehouse.create(str(tmp_path / "tables"), buckets=1)

    def vanish(found: list[loading.Inspected]) -> list[list[loading.Inspected]]:
        gone.unlink()
        return [found]

    with monkeypatch.context() as patch:
        patch.setattr("kbus.pipeline.ingest.batch.rounds", vanish)
        done = ingest(spark, warehouse, [str(inbox)])
    assert (done.messages, dict(done.health)) == (40, {"ok": 1, "unreadable": 1})
    gone.write_bytes(capture(MANY, info("valve")))
    assert ingest(spark, warehouse, [str(inbox)]).messages == 40


def test_a_stream_goes_on_without_what_is_gone(inbox: Path) -> None:
    (inbox / "b.pcapng").write_bytes(capture(MANY, info("valve")))
    for gives_ranges, columns in ((False, COLUMNS), (True, streaming.RANGES)):
        reader = KbusStreamReader(Options({"path": str(inbox)}), columns, gives_ranges)
        offset = reader.latestOffset({}, ReadAllAvailable())
        (inbox / "b.pcapng").rename(inbox.parent / "elsewhere")
        rows = [
            row
            for task in reader.partitions({}, offset)
            for batch in reader.read(task)
            for row in batch.to_pylist()
        ]
        (inbox.parent / "elsewhere").rename(inbox / "b.pcapng")
        assert len(rows) == (2 if gives_ranges else 41)
