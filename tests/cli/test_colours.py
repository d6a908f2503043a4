# SPDX-License-Identifier: MIT
"""`kbus listen` has colours on a terminal that wants them, and nowhere else."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from kbus import Announcement, Ksock, Message, Request, inspect, reply_to
from kbus._failed import FAILED, failed_reply
from tests.kernel.helpers import wait_until

COUNT = 6


def lines_of(path: str, *options: str, **environment: str) -> list[str]:
    """What `kbus listen` shows of two announcements, two requests and their answers."""
    terminal, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "kbus.cli", "listen", "$.A", "$.B", FAILED, "-n", str(COUNT), *options],
        env={**os.environ, "NO_COLOR": "", "TERM": "xterm", "KBUS_TEST_BUS": path, **environment},
        stdout=theirs,
    ) as process:
        os.close(theirs)
        wait_until(lambda: len(inspect.bindings()) == 3, "it has bound")
        with Ksock() as asker, Ksock() as replier:
            replier.bind("$.B", replier=True)
            asker.send_msg(Announcement("$.A", b"\x1b[35m"))
            asker.send_msg(Announcement("$.A", flags=Message.URGENT))
            for answered in (reply_to, failed):
                asker.send_msg(Request("$.B"))
                (request,) = replier.receive_many()
                replier.send_msg(answered(request))
            assert process.wait(30) == 0
    shown = b""
    while shown.count(b"\n") < COUNT:
        shown += os.read(terminal, 4096)
    os.close(terminal)
    return shown.decode().split("\r\n")[:-1]


def failed(request: Message) -> Message:
    """The answer that is an error."""
    return failed_reply(request, "ValueError", "no", 1000)


def colour_of(line: str) -> str:
    """The colour of all of the line; "" if it has none."""
    found = re.fullmatch(r"(?:\x1b\[([0-9;]+)m)?[^\x1b]+(?:\x1b\[0m)?", line)
    assert found and line.endswith("\x1b[0m") == bool(found[1]), line
    return found[1] or ""


def test_each_kind_has_its_colour(bus_path: str) -> None:
    kinds: dict[str, set[str]] = {}
    for line in lines_of(bus_path):
        kind = re.sub(r"\x1b\[[0-9;]*m", "", line).split()[3]
        kinds.setdefault(FAILED if FAILED in line else kind, set()).add(colour_of(line))
    assert kinds == {"A": {""}, "Au": {"1"}, "Q": {"36"}, "R": {"32"}, FAILED: {"31"}}


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ((), {"NO_COLOR": "1"}),
        ((), {"TERM": "dumb"}),
        (("--json",), {}),
        (("--format", "%n %k"), {}),
    ],
)
def test_who_wants_none_has_none(
    options: tuple[str, ...], environment: dict[str, str], bus_path: str
) -> None:
    assert not any(map(colour_of, lines_of(bus_path, *options, **environment)))
