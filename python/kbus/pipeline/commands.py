# SPDX-License-Identifier: MIT
"""What each subcommand of ``kbus-pipeline`` does."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..terminal.output import printable
from .decode.paths import local, unusable, uploads
from .derive import derived
from .ingest.batch import HEALTHY, Ingested, NotHealthy, ingest
from .ingest.stream import Followed, follow
from .progress import Progress
from .report import write_report
from .report.scope import Scope
from .report.thresholds import RED, UNKNOWN, YELLOW, Thresholds, load
from .report.words import count
from .source import session
from .source.java import NoSpark, Work
from .tables import schemas
from .tables.check import check
from .tables.parts import WarehouseError
from .tables.repair import repair
from .tables.stores import store
from .tables.upgrade import upgrade
from .tables.upkeep import clear, tidy
from .tables.warehouse import Warehouse


class CommandError(Exception):
    """What was asked for can't be done; the text says why."""


FAILURES = (
    CommandError,
    NotHealthy,
    OSError,
    Py4JError,
    PySparkException,
    WarehouseError,
    NoSpark,
    ValueError,
)


#: Exit status as argparse has it
_WRONG_COMMAND_LINE = 2
#: Bytes of a message in a capture, about, and messages for which it pays to have Java compile well
_MESSAGE, _MUCH = 150, 10_000_000
#: Exit status if a verdict is as bad as --fail-on says
_TOO_BAD = 3


def run(args: argparse.Namespace) -> int:
    """Do what the command line asks for, and return the exit status. Raises one of FAILURES."""
    texts = getattr(args, "scope", ""), *(getattr(args, "compare", None) or ())
    try:
        scopes = [Scope.parse(each) for each in texts]
    except ValueError as error:
        print(f"kbus-pipeline {args.command}: {error}", file=sys.stderr)
        return _WRONG_COMMAND_LINE
    if args.command in _WITHOUT_SPARK:
        print(_WITHOUT_SPARK[args.command](args), flush=True)
        return 0
    # Before anything is done, however long it takes until they are needed.
    if hasattr(args, "output"):
        args.output = local(args.output, "a report")
        if args.output.suffix == ".json":
            raise CommandError(f"{args.output}: the verdicts for programs would be in the same file")
        if args.output.is_dir():
            raise CommandError(f"{args.output} is a directory: a report is a file")
        if not os.access(args.output.parent, os.W_OK):
            raise CommandError(f"there is no directory {args.output.parent} to which a report can be written")
        args.thresholds = load(Path(args.thresholds)) if args.thresholds else Thresholds()
    if hasattr(args, "inbox"):
        args.inbox = local(args.inbox, "recordings")
        if not args.inbox.is_dir():
            raise CommandError(f"{args.inbox} is no directory")
    size = sum(_size_of(where) for where in getattr(args, "captures", []))
    if hasattr(args, "checkpoint") and not args.checkpoint:
        tables = store(args.tables, "tables")
        if not isinstance(tables, Path):
            raise CommandError(f"Spark can't write its checkpoint to {tables}: --checkpoint says where to")
        args.checkpoint = str(tables / "_checkpoint")
    warehouse = (
        Warehouse.create(args.tables, args.buckets)
        if hasattr(args, "buckets")
        else Warehouse.open(args.tables)
    )
    work = Work(_is_little(args.command, size, warehouse), needs_most=args.command in ("run", "report"))
    spark = session.start("kbus-pipeline", args.master, dict(args.conf), work)
    # PySpark's own handler calls Java, which fails once Spark has been stopped.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ThreadPoolExecutor(1) as thread:
        try:
            if args.command == "stream":
                # It has handlers of signals, for which it must be the main thread.
                _do_steps(spark, warehouse, args, scopes)
            else:
                # An interrupt comes in the main thread. If that called Java, Py4J might lose it, or close
                # connections that are needed: https://github.com/py4j/py4j/pull/538.
                thread.submit(_do_steps, spark, warehouse, args, scopes).result()
        except BaseException:
            # Java ends with this program anyway. A step that goes on fails now, and deletes what it wrote.
            with contextlib.suppress(Py4JError, OSError):
                spark.stop()
            raise
    session.stop(spark)
    return _TOO_BAD if getattr(args, "too_bad", False) else 0


STEPS = {
    "ingest": ("ingest",),
    "conversations": ("conversations",),
    "aggregate": ("aggregate",),
    "report": ("report",),
    "stream": ("stream",),
    "tidy": ("tidy",),
    "run": ("ingest", "conversations", "aggregate", "report"),
}


def _do_steps(
    spark: SparkSession, warehouse: Warehouse, args: argparse.Namespace, scopes: list[Scope]
) -> None:
    if args.command not in ("report", "tidy"):
        clear(warehouse)
    for step in STEPS[args.command]:
        with _shown(spark, step, args.quiet) as args.progress:
            done = _DO[step](spark, warehouse, args, scopes)
        print(done, flush=True)


@contextlib.contextmanager
def _shown(spark: SparkSession, step: str, quiet: bool) -> Iterator[Progress]:
    # Else Spark's own pages show its jobs as what the step before did last.
    spark.sparkContext.setJobDescription(step)
    with Progress(spark, step, quiet) as progress:
        yield progress


