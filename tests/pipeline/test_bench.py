# SPDX-License-Identifier: MIT
"""What `make bench-pipeline` measures with."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
