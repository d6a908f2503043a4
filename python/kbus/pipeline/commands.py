# SPDX-License-Identifier: MIT
"""What each subcommand of ``kbus-pipeline`` does."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from . import derive, session
from .ingest import Ingested, NotHealthy, ingest
from .paths import unusable, uploads
from .progress import Progress
from .report import write_report
from .scope import Scope
from .stream import follow
from .warehouse import Warehouse, WarehouseError


class CommandError(Exception):
    """What was asked for can't be done; the text says why."""


FAILURES = (
    CommandError,
    NotHealthy,
    OSError,
    Py4JError,
    PySparkException,
    WarehouseError,
    session.NoSpark,
    ValueError,
)


def run(args: argparse.Namespace) -> None:
    """Do what the command line asks for. Raises one of FAILURES."""
    scopes = [
        Scope.parse(each) for each in (getattr(args, "scope", ""), *(getattr(args, "compare", None) or ()))
    ]
    for where in getattr(args, "captures", []):
        _check_captures(where)
    warehouse = (
        Warehouse.create(args.tables, args.buckets)
        if hasattr(args, "buckets")
        else Warehouse.open(args.tables)
    )
    spark = session.start("kbus-pipeline", args.master, dict(args.conf))
    try:
        for step in STEPS[args.command]:
            with _shown(spark, step, args.quiet):
                done = _DO[step](spark, warehouse, args, scopes)
            print(done, flush=True)
    finally:
        spark.stop()


STEPS = {
    "ingest": ("ingest",),
    "conversations": ("conversations",),
    "aggregate": ("aggregate",),
    "report": ("report",),
    "stream": ("stream",),
    "run": ("ingest", "conversations", "aggregate", "report"),
}


@contextlib.contextmanager
def _shown(spark: SparkSession, step: str, quiet: bool) -> Iterator[None]:
    # Else Spark's own pages show its jobs as what the step before did last.
    spark.sparkContext.setJobDescription(step)
    with contextlib.nullcontext() if quiet else Progress(spark, step):
        yield


def _check_captures(where: str) -> None:
    if not uploads(where):
        raise CommandError(f"there is no file in {where}")


def _ingest(spark: SparkSession, warehouse: Warehouse, args: argparse.Namespace, scopes: list[Scope]) -> str:
    begin = time.monotonic()
    done = ingest(spark, warehouse, args.captures, args.strict)
    _complain(done)
    passed_over = _passed_over("ingest", args.captures)
    known = f", {done.known_files} known already" if done.known_files else ""
    copies = f", {done.known_messages:,} more were known" if done.known_messages else ""
    return (
        f"ingest: {done.files:,} files of {done.bytes:,} bytes{known}; {done.messages:,} messages{copies};"
        f" {done.written_bytes:,} bytes written{passed_over}; {_seconds(begin)}"
    )


def _passed_over(step: str, named: Iterable[str]) -> str:
    """Say which files could not be read, and return how many for the summary."""
    found = {path: reason for where in named for path, reason in unusable(where).items()}
    for path, reason in found.items():
        print(f"{step}: {path}: {reason}", file=sys.stderr)
    return f", {len(found):,} files passed over" if found else ""


def _complain(done: Ingested) -> None:
    """Say what was not healthy; raise CommandError if nothing at all was a capture."""
    for health, count in sorted(done.health.items()):
        if health not in ("ok", "copy"):
            print(f"ingest: {count:,} files: {health}", file=sys.stderr)
    if done.skipped:
        print(
            f"ingest: {done.damaged:,} pieces of damage, {done.skipped:,} bytes passed over", file=sys.stderr
        )
    useless = sum(done.health.get(health, 0) for health in ("not a capture", "unreadable"))
    if done.files and useless == done.files:
        raise CommandError("none of the files is a capture")


def _conversations(
    spark: SparkSession, warehouse: Warehouse, args: argparse.Namespace, scopes: list[Scope]
) -> str:
    begin = time.monotonic()
    return _derived("conversations", derive.make_conversations(spark, warehouse, args.within), begin)


def _aggregate(
    spark: SparkSession, warehouse: Warehouse, args: argparse.Namespace, scopes: list[Scope]
) -> str:
    begin = time.monotonic()
    return _derived("aggregate", derive.make_aggregates(spark, warehouse), begin)


def _derived(step: str, done: derive.Derived, begin: float) -> str:
    if not done.partitions:
        return f"{step}: nothing is new; {_seconds(begin)}"
    rows = ", ".join(f"{count:,} {table}" for table, count in sorted(done.written_rows.items()))
    return (
        f"{step}: {done.read_rows:,} rows of {done.read_bytes:,} bytes read"
        f" in {done.partitions:,} partitions;"
        f" {rows} in {done.written_bytes:,} bytes written; {_seconds(begin)}"
    )


def _report(spark: SparkSession, warehouse: Warehouse, args: argparse.Namespace, scopes: list[Scope]) -> str:
    begin = time.monotonic()
    output = Path(args.output)
    size = write_report(spark, warehouse, output, scopes[0], (scopes[1], scopes[2]) if args.compare else None)
    return f"report: {size:,} bytes; {_seconds(begin)}\n{output.resolve()}"


def _stream(spark: SparkSession, warehouse: Warehouse, args: argparse.Namespace, scopes: list[Scope]) -> str:
    begin = time.monotonic()
    if not Path(args.inbox).is_dir():
        raise CommandError(f"{args.inbox} is no directory")
    checkpoint = args.checkpoint or str(warehouse.root / "_checkpoint")
    done = follow(spark, warehouse, args.inbox, checkpoint, args.every, args.batch, args.once)
    passed_over = _passed_over("stream", [args.inbox])
    return f"stream: {done.batches:,} batches, {done.messages:,} messages{passed_over}; {_seconds(begin)}"


def _seconds(begin: float) -> str:
    return f"{time.monotonic() - begin:.1f} s"


_DO = {
    "ingest": _ingest,
    "conversations": _conversations,
    "aggregate": _aggregate,
    "report": _report,
    "stream": _stream,
}
