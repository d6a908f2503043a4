# SPDX-License-Identifier: MIT
"""Command lines that need no daemon, mostly wrong ones, and addresses."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kbus.sbus import address, command, daemon
from kbus.sbus.address import Address


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["pub", "-a", "/no/such", "a"], 1, "/no/such: No such file or directory"),
        (["pub"], 2, "required"),
        (["pub", "-a", "/dev/fd/3", "a"], 2, "connected to"),
        (["sub"], 2, "required"),
        (["sub", "-n", "0", "a"], 2, "not a number from 1"),
        (["sub", "--protocol", "r5", "a"], 2, "invalid choice"),
        ([], 2, "required"),
    ],
)
def test_kbus_sbus(capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str) -> None:
    assert command.main(arguments) == status
    assert said in capsys.readouterr().err


def test_kbus_sbus_without_standard_streams(tmp_path: Path) -> None:
    where = tmp_path / "socket"
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    program = [sys.executable, "-c", "import sys; from kbus.sbus.command import main; sys.exit(main())"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(where))
        listening.listen()
        assert subprocess.call([*closed, *program, "pub", "-a", where, "a", "hello"]) == 0
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.recv(100).endswith(b"hello")
            assert accepted.recv(100) == b""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-a", "/dev/unix/abstract/x"], "not pairs of hex digits"),
        (["-a", "/dev/unix/abstract/" + "00" * 108], "at most 107"),
        (["-a", "/" + "x" * 107], "at most 107"),
        (["-u", "no-such-user"], "there is no user"),
        (["--group", "no-such-group"], "there is no group"),
        (["--mode", "0999"], "not a mode"),
        (["--root", "Sbus"], "neither"),
        (["--max-queued", "0"], "not a number from 1"),
        (["--grace", "-1"], "not a number of seconds"),
        (["--credential-prefix", "!/cred/1/2"], "truncated"),
        (["more"], "unrecognized"),
    ],
)
def test_kbus_sbusd(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert daemon.main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/run/sbus.socket", Address(path="/run/sbus.socket")),
        ("/dev/unix/abstract/00fF", Address(abstract=b"\0\xff")),
        ("/dev/unix/abstract", Address()),
        ("/dev/fd/3", Address(fd=3)),
        ("/dev/fd/x", Address(path="/dev/fd/x")),
    ],
)
def test_rule_addresses(text: str, expected: Address) -> None:
    assert address.parse(text) == expected
    assert str(expected).lower() == text.lower()


def test_names_that_are_made_up() -> None:
    one, other = address.made_up(), address.made_up()
    assert one != other
    assert [len(each.abstract or b"") for each in (one, other)] == [107, 107]
