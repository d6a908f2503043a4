# SPDX-License-Identifier: MIT
"""`python3 -m tests.pipeline.killed WORDS ...`: kbus-pipeline for those who want to kill it.

It says on stdout when Spark has started, so that what it does can be hit, and not only how it starts; and it
makes no reports, which take longest and change no tables. So it serves also those who want only tables.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest
from pyspark.sql import SparkSession

from kbus.pipeline import cli, commands
from kbus.pipeline.source import session
from kbus.pipeline.source.java import Work
from tests.pipeline.conftest import OPTIONS


def without_report(patch: pytest.MonkeyPatch) -> None:
    """Have the command make no report."""
    patch.setitem(commands._DO, "report", lambda *_: "report: none")


def main(words: list[str]) -> int:
    """Run it, and return its exit status."""
    begin = session.start

    def start(name: str, master: str | None, options: Mapping[str, str], work: Work) -> SparkSession:
        spark = begin(name, master or "local[2]", {**OPTIONS, **options}, work)
        print("ready", flush=True)
        return spark

    with pytest.MonkeyPatch.context() as patch:
        without_report(patch)
        patch.setattr(session, "start", start)
        return cli.main(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
