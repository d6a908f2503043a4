# SPDX-License-Identifier: MIT
"""`kbus send` against the module, and who may open a device."""

from __future__ import annotations

import contextlib
import grp
import io
import json
import os
from pathlib import Path

import pytest

from kbus import Ksock
from kbus.cli import main
from tests.kernel.command import kbus, running
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import fill, ksock_stats, stats_lines, take, texts, wait_until
from tests.kernel.processes import NOBODY, become, in_child

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def listener(ksock: OpenKsock) -> Ksock:
    """A KSock that listens to $.A."""
    listener = ksock()
    listener.bind("$.A")
    return listener


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        ([], None),
        (["22.5"], b"22.5"),
        (["grün"], "grün".encode()),
        (["--hex", "00 ff10"], b"\x00\xff\x10"),
        (["--", "-5"], b"-5"),
    ],
)
def test_data(arguments: list[str], data: bytes | None, listener: Ksock, capsys: Captured) -> None:
    assert main(["send", "$.A", *arguments]) == 0
    message = take(listener)
    assert (message.name, message.data, message.flags) == ("$.A", data, 0)
    assert capsys.readouterr() == (f"{message.id}\n", "")


def test_stdin(listener: Ksock) -> None:
    data = bytes(range(256)) * 1000 + b"odd"
    done = kbus("send", "$.A", "-", stdin=data)
    message = take(listener)
    assert message.data == data
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{message.id}\n".encode(), b"")


def test_file(listener: Ksock, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"\xff\n\x00")
    assert main(["send", "$.A", "--file", str(path)]) == 0
    assert take(listener).data == b"\xff\n\x00"


def test_json(listener: Ksock, capsys: Captured) -> None:
    assert main(["send", "--json", "$.A"]) == 0
    message = take(listener)
    assert message.id is not None
    assert json.loads(capsys.readouterr().out) == {"device": 0, "id": [0, message.id.serial_num]}


def test_urgent(listener: Ksock) -> None:
    assert main(["send", "$.A", "first"]) == 0
    assert main(["send", "$.A", "second", "--urgent"]) == 0
    assert texts(listener) == [b"second", b"first"]


def test_a_full_listener_misses_it(listener: Ksock) -> None:
    fill(listener)
    assert main(["send", "$.A"]) == 0
    assert listener.lost_messages() == 1


def test_all_or_fail(listener: Ksock, capsys: Captured) -> None:
    fill(listener)
    assert main(["send", "$.A", "--all-or-fail"]) == 1
    assert capsys.readouterr() == (
        "",
        "kbus send: can't send $.A: a recipient that must get it has a full queue, so it was not delivered\n",
    )
    assert listener.lost_messages() == 0


def test_all_or_wait_does_not_wait_for_what_can_never_fit(listener: Ksock, capsys: Captured) -> None:
    listener.bind("$.A")
    listener.set_max_messages(1)
    assert main(["send", "$.A", "--all-or-wait", "--timeout", "600"]) == 1
    assert capsys.readouterr() == (
        "",
        "kbus send: can't send $.A: a recipient that must get it can never have room,"
        " so it was not delivered\n",
    )


def test_all_or_wait_times_out(listener: Ksock, capsys: Captured) -> None:
    fill(listener)
    assert main(["send", "$.A", "--all-or-wait", "--timeout", "0.1"]) == 124
    assert capsys.readouterr() == ("", "kbus send: not all queues had room within 0.1 s; none got it\n")
    assert take(listener).name != "$.A"
    assert listener.read_next_msg() is None


@pytest.mark.parametrize("timeout", [[], ["--timeout", "60"]])
def test_all_or_wait_waits(timeout: list[str], listener: Ksock) -> None:
    fill(listener)
    with running("send", "$.A", "late", "--all-or-wait", *timeout) as process:
        wait_until(somebody_waits, "the command waits for room")
        assert take(listener).name == "$.Filler"
        status, _, err = process.end()
    assert (status, err) == (0, "")
    assert texts(listener) == [b"late"]


def somebody_waits() -> bool:
    return any(line.numbers["waiting"] for line in stats_lines() if line.key[0] == "ksock")


def test_too_long(ksock: OpenKsock, capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "data"
    with path.open("wb") as file:
        file.truncate(ksock().max_message_size())
    assert main(["send", "$.A", "--file", str(path)]) == 1
    assert capsys.readouterr().err == (
        "kbus send: can't send $.A: it is longer than the 1048576 bytes that a message may have\n"
    )


def test_names_of_kbus(capsys: Captured) -> None:
    assert main(["send", "$.KBUS.Mine"]) == 1
    assert capsys.readouterr().err == (
        "kbus send: can't send $.KBUS.Mine: names that begin with $.KBUS. are KBUS's own\n"
    )


def send_as_nobody() -> tuple[int, str]:
    """Exit status and stderr of `kbus send` by a user who may do nothing."""

    def send() -> tuple[int, str]:
        become(NOBODY)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            return main(["send", "$.A"]), said.getvalue()

    return in_child(send)


def test_only_root_may_open_it(listener: Ksock) -> None:
    assert os.stat("/dev/kbus0").st_gid == 0
    status, said = send_as_nobody()
    assert status == 1
    assert said == (
        "kbus send: /dev/kbus0 may not be opened: it belongs to root alone (mode 0660);"
        " be root, or give it to a group with a udev rule\n"
    )
    assert ksock_stats(listener)["queued"] == 0


def test_only_a_group_may_open_it() -> None:
    group = next(entry for entry in grp.getgrall() if entry.gr_gid not in (0, NOBODY))
    os.chown("/dev/kbus0", 0, group.gr_gid)
    try:
        status, said = send_as_nobody()
    finally:
        os.chown("/dev/kbus0", 0, 0)
    assert status == 1
    assert said == (
        f"kbus send: /dev/kbus0 may not be opened: it belongs to the group {group.gr_name} (mode 0660);"
        f" `sudo adduser nobody {group.gr_name}`, then log in again\n"
    )
