# SPDX-License-Identifier: MIT
"""Command lines that need no daemon, mostly wrong ones, and addresses."""

from __future__ import annotations

import errno
import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kbus.sbus import Client, address, command, daemon, log
from kbus.sbus.address import Address
from kbus.sbus.process import Spare
from tests.kernel.helpers import PATIENCE, wait_until


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
        with subprocess.Popen([*closed, *program, "pub", "-a", where, "a", "hello"]) as process:
            accepted, _ = listening.accept()
            with accepted:
                assert accepted.recv(100).endswith(b"hello")
                accepted.send(b"CMSG !/cred/whoami\0!/cred/1/2/3")
                assert process.wait(PATIENCE) == 0


def test_kbus_sbusd_without_standard_streams(tmp_path: Path) -> None:
    """What it opens must not get their numbers, or what is written to them would go there."""
    where = tmp_path / "socket"
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    program = (
        "import sys; from kbus.sbus import daemon; from tests.sbus.echo import use_no_kbus; use_no_kbus()"
    )
    command = [*closed, sys.executable, "-c", f"{program}; sys.exit(daemon.main())"]
    with subprocess.Popen([*command, "-f", "-p", "/dev/null", "-c", "-a", where]) as process:
        wait_until(lambda: where.exists() or process.poll() is not None, "it listens")
        with Client(str(where)) as client:
            assert client.whoami(PATIENCE)
            assert [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)] == [
                "/dev/null"
            ] * 3
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("errno_", [errno.ENOSPC, errno.EPIPE])
def test_nobody_reads_what_the_daemon_says(monkeypatch: pytest.MonkeyPatch, errno_: int) -> None:
    class Lost(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno_, os.strerror(errno_))

    monkeypatch.setattr(sys, "stderr", Lost())
    log.say("this")


def test_the_spare_descriptors_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else may get one that was given up. It is taken back as soon as there is one."""
    spare = Spare()
    before = len(os.listdir("/proc/self/fd"))
    free = os.open

    def none_free(*args: object) -> int:
        raise OSError(errno.ENFILE, "none")

    for is_free in (False, False, True, True):
        monkeypatch.setattr(os, "open", free if is_free else none_free)
        with spare.given_up():
            assert len(os.listdir("/proc/self/fd")) == before - 2
        assert len(os.listdir("/proc/self/fd")) == (before if is_free else before - 2)
    spare.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-a", "/dev/unix/abstract/x"], "not pairs of hex digits"),
        (["-a", "/dev/unix/abstract/" + "00" * 109], "at most 108"),
        (["-a", "/dev/unix/abstract/ff00"], "begins with the byte 00, not ff"),
        (["-a", "/" + "x" * 107], "at most 107"),
        (["-u", "no-such-user"], "there is no user"),
        (["--group", "no-such-group"], "there is no group"),
        (["--mode", "0999"], "not a mode"),
        (["--root", "Sbus"], "neither"),
        (["--max-queued", "0"], "not a number from 1"),
        (["--max-packet", "1000000000000"], "1000000000000 is more than 16777216"),
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
    assert [len(each.abstract or b"") for each in (one, other)] == [108, 108]
