# SPDX-License-Identifier: MIT
"""The daemon as scripts of the original's use it: start in each way, wait for stdout's end, talk, end."""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from pathlib import Path

import pytest

from kbus.sbus import Client
from kbus.sbus import daemon as command
from kbus.sbus.process import DEFAULT_PIDFILE
from tests.kernel.helpers import wait_until
from tests.sbus.running import has_ended, receive, settle

RANDOM = "/dev/unix/abstract"


def started(*arguments: str) -> tuple[int, str]:
    """Run the daemon; its process, or the one that was called, and what it printed until stdout ended."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            os.dup2(writer, 1)
            os.close(writer)
            sys.stdout = os.fdopen(1, "w", closefd=False)
            os._exit(command.main(list(arguments)))
        except BaseException:
            traceback.print_exc()
            os._exit(70)
    os.close(writer)
    with os.fdopen(reader) as stdout:
        return pid, stdout.read()


def inherited(path: str, listens: bool) -> socket.socket:
    """A socket for the daemon to take over."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    bound.bind(path)
    if listens:
        bound.listen()
    return bound


def talk(address: str) -> None:
    """Two clients, of whom one hears what the other says."""
    with Client(address) as one, Client(address) as other:
        one.subscribe("stage/*")
        settle(one)
        other.publish("stage/one", b"hello")
        assert receive(one, 1) == [(b"stage/one", b"hello")]


@pytest.mark.parametrize("ends_with", ["the last client", "a signal"])
@pytest.mark.parametrize("runs_in", ["the foreground", "the background"])
@pytest.mark.parametrize("listens_at", ["path", "abstract", "random", "listening", "bound"])
def test_a_stage(place: Path, listens_at: str, runs_in: str, ends_with: str) -> None:
    path, pidfile = str(place / "sbus"), place / "pid"
    address, where, taken = path, path, None
    if listens_at == "abstract":
        address = where = f"{RANDOM}/00{os.urandom(8).hex()}"
    elif listens_at == "random":
        where = RANDOM
    elif listens_at in ("listening", "bound"):
        taken = inherited(path, listens_at == "listening")
        where = f"/dev/fd/{taken.fileno()}"
    options = ["-a", where, "-p", str(pidfile)]
    options += ["-f"] if runs_in == "the foreground" else []
    options += ["-c"] if ends_with == "the last client" else []

    called, printed = started(*options)
    if taken is not None:
        taken.close()
    # Whoever has seen the end of stdout can connect.
    if listens_at == "random":
        address = printed.rstrip("\n")
    assert printed == (f"{address}\n" if listens_at == "random" else "")
    pid = int(pidfile.read_text())
    assert (pid == called) == (runs_in == "the foreground")
    talk(address)
    if ends_with == "a signal":
        talk(address)
        os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(called, 0)[1]) == 0
    wait_until(lambda: has_ended(pid), "it has ended")
    # Who bound an inherited socket has the path.
    assert os.listdir(place) == (["sbus"] if taken is not None else [])


def test_the_foreground_writes_no_pid_file(place: Path) -> None:
    """Unless it is asked to."""
    default = Path(DEFAULT_PIDFILE)
    assert not default.exists()
    called, _ = started("-f", "-c", "-a", str(place / "sbus"))
    assert not default.exists()
    talk(str(place / "sbus"))
    assert os.waitstatus_to_exitcode(os.waitpid(called, 0)[1]) == 0
