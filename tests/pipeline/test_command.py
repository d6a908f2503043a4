# SPDX-License-Identifier: MIT
"""kbus-pipeline, as it is typed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyspark
import pytest

import kbus.pipeline
from kbus import Announcement, MessageId, Request
from kbus.pipeline.cli import main
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline import fleet
from tests.pipeline.captures import capture, info
from tests.pipeline.conftest import OPTIONS, Fleet
from tests.pipeline.test_ingest import MANY
from tests.pipeline.warehouses import asked

PIPELINE = [sys.executable, "-m", "kbus.pipeline"]
SPARK = [part for key, value in OPTIONS.items() for part in ("--conf", f"{key}={value}")]
#: Root in namespaces of its own, where these may be made
ROOT = ["unshare", "--user", "--map-root-user", "--mount", "--uts"]
MAY_BE_ROOT = (
    subprocess.run([*ROOT, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0
)
NAMELESS = [*ROOT, "sh", "-c", 'hostname nowhere.invalid && exec "$@"', "sh"] if MAY_BE_ROOT else []


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    everything = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=everything, timeout=300)


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("captures")
    fleet.make(where, seconds=60, devices=3)
    return where


def begin(captures: Path, where: Path, *more: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Begin a `run` in a directory, and return the process, which heads a group, as for a terminal."""
    places = ["--tables", "tables", "--output", "report.html", str(captures)]
    command = [*before, *PIPELINE, "run", "--quiet", *SPARK, *more, *places]
    environment = {**os.environ, "PYTHONPATH": str(Path(kbus.__file__).parent.parent)}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, cwd=where, env=environment, start_new_session=True
    )


def check_interrupted(process: subprocess.Popen[str]) -> None:
    """Press ctrl-C: the command says so, nothing else, does not go on to its end, and Java ends too."""
    os.killpg(process.pid, signal.SIGINT)
    done, said = process.communicate(timeout=300)
    assert said == "kbus-pipeline run: interrupted\n"
    assert "report: " not in done
    assert process.returncode == 130
    deadline = time.monotonic() + 300
    while run("pgrep", "--pgroup", str(process.pid), "--runstates", "DRS").returncode == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_it_starts_spark_and_is_interrupted(captures: Path, tmp_path: Path) -> None:
    """Java says nothing. Executors have directories of their own, and the machine's name has no address."""
    cluster = ["--master", "local-cluster[1,1,512]", "--conf", "spark.executor.memory=512m"]
    process = begin(captures, tmp_path, *cluster, before=NAMELESS)
    assert process.stdout
    first = process.stdout.readline()
    check_interrupted(process)
    said = re.fullmatch(r"ingest: \d+ files .*; ([\d,]+) messages; .*\n", first)
    warehouse = Warehouse.open(str(tmp_path / "tables"))
    found = warehouse.rows(warehouse.snapshot().of("messages"), ["rec_seq"])
    assert said and said[1] == f"{len(found):,}"


def java_is_there(process: subprocess.Popen[str], tables: Path) -> bool:
    who = ["--parent", str(process.pid), "--full", "org.apache.spark.deploy.SparkSubmit"]
    return run("pgrep", *who).returncode == 0


def ingest_writes(process: subprocess.Popen[str], tables: Path) -> bool:
    return any(tables.glob("messages/*/*/*.parquet"))


def report_is_next(process: subprocess.Popen[str], tables: Path) -> bool:
    assert process.stdout
    return process.stdout.readline().startswith("aggregate: ")


@pytest.mark.long("starts Spark each time")
@pytest.mark.parametrize("has_come", [java_is_there, ingest_writes, report_is_next])
def test_interrupted_anywhere(
    captures: Path, tmp_path: Path, has_come: Callable[[subprocess.Popen[str], Path], bool]
) -> None:
    process = begin(captures, tmp_path, "--master", "local[2]")
    while not has_come(process, tmp_path / "tables"):
        assert process.poll() is None
        time.sleep(0.01)
    check_interrupted(process)


def test_run_does_everything_and_says_what(whole_fleet: Fleet) -> None:
    lines, report = whole_fleet.said, whole_fleet.report
    size = sum(path.stat().st_size for path in whole_fleet.captures.iterdir())
    files = len(list(whole_fleet.captures.iterdir()))
    assert re.fullmatch(
        rf"ingest: {files} files of {size:,} bytes; [\d,]+ messages; [\d,]+ bytes written; [\d.]+ s", lines[0]
    )
    assert re.fullmatch(
        r"conversations: [\d,]+ rows of [\d,]+ bytes read in \d+ partitions;"
        r" [\d,]+ conversations, [\d,]+ events in [\d,]+ bytes written; [\d.]+ s",
        lines[1],
    )
    assert lines[2].startswith("aggregate: ") and lines[3].startswith(
        f"report: {report.stat().st_size:,} bytes; "
    )
    assert lines[4] == str(report.resolve()) and len(lines) == 5
    assert "<h1>How is the bus?</h1>" in report.read_text()


