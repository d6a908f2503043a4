# SPDX-License-Identifier: MIT
"""What a process is called where people look for it: its script, rather than python3."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbus._processes import command_of
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


def test_a_process_that_has_gone() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    wait_until(lambda: command_of(done.pid) == "?", "nobody has its number")
