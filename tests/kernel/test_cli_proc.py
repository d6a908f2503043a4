# SPDX-License-Identifier: MIT
"""`kbus bindings`, `kbus stats` and `kbus devices` against the module."""

from __future__ import annotations

import dataclasses
import json
import os
import re

import pytest

from kbus import Announcement, Ksock, inspect
from kbus._processes import command_of
from kbus.cli import main
from tests.kernel.conftest import NewDevice, OpenKsock
from tests.kernel.helpers import device_stats

Captured = pytest.CaptureFixture[str]
PID = os.getpid()


@pytest.fixture
def pair(ksock: OpenKsock) -> tuple[Ksock, Ksock]:
    """A replier and a listener, who has missed a message and has another."""
    replier, listener = ksock(), ksock(0, "r")
    replier.bind("$.A.*", replier=True)
    listener.bind("$.A.B")
    listener.set_max_messages(1)
    replier.send_msg(Announcement("$.A.B", "1234"))
    replier.send_msg(Announcement("$.A.B", "lost"))
    return replier, listener


def rows(capsys: Captured) -> list[list[str]]:
    """What was printed, in words."""
    said = capsys.readouterr()
    assert said.err == ""
    return [line.split() for line in said.out.splitlines()]


def test_bindings(pair: tuple[Ksock, Ksock], capsys: Captured) -> None:
    command = command_of(os.getpid())
    replier, listener = [str(each.ksock_id()) for each in pair]
    assert main(["bindings"]) == 0
    assert rows(capsys) == [
        ["DEVICE", "KSOCK", "PID", "COMMAND", "AS", "NAME"],
        ["kbus0", listener, str(PID), command, "listener", "$.A.B"],
        ["kbus0", replier, str(PID), command, "replier", "$.A.*"],
    ]


def test_bindings_as_json(pair: tuple[Ksock, Ksock], capsys: Captured) -> None:
    assert main(["bindings", "--json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"device": 0, "ksock_id": pair[1].ksock_id(), "pid": PID, "is_replier": False, "name": "$.A.B"},
        {"device": 0, "ksock_id": pair[0].ksock_id(), "pid": PID, "is_replier": True, "name": "$.A.*"},
    ]


def test_bindings_of_a_device(
    pair: tuple[Ksock, Ksock], ksock: OpenKsock, new_device: NewDevice, capsys: Captured
) -> None:
    device = new_device()
    ksock(device).bind("$.Elsewhere")
    assert main(["bindings", "-d", str(device)]) == 0
    assert [row[-1] for row in rows(capsys)] == ["NAME", "$.Elsewhere"]


def test_stats(pair: tuple[Ksock, Ksock], capsys: Captured) -> None:
    assert main(["stats", "-d", "0"]) == 0
    device, head, replier, listener = rows(capsys)
    assert device[:2] == ["kbus0:", str(device_stats()["sent"])]
    found = [dict(zip(head, row)) for row in (replier, listener)]
    assert [row["KSOCK"] for row in found] == [str(each.ksock_id()) for each in pair]
    assert [(row["SENT"], row["QUEUED"], row["LIMIT"], row["LOST"]) for row in found] == [
        ("2", "0", "100", "0"),
        ("0", "1", "1", "1"),
    ]


def test_stats_as_json(pair: tuple[Ksock, Ksock], capsys: Captured) -> None:
    assert main(["stats", "--json"]) == 0
    expected = [json.loads(json.dumps(dataclasses.asdict(each))) for each in inspect.stats()]
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == expected
    assert expected[0]["ksocks"][1]["lost"] == 1


@pytest.mark.parametrize("words", [["send", "$.A"], ["stats"], ["bindings"], ["bindings", "--watch"]])
def test_a_device_that_is_not_there(words: list[str], capsys: Captured) -> None:
    assert main([*words, "-d", "999"]) == 1
    out, said = capsys.readouterr()
    assert not out
    assert re.match(f"kbus {words[0]}: there is no device /dev/kbus999: .*/dev/kbus0.*; .*devices", said)


def test_devices_as_a_table(pair: tuple[Ksock, Ksock], capsys: Captured) -> None:
    assert main(["devices"]) == 0
    head, first, *_ = rows(capsys)
    assert head == ["NODE", "USER", "GROUP", "MODE", "KSOCKS"]
    assert first == ["/dev/kbus0", "root", "root", "0660", "2"]


def test_devices_as_json(new_device: NewDevice, capsys: Captured) -> None:
    device = new_device()
    assert main(["devices", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {
        "device": device,
        "node": f"/dev/kbus{device}",
        "user": "root",
        "group": "root",
        "mode": "0660",
        "ksocks": 0,
    }
