# SPDX-License-Identifier: MIT
"""Steps in any order, after any way of taking recordings in: none fails, and the tables end up the same."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kbus.pipeline.tables import schemas
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline import fleet
from tests.pipeline.captures import NOON, capture
from tests.pipeline.test_fleet import rows
from tests.pipeline.test_upgrade import as_before

STEPS = ("ingest", "stream", "conversations", "aggregate", "tidy", "repair")
#: Seconds after midnight UTC at which the recordings of the walk begin: they go on to the next day.
EVENING = 43_180


class Pipeline:
    """The real commands, on the tables and the inbox of a directory."""

    def __init__(self, command: Callable[..., int], where: Path) -> None:
        self.tables, self.inbox = where / "tables", where / "inbox"
        self.inbox.mkdir(parents=True)
        self._command = command
        self._more = {
            "ingest": [str(self.inbox)],
            "stream": ["--once", str(self.inbox)],
            "report": ["--output", str(where / "report.html")],
        }
        self._chance = random.Random(1)

    def do(self, *steps: str) -> None:
        for step in steps:
            if step == "repair":
                self._lose_a_file()
            quiet = [] if step in ("repair", "upgrade") else ["--quiet"]
            words = [step, *quiet, "--tables", str(self.tables), *self._more.get(step, [])]
            assert self._command(*words) == 0, step

    def _lose_a_file(self) -> None:
        snapshot = Warehouse.open(str(self.tables)).snapshot()
        # Nothing can bring back `stretches`.
        parts = [part for table in schemas.TABLES if table != "stretches" for part in snapshot.of(table)]
        (self.tables / self._chance.choice(parts).path).unlink()


def round_trip(steps: Sequence[str], seed: int) -> list[str]:
    """Return steps in which each comes once right after each, also after itself; the first comes last too."""
    left = {step: random.Random(f"{seed} {step}").sample(steps, len(steps)) for step in steps}
    path, found = [steps[0]], []
    while path:
        if left[path[-1]]:
            path.append(left[path[-1]].pop())
        else:
            found.append(path.pop())
    assert sorted(zip(found, found[1:])) == sorted((one, other) for one in steps for other in steps)
    return found


def uploads(captures: Path) -> list[tuple[str, str, bytes]]:
    """Return in turn the name of a file, one that it is renamed to, and what is in it then."""
    found = []
    for path in sorted(captures.iterdir()):
        raw, part = path.read_bytes(), f"{path.name}.part"
        found += [(part, part, raw[: len(raw) // 2]), (part, path.name, raw)]
        found.append((f"{path.name}.gz", f"{path.name}.gz", gzip.compress(raw, mtime=0)))
    return found


@pytest.mark.long("takes as long as forty other tests")
def test_each_step_after_each(spark: SparkSession, pipeline: Callable[..., int], tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    truth = fleet.Truth()
    for name, trouble in (("pump", fleet.Trouble(crashes=True)), ("valve", fleet.Trouble(misses=True))):
        fleet.Device(name, trouble, 5, captures, truth).live(40, NOON + EVENING * fleet.SECOND)
    coming = uploads(captures)
    run, straight = Pipeline(pipeline, tmp_path / "any"), Pipeline(pipeline, tmp_path / "straight")
    # Before there is anything, a step has nothing to do.
    (run.inbox / "nothing.pcapng").write_bytes(capture([]))
    run.do("ingest")
    # An earlier version has begun.
    name, _, raw = coming[0]
    (run.inbox / name).write_bytes(raw)
    run.do("stream", "conversations", "aggregate")
    as_before(Warehouse.open(str(run.tables)))
    run.do("upgrade")
    to_report = {"ingest", "stream"}
    for step in round_trip(STEPS, seed=1):
        if step in ("ingest", "stream") and coming:
            name, final, raw = coming.pop(0)
            (run.inbox / name).write_bytes(raw)
            (run.inbox / name).rename(run.inbox / final)
        run.do(step)
        if step in to_report:
            # It changes nothing, and takes longest.
            to_report.remove(step)
            run.do("report")
    for name, final, raw in coming:
        (run.inbox / name).write_bytes(raw)
        (run.inbox / name).rename(run.inbox / final)
    # What was lost with a file, only `ingest` brings back.
    run.do("stream", "ingest", "conversations", "aggregate")
    straight.inbox.rmdir()
    captures.rename(straight.inbox)
    straight.do("ingest", "conversations", "aggregate")
    one, other = Warehouse.open(str(run.tables)), Warehouse.open(str(straight.tables))
    for table in schemas.PARTITIONED:
        columns = one.read(spark, table).columns
        assert rows(one.read(spark, table), *columns) == rows(other.read(spark, table), *columns), table
