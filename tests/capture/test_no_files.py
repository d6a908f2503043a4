# SPDX-License-Identifier: MIT
"""What is called like a capture and is no file: an error at once, from `kbus info`, `play` and `recover`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .captures import capture, numbered
from .test_cli_files import run


@pytest.fixture(params=["directory", "FIFO", "device", "socket"])
def no_file(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """Something that is called like a capture, and what is said of it."""
    path = tmp_path / "x.pcapng"
    if request.param == "directory":
        (path / "y.pcapng").mkdir(parents=True)
        return path / "y.pcapng", "Is a directory"
    if request.param == "FIFO":
        os.mkfifo(path)
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
        return path, "No such device or address"
    else:
        path.symlink_to("/dev/zero")
    return path, "it is not a regular file"


@pytest.mark.parametrize("command", ["info", "play", "recover"])
def test_what_is_no_file_is_refused_at_once(command: str, no_file: tuple[Path, str]) -> None:
    """If it is found in a directory, it is left out, and that is told."""
    path, reason = no_file
    verb = "recover" if command == "recover" else "read"
    said = {path: (1, f"can't {verb} {path}: {reason}\n")}
    if command != "recover":
        said[path.parent] = (0, f"{path} is left out: {reason}\n")
        if path.is_dir():
            said[path] = (1, f"there are no captures in {path}\n")
    for given, (status, text) in said.items():
        done = subprocess.run(
            [sys.executable, "-m", "kbus.cli", command, str(given)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert (done.returncode, done.stdout) == (status, "")
        assert done.stderr.startswith(f"kbus {command}: {text}")


def test_a_pipe_of_the_shell_is_read() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kbus.cli", "info", "/dev/stdin"],
        input=capture(numbered(5)),
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"  5 messages (kbus0 5), " in done.stdout


def test_a_directory_that_may_not_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert run(capsys, "info", str(tmp_path)) == (
        1,
        "",
        f"kbus info: can't read {tmp_path}: Permission denied\n",
    )
