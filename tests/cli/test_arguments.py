# SPDX-License-Identifier: MIT
"""Command lines that are wrong, and what the command says where there is no device."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from kbus.cli import main
from kbus.terminal import options

#: A device that nobody has: rule 33 allows 256 of them.
MISSING = "999"


@pytest.mark.parametrize(
    ("argv", "cause"),
    [
        ([], "COMMAND"),
        (["sing", "$.A"], "sing"),
        (["listen"], "NAME"),
        (["listen", "A.B"], 'does not start with "$."'),
        (["listen", "$.A..B"], "empty word"),
        (["listen", "$.*.A"], "wildcard that is not the last word"),
        (["listen", "$.A", "$.B-C"], "'B-C'"),
        (["listen", "$." + "a" * 999], "1001 bytes"),
        (["listen", "$.A", "-n", "0"], "'0' is not a number from 1"),
        (["listen", "$.A", "-n", "²"], "'²' is not a number from 1"),
        (["listen", "$.A", "--max-messages", "many"], "'many' is not a number from 1"),
        (["listen", "$.A", "--max-messages", "4294967296"], "'4294967296' is more than 4294967295"),
        (["record", "--queue", "99999999999"], "'99999999999' is more than 4294967295"),
        (["record", "--fsync", "0"], "'0' is neither never, seal, always nor a number of seconds"),
        (
            ["record", "--fsync", "sometimes"],
            "'sometimes' is neither never, seal, always nor a number of seconds",
        ),
        (["record", "--name", ""], "a name has from 1 to 1000 characters"),
        (["listen", "$.A", "--format", "100%"], "a % ends it, which is %%; there are %t"),
        (["listen", "$.A", "--format", "%q"], "there is no %q, but %t"),
        (["listen", "$.A", "-d", "kbus0"], "'kbus0' is not a number from 0"),
        (["listen", "$.A", "--timeout", "-1"], "'-1' is not a number of seconds from 0"),
        (["listen", "$.A", "--timeout", "nan"], "'nan' is not a number of seconds from 0"),
        (["listen", "$.A", "--timeout", "soon"], "'soon' is not a number of seconds from 0"),
        (["listen", "$.A", "-t", "noon"], "'noon'"),
        (["listen", "$.A", "-t", "abs", "--json"], "not allowed with"),
        (["send", "$.A.*"], "a message can't be sent to the wildcard '$.A.*'"),
        (["send", "$.A", "--all-or-wait", "--all-or-fail"], "not allowed with"),
        (["send", "$.A", "--timeout", "1"], "--timeout needs --all-or-wait"),
        (["send", "$.A", "data", "--file", "/dev/null"], "can't both be given"),
        (["send", "$.A", "--hex", "abc"], "'abc' is not pairs of hex digits"),
        (["send", "$.A", "--rate", "3"], "--rate needs --lines or --repeat"),
        (["send", "$.A", "-l", "--repeat", "3"], "not allowed with"),
        (["send", "$.A", "-l", "data"], "DATA can't be given with --lines"),
        (["send", "$.A", "-l", "--file", "/dev/null"], "--file can't be given with --lines"),
        (["send", "$.A", "-l", "--hex"], "--hex can't be given with --lines"),
        (["send", "$.A", "--repeat", "0"], "'0' is not a number from 1"),
        (["send", "$.A", "-l", "--rate", "0"], "'0' is not a number from 0.001 to 1000000"),
        (["send", "$.A", "-l", "--rate", "nan"], "'nan' is not a number from 0.001"),
        (["call", "$.A.%"], "a message can't be sent to the wildcard '$.A.%'"),
        (["call", "$.A", "--hex", "0x00"], "'0x00' is not pairs of hex digits"),
        (["serve", "$.A"], "after --"),
        (["serve", "$.A", "--"], "after --"),
        (["serve", "$.A", "cat"], "unrecognized arguments: cat"),
        (["listen", "$.A", "--kind", "rumour"], "'rumour'"),
        (["listen", "$.A", "--flag", "loud"], "'loud'"),
        (["listen", "$.A", "--except", "A"], 'does not start with "$."'),
        (["stats", "-d", "-1"], "'-1' is not a number from 0"),
        (["stats", "--json", "--prometheus"], "not allowed with"),
        (["record", "--after", "5"], "--after needs --snapshot SIZE"),
        (["record", *(["$." + "x" * 995] * 50)], "a capture's header has room for 48000 characters of NAMEs"),
        (["bench", "--size", "0"], "'0' is not a size"),
        (["bench", "--seconds", "0.01"], "'0.01' is not a number of seconds from 0.05 to 60"),
        (["bench", "--seconds", "61"], "'61' is not a number of seconds from 0.05 to 60"),
        (["bindings", "--tree", "--json"], "not allowed with"),
        (["bindings", "--tree", "--watch"], "--tree shows all at once"),
        (["bindings", "--watch", "--json", "-t", "zero"], "and no -t"),
        (["bindings", "-t", "zero"], "need --watch"),
        (["bindings", "-n", "1"], "need --watch"),
        (["bindings", "--interval", "1"], "need --watch"),
        (["bindings", "--watch", "--interval", "0"], "'0' is not a number of seconds from 0.05 to 3600"),
        (["bindings", "--watch", "--interval", "often"], "'often' is not a number of seconds"),
    ],
)
def test_wrong_command_lines(argv: list[str], cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    said = capsys.readouterr()
    assert cause in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("65536", 65536), ("64k", 65536), ("64K", 65536), ("3m", 3 << 20), ("1G", 1 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert options.size(text) == size


@pytest.mark.parametrize("text", ["", "0", "0k", "-1", "1.5M", "k", "64kb", "64 k", "²", "1T"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a size such as 65536, 64K, 10M or 1G"):
        options.size(text)


@pytest.mark.parametrize("argv", [["--help"], ["listen", "--help"], ["serve", "-h", "--", "cat", "--"]])
def test_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    said = capsys.readouterr()
    assert said.out.startswith("usage: kbus")
    assert said.err == ""


def test_help_tells_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert (
        "Exit status: 0 done, 1 failed, 2 wrong command line, 3 the replier failed, 124 timed out."
        in " ".join(capsys.readouterr().out.split())
    )


@pytest.mark.parametrize(
    "argv",
    [
        ["listen", "$.A.*", "$.B"],
        ["send", "$.A", "some text"],
        ["send", "$.A", "--hex", "00 ff", "--all-or-wait", "--timeout", "0.5"],
        ["call", "$.A", "--", "-5"],
        ["serve", "$.A.*", "--", "cat", "--", "-"],
    ],
)
def test_no_device(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*argv[:1], "-d", MISSING, *argv[1:]]) == 1
    said = capsys.readouterr()
    reason = "num_kbus_devices" if Path("/sys/module/kbus").exists() else "modprobe kbus"
    assert said.err.startswith(f"kbus {argv[0]}: there is no device /dev/kbus{MISSING}: ")
    assert reason in said.err
    assert said.out == ""


def test_no_command_to_serve(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "-d", MISSING, "$.A", "--", "no such command"]) == 1
    assert capsys.readouterr().err == "kbus serve: there is no command 'no such command'\n"


def test_no_file_to_send(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nothing"
    assert main(["send", "-d", MISSING, "$.A", "--file", str(path)]) == 1
    assert capsys.readouterr().err == (
        f"kbus send: can't read the data from {path}: No such file or directory\n"
    )


def test_as_a_process() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "kbus.cli", "listen", "-d", MISSING, "$.A"], capture_output=True
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"kbus listen: there is no device /dev/kbus999")


@pytest.mark.parametrize("command", [["send", "$.A"], ["trace", "$.A"], ["record", "-o", "/nonexistent"]])
@pytest.mark.parametrize("wrong", ["zz", "-1"])
def test_a_device_of_the_environment_that_is_wrong(
    command: list[str], wrong: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KBUS_DEVICE", wrong)
    assert main(command) == 2
    assert f"KBUS_DEVICE: {wrong!r} is not a number from 0" in capsys.readouterr().err
    # It counts only where no device is given, even if that is the same.
    assert main([*command, "-d", MISSING]) == 1
    assert main([*command, "-d", wrong]) == 2
    err = capsys.readouterr().err
    assert "KBUS_DEVICE" not in err
    assert f"{wrong!r} is not a number from 0" in err


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["send", "--help"]])
def test_a_full_stdout_is_an_error(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kbus.cli", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    program = " ".join(["kbus", *words[:-1]])
    expected = f"{program}: can't write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, expected)
