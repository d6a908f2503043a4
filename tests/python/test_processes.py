# SPDX-License-Identifier: MIT
"""What a process is called where people look for it: its script, rather than python3."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbus._processes import ENDED, command_of, has_ended, holders
from tests.kernel.helpers import wait_until

WAITS = "import sys\nprint(flush=True)\nsys.stdin.read()\n"


@contextmanager
def running(*command: str, **environment: str) -> Iterator[int]:
    """Such a process, when it has begun to run; its id."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environment}
    ) as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script that waits."""
    path = tmp_path / "kitchen_service.py"
    path.write_text(WAITS)
    return path


@pytest.mark.parametrize("options", [(), ("-u",), ("-X", "dev"), ("-W", "error", "-B")])
def test_a_script_has_its_name(script: Path, options: tuple[str, ...]) -> None:
    with running("python3", *options, str(script), "an", "argument") as pid:
        assert command_of(pid) == "kitchen_service.py"


def test_a_module_has_its_name(script: Path) -> None:
    for option in ("-m", "-um"):
        with running("python3", option, script.stem, PYTHONPATH=str(script.parent)) as pid:
            assert command_of(pid) == "kitchen_service"


def test_a_shell_script_too(tmp_path: Path) -> None:
    path = tmp_path / "hall.sh"
    path.write_text("echo\nread line\n")
    for options in ((), ("-e",), ("-o", "nounset")):
        with running("sh", *options, str(path)) as pid:
            assert command_of(pid) == "hall.sh"


@pytest.mark.parametrize("command", [("python3", "-c", WAITS), ("python3", "-u", "-c", WAITS, "x.py")])
def test_what_has_no_file_is_called_by_its_interpreter(command: tuple[str, ...]) -> None:
    with running(*command) as pid:
        assert command_of(pid).startswith("python3")


def test_a_shell_is_not_called_by_what_it_was_told() -> None:
    with running("sh", "-ec", "echo; read line; rm -f /nonexistent/secret.key") as pid:
        assert command_of(pid) == "sh"


def test_a_program_keeps_its_own() -> None:
    with running("sh", "-c", "echo; exec sed p") as pid:
        wait_until(lambda: command_of(pid) == "sed", "it runs")


def test_a_process_that_has_ended() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    # Nobody has asked for its status yet: it is a zombie.
    wait_until(lambda: command_of(done.pid) == ENDED, "it has ended")
    assert has_ended(done.pid)
    done.wait()
    assert has_ended(done.pid)
    assert command_of(done.pid) == ENDED


def test_a_process_of_another_namespace() -> None:
    assert not has_ended(0)
    assert command_of(0) == "?"


def test_a_process_that_may_not_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where /proc is mounted with hidepid."""

    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    with running("sh", "-c", "echo; read line") as pid:
        monkeypatch.setattr(Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(FileNotFoundError))
        assert not has_ended(pid)
        monkeypatch.setattr(os, "kill", refuse)
        assert not has_ended(pid)
        assert command_of(pid) == "?"


def test_a_name_with_a_bracket(tmp_path: Path) -> None:
    path = tmp_path / "a) Z (b"
    path.symlink_to(shutil.which("sleep") or "")
    with subprocess.Popen([path, "100"]) as process:
        wait_until(lambda: command_of(process.pid) == path.name, "it runs")
        process.kill()


def test_who_has_a_file_open(tmp_path: Path) -> None:
    path = tmp_path / "a file"
    with path.open("w") as one, path.open(), subprocess.Popen(["sleep", "100"], stdout=one) as process:
        assert holders(str(path)) == {os.getpid(): 2, process.pid: 1}
        process.kill()
