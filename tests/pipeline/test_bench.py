# SPDX-License-Identifier: MIT
"""What `make bench-pipeline` measures with."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.pipeline.bench import yardstick
from tests.pipeline.conftest import Fleet
from tests.pipeline.warehouses import directory

_BUSY = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
child = os.fork()
while time.process_time() < 0.5:
    pass
if child:
    time.sleep(1)
"""


_MEASURE = (
    "import sys; from tests.pipeline.bench.measure import measured; print(measured(sys.argv[1:], {}).cpu)"
)


@pytest.mark.long("measures time")
def test_the_time_of_children_that_nobody_waits_for_counts() -> None:
    # In a process of its own, as it waits for all its children, and Spark may be one of this.
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, sys.executable, "-c", _BUSY],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert 0.8 < float(done.stdout) < 1.2


@pytest.mark.parametrize("work", yardstick.WORKS)
def test_other_tools_do_the_same_work(whole_fleet: Fleet, work: str) -> None:
    snapshot = whole_fleet.warehouse.snapshot()

    def files(table: str) -> list[str]:
        return [str(directory(whole_fleet.warehouse) / part.path) for part in snapshot.of(table)]

    found = yardstick.by_duckdb(work, files(yardstick.WORKS[work]))
    assert found == yardstick.by_polars(work, files(yardstick.WORKS[work]))
    if work != "matching":
        assert found[0] == sum(part.rows for part in snapshot.of(f"{work}_minute"))
