# SPDX-License-Identifier: MIT
"""Questions in SQL, which DuckDB answers without Spark and Java.

Each table is a view, by its name, as it is at the version of its log that is read first. Nothing is written:
what a step that died has left to do is left to the next one, so two tables may be a step apart.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple, Optional

import duckdb
import pyarrow as pa
from pyarrow import dataset

from ...terminal.output import StdoutFailed, flush, put, put_json, put_table, stdout_failed
from . import parts, schemas
from .delta import Table, columns_of
from .parts import Part, WarehouseError, first_line
from .steps import STEPS, Steps
from .stores import Store, arrow
from .warehouse import Warehouse

_NO_TABLE = re.compile(r"Table with name (.+) does not exist!")
#: Which step makes a table; the others are there from the beginning.
_MADE_BY = {"conversations": "conversations", "events": "conversations"} | {
    table: "aggregate" for table in schemas.TABLES if table.endswith(("_minute", "_hour"))
}
_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL.*|DOUBLE|FLOAT")


class QuestionError(Exception):
    """There is no answer to a question; the text says why, in one line."""


#: What ``run`` raises
FAILURES = (QuestionError, WarehouseError, OSError, ValueError)


class Answer(NamedTuple):
    """Names of columns, whether these are numbers, and the rows: text of each value, or None for NULL."""

    columns: list[str]
    are_numbers: list[bool]
    rows: Iterator[tuple[Optional[str], ...]]


def run(args: argparse.Namespace) -> int:
    """Print the answer to ``args.query`` and return the exit status. Raises one of FAILURES."""
    query = sys.stdin.read() if args.query == "-" else args.query
    # Else DuckDB, once interrupted, may wait for the end of the query nevertheless.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        answer = ask(Warehouse.open(args.tables), query, args.json)
        if answer:
            _put_answer(answer, args)
        flush()
    except StdoutFailed as failure:
        return stdout_failed("kbus-pipeline sql", failure)
    finally:
        signal.signal(signal.SIGINT, before)
    return 0


def _put_answer(answer: Answer, args: argparse.Namespace) -> None:
    if args.json:
        for row in answer.rows:
            put_json(dict(zip(answer.columns, map(_parsed, row))))
    elif args.csv:
        _put_csv(answer.columns)
        for row in answer.rows:
            _put_csv(row)
    else:
        rows = [["NULL" if cell is None else cell for cell in row] for row in answer.rows]
        put_table(answer.columns, rows, answer.are_numbers)


def _parsed(cell: Optional[str]) -> Any:
    # JSON has no NaN, and no infinity.
    return cell and json.loads(cell, parse_constant=lambda _: None)


def _put_csv(row: Sequence[Optional[str]]) -> None:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(row)
    put(line.getvalue().encode())


def ask(warehouse: Warehouse, query: str, as_json: bool = False) -> Optional[Answer]:
    """Return the answer to a query, its values as DuckDB writes them, or as JSON; None if it gives no rows.

    Times are UTC. Raises QuestionError, also while rows are read, and WarehouseError.
    """
    done = Steps(warehouse.root).state.notes
    tables = [table for table in (*schemas.TABLES, STEPS) if _MADE_BY.get(table) in (None, *done)]
    connection = connect(warehouse.root, tables)
    try:
        others = connection.extract_statements(query)[:-1]
        if any(each.type == duckdb.StatementType.SELECT for each in others):
            raise QuestionError("only the last statement may ask for rows")
        found = connection.sql(query)
        if found is None:
            return None
        texts = found.project("to_json(COLUMNS(*))::VARCHAR" if as_json else "COLUMNS(*)::VARCHAR")
        are_numbers = [bool(_NUMBERS.fullmatch(str(each))) for each in found.types]
        return Answer(texts.columns, are_numbers, _rows(warehouse.root, tables, texts))
    except duckdb.Error as error:
        raise QuestionError(_reason(error, warehouse.root, tables)) from error


def connect(root: Store, tables: Sequence[str]) -> duckdb.DuckDBPyConnection:
    """Return a connection to DuckDB in which these tables are views."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    # Else names of tables could be variables of this program.
    connection.execute("SET python_enable_replacements = false")
    for table in tables:
        connection.register(table, _dataset(root, Table(root, table)))
    return connection


def _dataset(root: Store, table: Table) -> dataset.Dataset:
    """Return the rows of a table, by its files.

    Delta's library has such a function, which goes by the bounds of columns in the log. Where these are
    missing, as in tables of earlier versions, its filters leave out all rows.
    """
    filesystem, where = arrow(root)
    parquet = dataset.ParquetFileFormat()
    schema = schemas.arrow_schema(columns_of(table.name))
    files = [
        parquet.make_fragment(f"{where}/{part.path}", filesystem, _place(part)) for part in table.parts()
    ]
    return dataset.FileSystemDataset(files, schema, parquet, filesystem)


def _place(part: Part) -> Optional[dataset.Expression]:
    if not part.partition:
        return None
    day = dataset.field("date") == date.fromisoformat(part.partition.date)
    both: dataset.Expression = day & (dataset.field("bucket") == part.partition.bucket)
    return both


def _rows(root: Store, tables: Sequence[str], found: duckdb.DuckDBPyRelation) -> Iterator[tuple[Any, ...]]:
    try:
        for batch in found.to_arrow_reader(10_000):
            yield from zip(*(column.to_pylist() for column in batch.columns))
    except (duckdb.Error, pa.ArrowException) as error:
        if ".parquet" in str(error):
            # If that is because of a file, this tells of it, and what to do.
            parts.check(root, (part for table in tables for part in Table(root, table).parts()))
        raise QuestionError(_first_part(error)) from error


def _reason(error: duckdb.Error, root: Store, tables: Sequence[str]) -> str:
    missing = _NO_TABLE.search(str(error))
    if not missing:
        return _first_part(error)
    name = missing[1]
    if name in _MADE_BY:
        return f"there is no table {name} yet: `kbus-pipeline {_MADE_BY[name]} --tables {root}` makes it"
    return f"there is no table {name}: there are {', '.join(tables)}"


def _first_part(error: BaseException) -> str:
    """Return what an error says before it shows the place, or, of Python below it, where it was raised."""
    return " ".join(re.split(r"\n\s*\n|\nLINE \d", str(error))[0].split()) or first_line(error)
