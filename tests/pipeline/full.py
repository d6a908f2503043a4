# SPDX-License-Identifier: MIT
"""`python3 -m tests.pipeline.full DIR CAPTURES`: each step with ever more room in DIR, until it succeeds.

DIR is a small disk. A line of JSON on stdout tells of each attempt: the step, its exit status, the lines that
it said on stderr, and the files that its tasks have left.
"""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from kbus.pipeline.source import session
from tests.pipeline.conftest import OPTIONS, command_in

MORE = 32 << 10


def main(disk: Path, captures: str) -> None:
    """Do it."""
    tables, ballast = disk / "tables", disk / "ballast"
    # A task that fails is tried a second time.
    spark = session.start("full", "local[2,2]", OPTIONS)
    with pytest.MonkeyPatch.context() as patch:
        command = command_in(spark, patch)
        for words in (["ingest", captures], ["conversations"], ["aggregate"]):
            status, room = 1, 0
            while status:
                before = written(tables)
                ballast.write_bytes(bytes(max(0, shutil.disk_usage(disk).free - room)))
                with redirect_stderr(StringIO()) as said, redirect_stdout(StringIO()):
                    status = command(*words, "--quiet", "--tables", str(tables))
                ballast.unlink()
                told = {"step": words[0], "status": status, "said": said.getvalue().splitlines()}
                print(json.dumps({**told, "left": sorted(written(tables) - before)}))
                room += MORE
        with redirect_stdout(sys.stderr):
            assert command("check", "--tables", str(tables)) == 0
    spark.stop()


def written(tables: Path) -> set[str]:
    """Return the files that tasks have written."""
    return {str(path) for path in tables.glob("*/date=*/*/*.parquet")}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
