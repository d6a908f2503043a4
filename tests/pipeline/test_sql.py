# SPDX-License-Identifier: MIT
"""`kbus-pipeline sql`: answers without Spark, and what is said if there is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbus.pipeline.cli import main
from kbus.pipeline.tables import schemas
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.warehouses import directory, tables

__all__ = ["tables"]

SQL = [sys.executable, "-m", "kbus.pipeline", "sql"]


def ask(warehouse: Warehouse, *words: str) -> int:
    return main(["sql", "--tables", str(directory(warehouse)), *words])


def test_it_needs_no_spark_and_times_are_utc(original: Warehouse, tmp_path: Path) -> None:
    for name in ("pyspark", "py4j"):
        (tmp_path / f"{name}.py").write_text("raise ModuleNotFoundError('hidden')")
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = subprocess.run(
        [*SQL, "--tables", str(directory(original)), "-"],
        input="SELECT min(ts) AS first FROM messages WHERE ts >= '2026-03-01 12:00'",
        env={**os.environ, "PYTHONPATH": path, "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.stdout, done.stderr) == ("first\n2026-03-01 12:00:00+00\n", "")


VALUES = r"""
    SELECT 9223372036854775807::HUGEINT * 2 AS big, 2.50::DECIMAL(5, 2) AS money, NULL::INT AS nothing,
        '' AS empty, '\x00A\x5C'::BLOB AS data, [1, NULL] AS list, 'nan'::DOUBLE AS number,
        'a,b' || chr(8238) AS text
"""
FORMS = {
    "": (
        "                 big  money  nothing  empty  data       list       number  text\n"
        "18446744073709551614   2.50     NULL         \\x00A\\x5C  [1, NULL]     nan  a,b\\u202e\n"
    ),
    "--csv": (
        "big,money,nothing,empty,data,list,number,text\n"
        '18446744073709551614,2.50,,,\\x00A\\x5C,"[1, NULL]",nan,"a,b\u202e"\n'
    ),
    "--json": (
        '{"big": 18446744073709551614, "money": 2.5, "nothing": null, "empty": "", "data": "\\\\x00A\\\\x5C",'
        ' "list": [1, null], "number": null, "text": "a,b\\u202e"}\n'
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_values(original: Warehouse, capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert ask(original, *filter(None, [form]), VALUES) == 0
    assert capsys.readouterr().out == FORMS[form]


def test_no_rows(original: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    """`conversations` has been done, and nothing has happened."""
    assert ask(original, "SELECT kind FROM events") == 0
    assert ask(original, "--json", "SELECT kind FROM events") == 0
    assert ask(original, "SET threads = 1; SELECT count(*) AS n FROM events") == 0
    assert capsys.readouterr().out == "kind\nn\n0\n"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELEC 1", 'Parser Error: syntax error at or near "SELEC"'),
        ("SELECT nam FROM messages", 'Binder Error: Referenced column "nam" not found in FROM clause!'),
        ("SELECT name::INT FROM messages", "Conversion Error: Could not convert string '$.Ask' to INT32"),
        ("SELECT 1; SELECT 2", "only the last statement may ask for rows"),
        ("FROM sys", "there is no table sys: there are " + ", ".join([*schemas.TABLES, "steps"])),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    original: Warehouse, capsys: pytest.CaptureFixture[str], query: str, says: str
) -> None:
    assert ask(original, "--json", query) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kbus-pipeline sql: {says}")


def test_a_table_that_no_step_has_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = Warehouse.create(str(tmp_path / "tables"))
    assert ask(empty, "--csv", "SELECT count(*) FROM messages") == 0
    for table, step in (("events", "conversations"), ("latency_hour", "aggregate")):
        assert ask(empty, f"SELECT count(*) FROM {table}") == 1
        assert capsys.readouterr().err == (
            f"kbus-pipeline sql: there is no table {table} yet:"
            f" `kbus-pipeline {step} --tables {tmp_path}/tables` makes it\n"
        )


def test_a_file_that_is_missing_is_named(tables: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    path = directory(tables) / tables.snapshot().of("messages")[0].path
    path.unlink()
    assert ask(tables, "SELECT max(name) FROM messages") == 1
    said = f"kbus-pipeline sql: {path} is missing: `kbus-pipeline check` says what to do\n"
    assert capsys.readouterr().err == said


def test_whoever_has_read_enough_may_go(original: Warehouse) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [*SQL, "--tables", str(directory(original)), "--csv", "FROM messages"]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, timeout=300)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_it_can_be_interrupted(original: Warehouse, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    query = (
        f"COPY (SELECT 1) TO '{begun}'; SELECT count(*) FROM range(1000000000000) AS t (n) WHERE n % 7 = 5"
    )
    with subprocess.Popen([*SQL, "--tables", str(directory(original)), query]) as process:
        try:
            deadline = time.monotonic() + 300
            while not begun.exists() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            assert process.wait(300) == -signal.SIGINT
        finally:
            process.kill()


def test_only_one_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--csv", "--json", "SELECT 1"]) == 2
    assert "not allowed with argument" in capsys.readouterr().err
