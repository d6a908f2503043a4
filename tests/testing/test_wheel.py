# SPDX-License-Identifier: MIT
"""The wheel, in an environment with nothing else but pytest, has all that 'Test your service' uses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kbus import __version__

REPO = Path(__file__).parents[2]
EXAMPLES = REPO / "docs/examples"
SETUP = REPO / "tests/setup"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KBUS_"))}


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command, which must succeed; what it prints."""
    done = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment in which the wheel is installed."""
    here = tmp_path_factory.mktemp("wheel")
    tools = Path(run(SETUP / "venv.sh", sys.executable, SETUP / "wheel.txt").strip())
    pip = (tools / "bin/python", "-m", "pip", "--disable-pip-version-check")
    # To build leaves files beside the sources.
    source = shutil.copytree(
        REPO / "python", here / "python", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    )
    run(*pip, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", here, source)
    environment = here / "environment"
    run(tools / "bin/python", "-m", "venv", "--without-pip", environment)
    python = environment / "bin/python"
    run(*pip, "--python", python, "install", "--no-index", "--no-compile", *here.glob("*.whl"))
    # Of those who made the wheel pytest is found, and there is no kbus.
    packages = "import sysconfig; print(sysconfig.get_path('purelib'), end='')"
    where = Path(run(python, "-c", packages))
    (where / "tools.pth").write_text(run(tools / "bin/python", "-c", packages))
    return environment


def test_the_tests_of_the_door(installed: Path, tmp_path: Path) -> None:
    for name in ("door.py", "test_door.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    shown = run(installed / "bin/python", "-I", "-m", "pytest", "-q", "test_door.py", cwd=tmp_path)
    assert shown.splitlines()[0].split() == ["..", "[100%]"]


def test_the_commands(installed: Path) -> None:
    commands = installed / "bin"
    assert run(commands / "kbus", "--version") == f"kbus {__version__}\n"
    sent = run(commands / "kbus-testbus", "--", commands / "kbus", "send", "$.Door.Open")
    assert sent == "[0:1]\n"


def test_all_files_are_there(installed: Path) -> None:
    (package,) = installed.glob("lib/*/site-packages/kbus")
    source = REPO / "python/kbus"
    files = [
        path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]
    assert [file for file in files if not (package / file).exists()] == []
    assert (installed / "share/kbus/kbus.lua").exists()
