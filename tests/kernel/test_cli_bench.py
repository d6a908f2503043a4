# SPDX-License-Identifier: MIT
"""`kbus bench` against the module."""

from __future__ import annotations

import json

import pytest

from kbus.cli import main
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import bindings


def test_it_measures(nothing_left: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--seconds", "0.1", "--size", "10", "--size", "100K", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    records = [json.loads(line) for line in said.out.splitlines()]
    assert [(record["size"], record["batch"], record["is_real"]) for record in records] == [
        (10, 64, True),
        (102400, 2, True),
    ]
    for record in records:
        assert all(record[f"{what}_per_s"] > 0 for what in ("one_by_one", "batched", "calls"))
    assert bindings() == []


def test_it_does_not_disturb(ksock: OpenKsock, capsys: pytest.CaptureFixture[str]) -> None:
    listener = ksock()
    listener.bind("$.*")
    assert main(["bench", "--seconds", "0.1"]) == 1
    assert f"kbus bench: KSock {listener.ksock_id()} (" in capsys.readouterr().err
    assert listener.num_messages() == 0
