# SPDX-License-Identifier: MIT
"""No command lets what others have chosen do anything to the terminal, or make lines of its own."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbus import Announcement, inspect
from kbus._processes import command_of
from kbus.capture import Frame, Writer
from kbus.cli import SUBCOMMANDS, main
from kbus.cli.bindings import _BindingsScreen as BindingsScreen
from kbus.cli.lines import as_line
from kbus.cli.logs import parse
from kbus.cli.peers import Opener
from kbus.cli.record import _tell
from kbus.cli.top.page import Page
from kbus.inspect import Binding
from kbus.terminal.output import put_line
from tests.capture.captures import INFO, START, capture
from tests.cli.test_proc_text import DEVICE, KSOCK
from tests.cli.test_top_page import look

#: ESC, a line end, CSI of one byte and in UTF-8, DEL, an override of the direction
NAME = b"\x1b[2J\nk\x9b\xc2\x9b\x7f\xe2\x80\xae"
SHOWN = r"\x1b[2J\nk\x9b\x9b\x7f\u202e"
SHOWN_LABEL = 'command="' + SHOWN.replace("\\", "\\\\") + '"}'
#: As a file's name; what is no UTF-8 comes as a surrogate
PATH = os.fsdecode(NAME)
SHOWN_PATH = r"\x1b[2J\nk\udc9b\x9b\x7f\u202e"


@pytest.fixture(autouse=True)
def hostile_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process has such a name, and is who is bound to what."""
    (tmp_path / "bindings").write_text(f"  0:        9      {os.getpid()}  R  $.Lamp\n")
    (tmp_path / "stats").write_text(DEVICE + KSOCK.replace("pid=211", f"pid={os.getpid()}"))
    monkeypatch.setattr(inspect.bindings, "__defaults__", (None, tmp_path / "bindings"))
    monkeypatch.setattr(inspect.stats, "__defaults__", (None, tmp_path / "stats"))
    name = Path("/proc/self/comm")
    before = name.read_bytes()
    name.write_bytes(NAME)
    yield
    name.write_bytes(before)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a capture of such a name whose header has such texts."""
    directory = tmp_path / "captures"
    directory.mkdir()
    monkeypatch.chdir(directory)
    said = NAME.decode("utf-8", "surrogateescape")
    with Path(PATH).open("wb") as file:
        info = {**INFO, "device": said, "boot_id": said, "load_id": said, "bindings": ["$.*", said]}
        writer = Writer(file, info, [0])
        writer.write(0, START, Frame(1, 1, 0), [Announcement("$.A").to_bytes()])
        writer.write_statistics(START, [0])
        wrong = Announcement("$.A")
        wrong.name = "$." + NAME.decode("utf-8", "replace")
        file.write(capture([wrong])[:-9])
    return directory


def run(capfd: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    """Exit status and all that was printed, which is fit for a terminal."""
    capfd.readouterr()
    status = main(list(argv))
    said = capfd.readouterr()
    printed = said.out + said.err
    assert printed
    assert all(line.isprintable() for line in printed.split("\n"))
    return status, printed


COMMANDS: dict[str, list[tuple[list[str], int, str]]] = {
    "listen": [
        (["$.A", "--log", f"no/{PATH}"], 1, f"can't write to no/{SHOWN_PATH}: No such file or directory\n"),
        ([f"$.{PATH}"], 2, ""),
        (["$.A", f"--{PATH}"], 2, f"unrecognized arguments: --{SHOWN_PATH}\n"),
    ],
    "send": [(["$.A", "--file", f"no/{PATH}"], 1, f"can't read the data from no/{SHOWN_PATH}: ")],
    "call": [(["$.A", "--file", f"no/{PATH}"], 1, f"can't read the data from no/{SHOWN_PATH}: ")],
    "ping": [([f"$.{PATH}"], 2, "")],
    "trace": [(["$.Lamp"], 0, f"{SHOWN}  $.Lamp\n")],
    "serve": [(["$.A", "--", PATH], 1, "there is no command '\\x1b[2J\\nk")],
    "bindings": [
        ([], 0, f"{SHOWN}  replier  $.Lamp\n"),
        (["--tree"], 0, f"─ Lamp  replier 9 ({os.getpid()} {SHOWN})\n"),
        (["--json"], 0, '"name": "$.Lamp"}\n'),
        ([f"--{PATH}"], 2, f"unrecognized arguments: --{SHOWN_PATH}\n"),
    ],
    "stats": [
        ([], 0, f"  {SHOWN}      14    100"),
        (["--json"], 0, '"pid": '),
        (["--prometheus"], 0, SHOWN_LABEL),
    ],
    "top": [([], 1, "this needs a terminal")],
    "devices": [([], 0, "/dev/kbus0  -     -      -     ")],
    "bench": [(["--size", PATH], 2, "is not a size")],
    "record": [
        (["-o", f"no/{PATH}"], 1, ""),
        (["--fsync", PATH], 2, "is neither never, seal, always nor a number"),
    ],
    "info": [
        ([PATH], 1, f"  {SHOWN_PATH}, boot {SHOWN_PATH}, load {SHOWN_PATH}, bound to $.* {SHOWN_PATH}\n"),
        (["--json", PATH], 1, '"path": "\\u001b[2J\\nk\\udc9b\\u009b\\u007f\\u202e"'),
        ([f"no/{PATH}"], 1, f"can't read no/{SHOWN_PATH}: No such file or directory\n"),
    ],
    "play": [
        ([f"no/{PATH}"], 1, f"can't read no/{SHOWN_PATH}: No such file or directory\n"),
        (["--map", PATH, "x"], 2, "is not FROM=TO"),
    ],
    "recover": [
        ([PATH], 0, f"kbus recover: {SHOWN_PATH}: 1 messages are whole\n"),
        ([f"no/{PATH}"], 1, f"can't recover no/{SHOWN_PATH}: No such file or directory\n"),
    ],
}


def test_all_commands_are_here() -> None:
    assert set(COMMANDS) == set(SUBCOMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command(command: str, directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for argv, status, said in COMMANDS[command]:
        got, printed = run(capfd, command, *argv)
        assert (got, said in printed) == (status, True), printed


def test_one_line_stays_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    _, printed = run(capfd, "stats")
    assert len(printed.splitlines()) == 3
    _, printed = run(capfd, "bindings")
    assert len(printed.splitlines()) == 2


def test_columns_are_as_wide_as_what_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    head, row = run(capfd, "bindings")[1].splitlines()
    assert head.index("NAME") == row.index("$.Lamp")


def test_what_comes_of_a_message_that_can_not_be_played(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    damaged = directory / "damaged"
    damaged.write_bytes(b"no capture")
    damaged.rename(directory / (PATH + "2"))
    status, printed = run(capfd, "play", PATH + "2")
    expected = f"kbus play: {SHOWN_PATH}2 is not a capture: not a pcapng file\n"
    assert (status, printed) == (1, expected)


def test_lines_of_messages_and_changes(capfd: pytest.CaptureFixture[str]) -> None:
    """They have process names as JSON, and can be read back."""
    peer = Opener(7, command_of(os.getpid()))
    line = as_line(Announcement("$.A", NAME), 0, "1.000000000", peer=peer)
    put_line(line)
    printed = capfd.readouterr().out
    assert printed == line + "\n"
    assert line.isprintable()
    assert parse(line).peer == peer

    screen = BindingsScreen(argparse.Namespace(json=False, clock=None))
    screen.show("+", Binding(0, 9, os.getpid(), True, "$.Lamp"))
    printed = capfd.readouterr().out
    assert printed.removesuffix("\n").isprintable()
    found = re.search(r'by \d+ (".*") \$\.Lamp\n', printed)
    assert found and json.loads(found[1]) == peer.command


def test_what_a_recorder_says(capfd: pytest.CaptureFixture[str]) -> None:
    _tell(f"snapshot {PATH}: 3 messages")
    assert capfd.readouterr().err == f"kbus record: snapshot {SHOWN_PATH}: 3 messages\n"


def test_the_screen_of_top() -> None:
    shown = Page()
    hostile = look()
    command = command_of(os.getpid())
    hostile = hostile._replace(
        ksocks=[each._replace(command=command) for each in hostile.ksocks],
        waiting=[each._replace(command=command) for each in hostile.waiting],
    )
    shown.update(hostile)
    for key in "nkw":
        shown.press(key)
        lines = shown.lines(200, 50)
        assert all(line.text.isprintable() for line in lines)
        assert key == "n" or any(SHOWN in line.text for line in lines)
