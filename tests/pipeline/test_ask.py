# SPDX-License-Identifier: MIT
"""The page 'Ask the tables': each question gives what the page shows, of the tables of the fleet."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

import kbus
from kbus.pipeline.source import session
from tests.pipeline.conftest import Fleet
from tests.pipeline.readers import EXTENSION
from tests.pipeline.warehouses import directory

DOCS = Path(__file__).parents[2] / "docs"
PROGRAMS = sorted(path for path in (DOCS / "examples" / "ask").iterdir() if path.suffix != ".out")


def shown(program: Path) -> str:
    return program.with_name(f"{program.name}.out").read_text()


@pytest.fixture
def place(whole_fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where somebody has tables, and the command."""
    (tmp_path / "tables").symlink_to(directory(whole_fleet.warehouse))
    command = tmp_path / "kbus-pipeline"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m kbus.pipeline "$@"\n')
    command.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "program", [each for each in PROGRAMS if each.suffix == ".sh"], ids=lambda each: each.stem
)
def test_at_a_shell(place: Path, program: Path) -> None:
    path = f"{place}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(Path(kbus.__file__).parent.parent)}
    done = subprocess.run(["sh", program], env=environment, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == (shown(program), "")


@pytest.mark.parametrize(
    "program", [each for each in PROGRAMS if each.suffix == ".py"], ids=lambda each: each.stem
)
def test_in_python(
    place: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: Path,
) -> None:
    monkeypatch.setattr(session, "start", lambda *_: spark)
    # Where DuckDB looks before it asks the network.
    extensions = place / f"v{duckdb.__version__}" / duckdb.execute("PRAGMA platform").fetchall()[0][0]
    extensions.mkdir(parents=True)
    (extensions / EXTENSION.name).symlink_to(EXTENSION)
    duckdb.execute("SET extension_directory = ?", [str(place)])
    exec(compile(program.read_text(), program, "exec"), {})
    assert capsys.readouterr().out.rstrip() == shown(program).rstrip()


def test_all_of_them_say_the_same() -> None:
    rows = {
        program.name: re.findall(r"(\$\.[\w.]+)\W+(\d+)\W+(\d+)\W", shown(program))
        for program in PROGRAMS
        if program.stem.startswith("slowest")
    }
    assert len(rows) == 5
    assert all(each == rows["slowest.sh"] and each for each in rows.values()), rows


def test_the_page_has_them_all() -> None:
    page = (DOCS / "pipeline" / "ask.rst").read_text()
    for program in PROGRAMS:
        for name in (program.name, f"{program.name}.out"):
            assert f".. literalinclude:: /examples/ask/{name}\n" in page