def _is_little(command: str, size: int, warehouse: Warehouse) -> bool:
    """Return whether there is so little to do that Java need not compile well for it.

    ``size`` are the bytes of captures.
    """
    if command == "stream":
        return False
    return size // _MESSAGE + sum(part.rows for part in warehouse.snapshot().of("messages")) < _MUCH


def _size_of(where: str) -> int:
    """Return how many bytes the files have; raise CommandError if there are none."""
    found = uploads(where)
    if not found:
        raise CommandError(f"there is no file in {where}")
    return sum(each.size for each in found)


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
        print(f"{step}: {printable(path)}: {reason}", file=sys.stderr)
    return f", {count(len(found), 'file', 'files')} passed over" if found else ""


def _complain(done: Ingested) -> None:
    """Say what was not healthy; raise CommandError if nothing at all was a capture."""
    for health, number in sorted(done.health.items()):
        if health not in HEALTHY:
            print(f"ingest: {count(number, 'file', 'files')}: {health}", file=sys.stderr)
    if done.skipped:
        pieces = count(done.damaged, "piece", "pieces")
        skipped = count(done.skipped, "byte", "bytes")
        print(f"ingest: {pieces} of damage, {skipped} passed over", file=sys.stderr)
    useless = sum(done.health.get(health, 0) for health in ("not a capture", "unreadable"))
    if done.files and useless == done.files:
        raise CommandError("none of the files is a capture")


def _conversations(
    spark: SparkSession, warehouse: Warehouse, args: argparse.Namespace, scopes: list[Scope]
) -> str:
    begin = time.monotonic()
    return _derived("conversations", derived.make_conversations(spark, warehouse, args.within), begin)


def _aggregate(
    spark: SparkSession, warehouse: Warehouse, args: argparse.Namespace, scopes: list[Scope]
) -> str:
    begin = time.monotonic()
    return _derived("aggregate", derived.make_aggregates(spark, warehouse), begin)


def _derived(step: str, done: derived.Derived, begin: float) -> str:
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
    sides = (scopes[1], scopes[2]) if args.compare else None
    done = write_report(spark, warehouse, args.output, scopes[0], sides, args.thresholds)
    by_level = {
        level: [title for title, each in done.levels.items() if each == level]
        for level in (RED, YELLOW, UNKNOWN)
    }
    said = "; ".join(f"{level}: {', '.join(titles)}" for level, titles in by_level.items() if titles)
    for step in done.behind:
        print(f"report: `kbus-pipeline {step}` has not run since what is new was ingested", file=sys.stderr)
    if args.fail_on:
        args.too_bad = bool(by_level[RED] or (args.fail_on == YELLOW and by_level[YELLOW]))
    return f"report: {done.bytes:,} bytes; {said or 'all is green'}; {_seconds(begin)}\n{args.output}"


def _stream(spark: SparkSession, warehouse: Warehouse, args: argparse.Namespace, scopes: list[Scope]) -> str:
    begin = time.monotonic()
    done, progress = Followed(), args.progress
    progress.state = lambda: f"{'waiting' if done.is_waiting else 'planning'}, {_taken(done)}"
    places = str(args.inbox), args.checkpoint
    follow(spark, warehouse, *places, args.every, args.batch, args.once, done, progress.say)
    passed_over = _passed_over("stream", [str(args.inbox)])
    return f"stream: {_taken(done)}{passed_over}; {_seconds(begin)}"


def _taken(done: Followed) -> str:
    batches = count(done.batches, "batch", "batches")
    return f"{batches}, {count(done.messages, 'message', 'messages')}"


def _tidy(spark: SparkSession, warehouse: Warehouse, args: argparse.Namespace, scopes: list[Scope]) -> str:
    begin = time.monotonic()
    done = tidy(spark, warehouse)
    return (
        f"tidy: {done.before:,} files are {done.after:,} now, {done.cleared:,} files deleted;"
        f" {_seconds(begin)}"
    )


def _upgrade(args: argparse.Namespace) -> str:
    begin = time.monotonic()
    snapshot = upgrade(args.tables).snapshot()
    files = sum(len(snapshot.of(table)) for table in schemas.TABLES)
    return f"upgrade: {files:,} files are in Delta tables; {_seconds(begin)}"


def _check(args: argparse.Namespace) -> str:
    begin = time.monotonic()
    warehouse = Warehouse.open(args.tables)
    done = check(warehouse, warehouse.snapshot())
    for problem in done.problems:
        print(problem)
    if done.problems:
        raise CommandError(f"{len(done.problems):,} problems in {done.files:,} files")
    return f"check: {done.files:,} files, {done.rows:,} rows, {done.bytes:,} bytes; {_seconds(begin)}"


def _repair(args: argparse.Namespace) -> str:
    begin = time.monotonic()
    done = repair(args.tables)
    for path in done.torn:
        print(f"repair: {path}: the end of a log, torn before it held", file=sys.stderr)
    for part in done.lost:
        print(f"repair: {part.path}: {part.rows:,} rows lost", file=sys.stderr)
    return f"repair: {len(done.lost):,} files lost, and the tables do without them; {_seconds(begin)}"


def _seconds(begin: float) -> str:
    return f"{time.monotonic() - begin:.1f} s"


_DO = {
    "ingest": _ingest,
    "conversations": _conversations,
    "aggregate": _aggregate,
    "report": _report,
    "stream": _stream,
    "tidy": _tidy,
}
_WITHOUT_SPARK = {"check": _check, "repair": _repair, "upgrade": _upgrade}