@pytest.mark.long("starts Spark")
def test_below_spark_submit(captures: Path, tmp_path: Path) -> None:
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    script = str(Path(kbus.pipeline.__file__).parent / "__main__.py")
    settings = [part for key, value in OPTIONS.items() for part in ("--conf", f"{key}={value}")]
    done = run(
        submit, "--master", "local[2]", "--conf", "spark.log.level=INFO", *settings, script,
        "ingest", "--tables", str(tmp_path / "tables"), str(captures),
        PYSPARK_PYTHON=sys.executable,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 'Setting Spark log level to "INFO"' in done.stderr, "what was said to spark-submit holds"
    assert re.search(r"^ingest: \d+ files", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fly"], "invalid choice: 'fly'"),
        (["ingest"], "the following arguments are required: CAPTURES"),
        (["ingest", "--conf", "novalue", "x"], "'novalue' is not KEY=VALUE"),
        (["conversations", "--within", "soon"], "'soon' is not a whole number above 0"),
    ],
)
def test_wrong_command_lines(capsys: pytest.CaptureFixture[str], words: list[str], says: str) -> None:
    assert main(words) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ingest", "--tables", "{tmp}/t", "/no/such"], "/no/such: no such file or directory"),
        (["ingest", "--tables", "{tmp}/t", "{tmp}"], "there is no file in {tmp}"),
        (
            ["aggregate", "--tables", "{tmp}/t"],
            "there are no tables in {tmp}/t: `kbus-pipeline ingest` makes",
        ),
        (["ingest", "--tables", "hdfs://nn/t", __file__], "hdfs://nn/t: tables must be in a directory"),
        (["sql", "--tables", "hdfs://nn/t", "SELECT 1"], "hdfs://nn/t: tables must be in a directory"),
        (["aggregate", "--tables", "{tmp}/a%2Fb"], "{tmp}/a%2Fb: tables can have none of % \\ ? *"),
        (["aggregate", "--tables", "s3a://bucket/t"], "s3a://bucket/t: tables must be in a directory"),
        (["ingest", "--tables", "{tmp}/t", "s3a://bucket/t"], "s3a://bucket/t: recordings must be in a"),
        (["run", "--tables", "{tmp}/t", "--output", "s3://b/o", __file__], "s3://b/o: a report must be in a"),
        (
            ["run", "--tables", "{tmp}/t", "--output", "{tmp}/no/o", __file__],
            "there is no directory {tmp}/no to",
        ),
        (["report", "--tables", "{tmp}/t", "--output", "{tmp}/no/o"], "there is no directory {tmp}/no to"),
        (["report", "--tables", "{tmp}/t", "--output", "{tmp}"], "{tmp} is a directory: a report is a file"),
        (["stream", "--tables", "{tmp}/t", "hdfs:/inbox"], "hdfs:/inbox: recordings must be in a directory"),
    ],
)
def test_what_can_not_be_done_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], says: str
) -> None:
    assert main([word.format(tmp=tmp_path) for word in words]) == 1
    assert says.format(tmp=tmp_path) in capsys.readouterr().err
    assert not any(tmp_path.iterdir()), "nothing has been done"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["report", "--scope", "colour=red"], "'colour=red' is none of since=..."),
        (["report", "--scope", "since=noon"], "'noon' is no time like"),
        (["report", "--compare", "", "since=noon"], "'noon' is no time like"),
    ],
)
def test_a_wrong_scope_is_a_wrong_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], says: str
) -> None:
    assert main([*words, "--tables", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err


def test_without_java(tmp_path: Path) -> None:
    (tmp_path / "a.pcapng").write_bytes(capture(MANY))
    command = [*PIPELINE, "ingest", "--tables", str(tmp_path / "tables"), str(tmp_path / "a.pcapng")]
    done = run(*command, JAVA_HOME="", PATH=str(tmp_path))
    assert done.returncode == 1
    assert (
        "no Java: Spark needs Java 17 or later. On Debian: apt-get install openjdk-17-jre-headless"
        in done.stderr
    )
    done = run(*command, JAVA_HOME=str(tmp_path))
    assert done.returncode == 1 and f"no Java in JAVA_HOME, {tmp_path}" in done.stderr
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho '    java.specification.version = 1.8' >&2\n")
    old.chmod(0o755)
    done = run(*command, JAVA_HOME=str(tmp_path))
    assert done.returncode == 1 and f"{old} is Java 1.8: Spark needs Java 17 or later" in done.stderr


def test_without_an_address(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machines of a cluster must find this one."""
    (tmp_path / "a.pcapng").write_bytes(capture(MANY))
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere.invalid")
    places = ["--tables", str(tmp_path / "tables"), str(tmp_path / "a.pcapng")]
    assert main(["ingest", "--master", "spark://127.0.0.1:1", *places]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert "this machine's name, nowhere.invalid, has no address: write it into /etc/hosts, or set" in said


@pytest.mark.skipif(not MAY_BE_ROOT, reason="mounts are not permitted here")
def test_without_a_place_for_libraries(tmp_path: Path) -> None:
    (tmp_path / "a.pcapng").write_bytes(capture(MANY))
    noexec = tmp_path / "noexec"
    noexec.mkdir()
    script = f'mount -t tmpfs -o noexec none {noexec} && exec "$@"'
    ingest = [*PIPELINE, "ingest", "--tables", str(tmp_path / "tables"), str(tmp_path / "a.pcapng")]
    done = run(*ROOT, "sh", "-c", script, "sh", *ingest, TMPDIR=str(noexec))
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert f"temporary directory, {noexec}, which is mounted noexec: set TMPDIR to another" in said


def test_not_a_capture(
    pipeline: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("nothing that anybody recorded")
    assert pipeline("ingest", "--quiet", "--tables", str(tmp_path / "tables"), str(notes)) == 1
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "ingest: 1 file: not a capture",
        "ingest: 1 piece of damage, 29 bytes passed over",
        "kbus-pipeline ingest: none of the files is a capture",
    ]


def test_without_spark(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError('hidden', name='pyspark')")
    path = os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    done = run(*PIPELINE, "aggregate", PYTHONPATH=path)
    assert done.returncode == 1
    assert "there is no pyspark here: pip install 'kbus[pipeline]'" in done.stderr
    assert run(*PIPELINE, "--help", PYTHONPATH=path).returncode == 0


BROKEN = ("messages", "conversations", "traffic_minute")


@pytest.mark.parametrize("broken", BROKEN)
def test_what_fails_in_a_task_is_said(
    pipeline: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path, broken: str
) -> None:
    """A file where a directory should be: a task of Python, and tasks of Arrow, can't write."""
    tables = tmp_path / "tables"
    (tmp_path / "a.pcapng").write_bytes(capture([Request("$.A", id=MessageId(0, 1)), *MANY]))
    steps = {
        "messages": ["ingest", str(tmp_path / "a.pcapng")],
        "conversations": ["conversations"],
        "traffic_minute": ["aggregate"],
    }
    Warehouse.create(str(tables), buckets=1)
    for step, words in steps.items():
        if step == broken:
            (tables / step / "date=2026-03-01").write_text("in the way")
            break
        assert pipeline(*words, "--quiet", "--tables", str(tables)) == 0
    assert pipeline(*words, "--quiet", "--tables", str(tables)) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"kbus-pipeline {words[0]}: ")
    assert f"{tables}/{broken}" in said


@pytest.mark.long("starts Spark")
@pytest.mark.skipif(not MAY_BE_ROOT, reason="mounts are not permitted here")
def test_a_disk_that_is_full_is_said(tmp_path: Path) -> None:
    """Until there is room, each command says where there is none, and leaves nothing."""
    disk, captures = tmp_path / "disk", tmp_path / "captures"
    disk.mkdir()
    captures.mkdir()
    noise = [Announcement("$.A", os.urandom(200)) for _ in range(300)]
    for device in ("pump", "valve"):
        (captures / f"{device}.pcapng").write_bytes(capture([*noise, *asked(range(1, 100))], info(device)))
    script = f'mount -t tmpfs -o size=2m none {disk} && exec "$@"'
    command = [sys.executable, "-m", "tests.pipeline.full", str(disk), str(captures)]
    done = run(*ROOT, "sh", "-c", script, "sh", *command)
    assert done.returncode == 0, done.stderr
    attempts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["step"] for each in attempts if not each["status"]] == [
        "ingest",
        "conversations",
        "aggregate",
    ]
    failed = [each for each in attempts if each["status"]]
    assert len(failed) > 5
    for each in failed:
        (said,) = each["said"]
        assert said.startswith(f"kbus-pipeline {each['step']}: can't ") and f" {disk}/tables/" in said
        assert "No space left on device" in said
        # Once files are to become part of the tables, they stay: they may be part of them already.
        is_made = "can't change the table" in said or f" {disk}/tables/steps/" in said
        assert is_made or each["left"] == []
    assert sum(f" {disk}/tables/messages/" in each["said"][0] for each in failed) > 1
