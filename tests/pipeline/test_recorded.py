# SPDX-License-Identifier: MIT
"""What `kbus record` made of the demo, in the virtual machine, goes through the pipeline."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kbus.pipeline.derive import derived
from kbus.pipeline.ingest.batch import ingest
from kbus.pipeline.report.scope import Scope, Tables
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline import slow

#: The file that `make demo` leaves in build/demo
RECORDED = Path(__file__).with_name("demo.pcapng")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    warehouse = Warehouse.create(str(tmp_path_factory.mktemp("recorded") / "tables"), buckets=2)
    ingest(spark, warehouse, [str(RECORDED)], strict=True)
    derived.make_conversations(spark, warehouse)
    return Tables(spark, warehouse, Scope())


def test_all_messages(tables: Tables) -> None:
    (heard,) = slow.Recordings.read([RECORDED]).heard.values()
    rows = tables["messages"].orderBy("rec_seq").collect()
    assert [(row.ts_ns, row.rec_seq, row.name, row.data and bytes(row.data)) for row in rows] == [
        (each.time_ns, each.sequence, each.message.name, each.message.data) for each in heard
    ]
    (file,) = tables["files"].collect()
    assert (file.health, file.received, file.dropped) == ("ok", len(rows), 0)
    assert file.device == "demo" and rows[0].boot and rows[0].load


def test_every_request_had_its_answer(tables: Tables) -> None:
    found = Counter((row.name, row.outcome, row.status) for row in tables["conversations"].collect())
    expected = Counter(
        (each.name, each.outcome, each.name if each.outcome == "orphan" else None)
        for each in slow.Recordings.read([RECORDED]).conversations()
        if each.outcome == "reply"
    )
    expected["$.Oracle.Ask", "status", "$.KBUS.Replier.Ignored"] += 1
    assert found == expected


def test_the_replier_that_was_killed(tables: Tables) -> None:
    kinds = Counter(row.kind for row in tables["events"].collect())
    assert kinds["ignored"] == 1
