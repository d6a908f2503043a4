# SPDX-License-Identifier: MIT
"""Tables in an S3 store: a server that the test starts, with conditional writes, as Amazon's has them."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import polars
import pyarrow as pa
import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

import kbus
from kbus.pipeline.tables import schemas, stores
from kbus.pipeline.tables.parquet import ROW_GROUP, Parts
from kbus.pipeline.tables.parts import Partition
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline import fleet
from tests.pipeline.captures import NOON, capture, info
from tests.pipeline.conftest import OPTIONS, command_in
from tests.pipeline.test_fleet import rows
from tests.pipeline.warehouses import asked, check_that_one_of_two_wins

BUCKET = "kbus"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1"}


@pytest.fixture(scope="module")
def endpoint(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a store with a bucket, which the environment names, also that of Spark's workers."""
    log = tmp_path_factory.mktemp("store") / "log"
    # A thread of this process could not answer: Delta's library waits with Python's lock.
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with log.open("w") as output, pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        stack.callback(server.wait)
        stack.callback(server.terminate)
        found = address_in(log, server)
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": found}.items():
            patch.setenv(name, value)
            patch.setitem(spark.sparkContext.environment, name, value)
        stores._s3.cache_clear()
        fs.S3FileSystem(endpoint_override=found, allow_bucket_creation=True).create_dir(BUCKET)
        yield found
        stores._s3.cache_clear()


