# SPDX-License-Identifier: MIT
"""What is said at the end of `make test`."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import summary

REPORT = """<testsuites><testsuite>
<testcase classname="tests.kernel.test_send" name="test_a[x.y]" time="1.5"/>
<testcase classname="tests.kernel.test_send" name="test_b" time="0.5"><failure/></testcase>
<testcase classname="" name="tests.sbus.test_c" time="0.0"><error/></testcase>
</testsuite></testsuites>"""


def said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *runs: Path
) -> tuple[int, list[str]]:
    monkeypatch.setattr("sys.argv", ["summary", *map(str, runs)])
    status = summary.main()
    return status, capsys.readouterr().out.splitlines()


def test_areas_and_the_slowest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "um" / "1"
    run.mkdir(parents=True)
    run.joinpath("tests.xml").write_text(REPORT)
    status, lines = said(capsys, monkeypatch, run)
    assert status == 1
    assert "um/1         kernel            2      2.0" in lines
    assert "um/1         sbus              1      0.0" in lines
    assert "     1.5 s  um/1 kernel.test_send.test_a[x.y]" in lines
    assert lines[-1] == "1 passed, 2 failed"


def test_a_run_that_did_not_end_names_its_last_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.joinpath("running").write_text("kernel/test_send.py::test_b\n")
    status, lines = said(capsys, monkeypatch, tmp_path)
    assert status == 1
    assert f"{tmp_path.name}: ended without a report, in kernel/test_send.py::test_b" in lines
    assert lines[-1] == "0 passed, 1 failed"


def test_no_test_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.joinpath("tests.xml").write_text("<testsuites><testsuite/></testsuites>")
    assert said(capsys, monkeypatch, tmp_path)[0] == 1
