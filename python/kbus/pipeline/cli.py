# SPDX-License-Identifier: MIT
"""The ``kbus-pipeline`` command.

What was done goes to stdout, progress and complaints to stderr. The exit status is 0 if it was done, also
when SIGINT or SIGTERM ended ``stream``; 1 if it failed, and stderr says why; 2 if the command line is wrong;
3 if the report was written, and a verdict of it is at least as bad as ``--fail-on`` says; 130 if SIGINT ended
another command.
"""

from __future__ import annotations

import argparse
import logging
import sys
from importlib import import_module
from typing import Optional

from ..terminal.options import Parser, Subparsers
from ..terminal.output import printable
from .source.causes import cause_of

#: Exit status as shells have it for what SIGINT ended
_INTERRUPTED = 130

_EPILOG = "Exit status: 0 done, 1 failed, 2 wrong command line."
_REPORT_EPILOG = (
    f"{_EPILOG[:-1]}, 3 the report was written and a verdict of it is as bad as --fail-on says, or worse."
)


def main(argv: Optional[list[str]] = None) -> int:
    """Run ``kbus-pipeline`` with these arguments, or those of the process, and return its exit status."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as wanted:
        return int(wanted.code or 0)
    # Py4J would log exceptions that are told below, with where in its program they were.
    logging.basicConfig(handlers=[logging.NullHandler()])
    try:
        return _run(args)
    except KeyboardInterrupt:
        print(f"kbus-pipeline {args.command}: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _run(args: argparse.Namespace) -> int:
    try:
        # Spark takes seconds to import.
        commands = import_module(".tables.sql" if args.command == "sql" else ".commands", __package__)
    except ModuleNotFoundError as error:
        print(f"kbus-pipeline: there is no {error.name} here: pip install 'kbus[pipeline]'", file=sys.stderr)
        return 1
    try:
        status: int = commands.run(args)
        return status
    except commands.FAILURES as failure:
        print(f"kbus-pipeline {args.command}: {printable(cause_of(failure))}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    everything = Parser(
        prog="kbus-pipeline", description="From recorded bus traffic to answers, on Spark.", epilog=_EPILOG
    )
    subparsers = everything.add_subparsers(metavar="COMMAND", dest="command", required=True)
    common = _common()

    def add(name: str, says: str) -> argparse.ArgumentParser:
        epilog = _REPORT_EPILOG if name in ("report", "run") else _EPILOG
        return subparsers.add_parser(name, help=says, description=says, parents=[common], epilog=epilog)

    one = add("ingest", "Take captures into the tables, each message once.")
    _ingest_options(one)
    one = add("conversations", "Match requests and answers, and gather events, where there is something new.")
    _within_option(one)
    add("aggregate", "Bring the aggregates a minute and an hour up to date.")
    one = add("report", "Write an HTML file that tells what the tables say.")
    _report_options(one)
    one = add("stream", "Take captures into the tables as they are uploaded to a directory.")
    _stream_options(one)
    one = add("run", "Do all of it: ingest, conversations, aggregate, report.")
    _ingest_options(one)
    _within_option(one)
    _report_options(one)
    add("tidy", "Put small files of the tables together, and delete those that nobody needs.")
    _sql_options(subparsers)
    for name, says in (
        ("check", "Look whether all files of the tables are there, and whole."),
        ("repair", "Have the tables do without files that are missing or not whole."),
        ("upgrade", "Make Delta tables of those that an earlier version has made."),
    ):
        subparsers.add_parser(name, help=says, description=says, parents=[_tables()], epilog=_EPILOG)
    return everything


def _tables() -> Parser:
    tables = Parser(add_help=False)
    tables.add_argument(
        "--tables",
        metavar="DIR",
        default="kbus-tables",
        help="directory of the tables, or s3://BUCKET/KEY (default: %(default)s)",
    )
    return tables


def _common() -> Parser:
    common = Parser(add_help=False, parents=[_tables()])
    common.add_argument(
        "--master", metavar="URL", help="Spark's master, such as local[4] or spark://host:7077"
    )
    common.add_argument(
        "--conf", metavar="KEY=VALUE", action="append", type=_setting, default=[], help="an option of Spark"
    )
    common.add_argument("--quiet", action="store_true", help="show no progress")
    return common


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _ingest_options(one: argparse.ArgumentParser) -> None:
    one.add_argument("captures", metavar="CAPTURES", nargs="+", help="files, directories or patterns")
    one.add_argument("--strict", action="store_true", help="take nothing if a file is damaged or no capture")
    one.add_argument(
        "--buckets",
        metavar="N",
        type=_positive,
        default=16,
        help="of new tables: buckets of devices (default: 16)",
    )


def _sql_options(subparsers: Subparsers) -> None:
    says = "Answer a question in SQL, without Spark."
    one = subparsers.add_parser("sql", help=says, description=says, parents=[_tables()], epilog=_EPILOG)
    one.add_argument("query", metavar="SQL", help="what to ask, or - to read it from stdin")
    form = one.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print comma-separated values")
    form.add_argument("--json", action="store_true", help="print a JSON object a row")


def _within_option(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--within", metavar="SECONDS", type=_positive, default=60,
        help="how long an answer may take (default: %(default)s)",
    )  # fmt: skip


def _report_options(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--output",
        metavar="FILE",
        default="report.html",
        help="where to (default: %(default)s); the verdicts for programs are beside it, in a file that ends"
        " in .json instead",
    )
    one.add_argument(
        "--scope", metavar="SCOPE", default="", help="since=TIME,until=TIME,device=NAME*,recorder=..."
    )
    one.add_argument(
        "--compare", metavar=("BEFORE", "AFTER"), nargs=2, help="two scopes: periods, versions, devices"
    )
    one.add_argument(
        "--thresholds",
        metavar="FILE",
        help="TOML file that says from which figures on a verdict is not green",
    )
    one.add_argument(
        "--fail-on",
        metavar="LEVEL",
        choices=("yellow", "red"),
        help="exit with 3 if a verdict is so bad: %(choices)s",
    )


def _stream_options(one: argparse.ArgumentParser) -> None:
    one.add_argument("inbox", metavar="DIR", help="directory to which captures are uploaded")
    one.add_argument(
        "--checkpoint", metavar="DIR", help="where Spark remembers how far it is (default: in the tables)"
    )
    one.add_argument(
        "--every", metavar="SECONDS", type=_positive, default=10, help="look so often (default: 10)"
    )
    one.add_argument("--batch", metavar="BYTES", type=_positive, help="take at most so much at a time")
    one.add_argument("--once", action="store_true", help="take what is there, and end")
    one.add_argument(
        "--buckets",
        metavar="N",
        type=_positive,
        default=16,
        help="of new tables: buckets of devices (default: 16)",
    )


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)