def address_in(log: Path, server: subprocess.Popen[bytes]) -> str:
    """Return where a server says that it is to be found."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and server.poll() is None:
        if found := re.search(r"Running on (http://\S+)", log.read_text()):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"no server: {log.read_text()}")


@pytest.fixture(scope="module")
def both(
    spark: SparkSession, endpoint: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Warehouse, Warehouse]:
    """Tables in the store, made step by step, and the same in a directory, made at once."""
    where = tmp_path_factory.mktemp("s3")
    captures, first = where / "captures", where / "first"
    captures.mkdir()
    first.mkdir()
    for name, trouble in (("pump", fleet.Trouble(crashes=True)), ("valve", fleet.Trouble(misses=True))):
        fleet.Device(name, trouble, 5, captures, fleet.Truth()).live(40, NOON)
    for path in captures.glob("pump*"):
        shutil.copy(path, first)
    assert any(first.iterdir())
    root = f"s3://{BUCKET}/plant/tables"
    tables, there = (["--quiet", "--tables", place] for place in (root, f"{where}/tables"))
    # Whoever starts it has the environment, and so have the workers.
    options = [part for key, value in OPTIONS.items() for part in ("--conf", f"{key}={value}")]
    begin = [sys.executable, "-m", "kbus.pipeline", "ingest", *tables, "--buckets", "2", str(first), *options]
    environment = {**os.environ, "PYTHONPATH": str(Path(kbus.__file__).parent.parent)}
    subprocess.run(begin, check=True, timeout=300, cwd=where, env=environment)
    with pytest.MonkeyPatch.context() as patch:
        command = command_in(spark, patch)
        for words in (
            ["stream", "--once", "--checkpoint", f"{where}/checkpoint", *tables, str(captures)],
            ["conversations", *tables],
            ["aggregate", *tables],
            ["tidy", *tables],
            ["ingest", *there, "--buckets", "2", str(captures)],
            ["conversations", *there],
            ["aggregate", *there],
        ):
            assert command(*words) == 0, words
    return Warehouse.open(root), Warehouse.open(f"{where}/tables")


@pytest.mark.long("the store is slow")
@pytest.mark.parametrize("table", schemas.PARTITIONED)
def test_rule_tables_in_a_store_are_those_in_a_directory(
    spark: SparkSession, both: tuple[Warehouse, Warehouse], table: str
) -> None:
    one, other = both
    columns = one.read(spark, table).columns
    found = rows(one.read(spark, table), *columns)
    assert found == rows(other.read(spark, table), *columns)
    assert found


def test_others_read_them_and_what_is_missing_comes_again(
    spark: SparkSession,
    endpoint: str,
    pipeline: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "one.pcapng").write_bytes(capture(asked(range(1, 31)), info("device")))
    root = f"s3://{BUCKET}/holed"
    tables = ["--tables", root]
    ingest = ["ingest", "--quiet", *tables, str(tmp_path)]
    assert pipeline(*ingest) == 0
    warehouse = Warehouse.open(root)
    part = warehouse.snapshot().of("messages")[0]
    # Others read them as any Delta table in a store.
    options = {**KEYS, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
    assert len(polars.read_delta(f"{root}/messages", storage_options=options)) == part.rows == 60
    capsys.readouterr()
    assert pipeline("sql", *tables, "SELECT count(*) AS n FROM messages WHERE want_a_reply") == 0
    assert capsys.readouterr().out == " n\n30\n"
    before = rows(warehouse.read(spark, "messages"), "session", "rec_seq")
    stores._s3().delete_file(f"{BUCKET}/holed/{part.path}")
    capsys.readouterr()
    assert pipeline("check", *tables) == 1
    assert f"{root}/{part.path} is missing" in capsys.readouterr().out
    assert pipeline("repair", *tables) == 0
    assert pipeline("check", *tables) == 0
    assert pipeline(*ingest) == 0
    assert rows(Warehouse.open(root).read(spark, "messages"), "session", "rec_seq") == before


def test_a_task_that_fails_leaves_nothing(endpoint: str) -> None:
    root = stores.store(f"s3://{BUCKET}/failed", "tables")

    def found() -> int:
        files = stores._s3().get_file_info(fs.FileSelector(f"{BUCKET}/failed", recursive=True))
        return sum(each.type == fs.FileType.File for each in files)

    with pytest.raises(KeyboardInterrupt), Parts(root, "messages") as parts:
        parts.add(Partition("2026-03-01", 0), {"rec_seq": pa.array([1])})
        parts.close()
        parts.add(Partition("2026-03-01", 1), {"rec_seq": pa.array(range(ROW_GROUP))})
        assert found() == 1
        raise KeyboardInterrupt
    assert found() == 0
    with Parts(root, "messages") as parts:
        for bucket in range(2):
            parts.add(Partition("2026-03-01", bucket), {"rec_seq": pa.array([1])})
        one, _ = parts.close()
    stores.delete_below(root, one.path.rsplit("/", 1)[1][:12])
    assert found() == 1


def test_of_two_writers_at_once_one_wins(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the store tells the second that there is such an entry of the log already."""
    check_that_one_of_two_wins(Warehouse.create(f"s3://{BUCKET}/two"), monkeypatch)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["check", "--tables", "s3://"], "s3://: tables in S3 are in s3://BUCKET or s3://BUCKET/KEY"),
        (["check", "--tables", "s3://kbus/a#b"], "s3://kbus/a#b: tables in S3 can have no %, # or ? in"),
        (["check", "--tables", "s3://kbus/../b"], "s3://kbus/../b: tables in S3 can have no %, # or ? in"),
        (["check", "--tables", "s3://nobody/tables"], "The specified bucket does not exist"),
        (["check", "--tables", "s3://kbus/nothing"], "there are no tables in s3://kbus/nothing"),
        (["sql", "--tables", "s3://kbus/nothing", "SELECT 1"], "there are no tables in s3://kbus/nothing"),
        (["ingest", "--tables", "s3://nobody/tables", "HERE"], "The specified bucket does not exist"),
        (["ingest", "--tables", "HERE/tables", "s3://kbus/in"], "s3://kbus/in: recordings must be in"),
        (["stream", "--once", "--tables", "s3://kbus/live", "HERE"], "--checkpoint says where to"),
    ],
    ids=[
        "no bucket",
        "URL",
        "dots",
        "no such bucket",
        "nothing there",
        "nothing to ask",
        "no bucket to write to",
        "recordings",
        "checkpoint",
    ],
)
def test_what_is_wrong_is_said(
    endpoint: str,
    pipeline: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    (tmp_path / "one.pcapng").write_bytes(capture(asked(range(1, 3))))
    assert pipeline(*(word.replace("HERE", str(tmp_path)) for word in words)) != 0
    assert told in capsys.readouterr().err


def test_a_store_that_does_not_answer_is_told_soon(
    endpoint: str,
    pipeline: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as nobody:
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    assert pipeline("check", "--tables", f"s3://{BUCKET}/tables") != 0
    assert f"can't look for tables in s3://{BUCKET}/tables: " in capsys.readouterr().err
