# SPDX-License-Identifier: MIT
"""What is printed does not depend on how wide the terminal is: nothing of a name is cut."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from kbus import Announcement, Ksock, inspect

WIDTHS = [50, 80, 200]
#: They differ only in the end, or the middle
NAMES = ["$.Long." + "x" * 300, "$.Long." + "x" * 299 + "y", "$.Long." + "x" * 150 + "y" + "x" * 149]


def shown(path: str, width: int, *command: str) -> Iterator[str]:
    """All that a command shows on a terminal of this width, after an empty text once it is there."""
    terminal, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-m", "kbus.cli", *command],
        env={**environment, "KBUS_TEST_BUS": path},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(theirs)
        yield ""
        text = ""
        while select.select([terminal], [], [], 30)[0]:
            try:
                text += os.read(terminal, 1 << 16).decode()
            except OSError:
                # The other end is closed.
                break
        process.kill()
    os.close(terminal)
    yield text.replace("\r\n", "\n")


@pytest.mark.parametrize("command", [["bindings"], ["bindings", "--tree"], ["stats"], ["trace", NAMES[1]]])
def test_tables(command: list[str], bus_path: str) -> None:
    with Ksock() as listener:
        for name in NAMES:
            listener.bind(name)
        found = [list(shown(bus_path, width, *command))[1] for width in WIDTHS]
    assert found[0]
    assert found == [found[0]] * len(WIDTHS)
    if command == ["bindings"]:
        assert sorted(line.split()[-1] for line in found[0].splitlines()[1:]) == sorted(NAMES)


@pytest.mark.parametrize("width", WIDTHS)
def test_messages(width: int, bus_path: str) -> None:
    listening = shown(bus_path, width, "listen", "--format", "%n", "-n", "3", "$.Long.*")
    next(listening)
    deadline = time.monotonic() + 30
    while not inspect.bindings():
        assert time.monotonic() < deadline, "it has not bound"
        time.sleep(0.01)
    with Ksock() as sender:
        for name in NAMES:
            sender.send_msg(Announcement(name))
    assert next(listening).splitlines() == NAMES
