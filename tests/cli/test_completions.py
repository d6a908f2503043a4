# SPDX-License-Identifier: MIT
"""Completions in bash, zsh and fish, which find them where `make install` puts them."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kbus.cli import SUBCOMMANDS

ROOT = Path(__file__).parents[2]
SETUP = ROOT / "tests/setup"
#: What is typed, and what the key Tab makes of it; in the directory ``files``, capture.pcapng is alone
TYPED = [
    ("kbus sen", "kbus send "),
    ("kbus listen --kind req", "kbus listen --kind request "),
    ("kbus stats --prom", "kbus stats --prometheus "),
    ("kbus info files/cap", "kbus info files/capture.pcapng "),
    ("kbus send --file files/cap", "kbus send --file files/capture.pcapng "),
    ("kbus-sbus who", "kbus-sbus whoami "),
    ("kbus-sbusd --max-user-cl", "kbus-sbusd --max-user-clients "),
    ("kbus-pipeline conv", "kbus-pipeline conversations "),
    ("kbus-testbus --dev", "kbus-testbus --devices "),
]
#: What has Tab work in an interactive shell, and ^G show the line as it is then
BASH = """
. /usr/share/bash-completion/bash_completion
bind 'set bell-style none'
bind -x '"\\C-g": echo "<$READLINE_LINE>"'
PS1=$(printf 'REA%s' 'DY> ')
"""
ZSH = """
fpath=("$SHARE/zsh/site-functions" $fpath)
autoload -Uz compinit && compinit -u -D
show() { print -r -- "<$BUFFER>" }
zle -N show && bindkey '^G' show
PS1=$(printf 'REA%s' 'DY> ')
"""


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all completions."""
    directory = tmp_path_factory.mktemp("share")
    made = subprocess.run(
        [SETUP / "venv.sh", sys.executable, SETUP / "completions.txt"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    subprocess.run(
        [f"{made.stdout.strip()}/bin/python", "-m", "tests.setup.completions", directory],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        check=True,
    )
    return directory


def environment(share: Path, home: Path) -> dict[str, str]:
    """For a shell that looks for completions in ``share`` first, and finds files in ``home``."""
    (home / "files").mkdir()
    (home / "files/capture.pcapng").touch()
    commands = home / "bin"
    commands.mkdir()
    for name in ("kbus", "kbus-sbus", "kbus-sbusd", "kbus-pipeline", "kbus-testbus"):
        # fish completes nothing but commands that are there.
        (commands / name).symlink_to("/bin/true")
    return {
        **{
            "PATH": f"{commands}:{os.environ['PATH']}",
            "HOME": str(home),
            "TERM": "dumb",
            "LC_ALL": "C.UTF-8",
        },
        **{"SHARE": str(share), "XDG_DATA_DIRS": f"{share}:/usr/local/share:/usr/share"},
    }


def tab(command: list[str], setup: str, env: dict[str, str], line: str) -> str:
    """What an interactive shell on a terminal has as its line, when Tab was pressed after this."""
    terminal, theirs = pty.openpty()
    with subprocess.Popen(
        command,
        cwd=env["HOME"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        start_new_session=True,
    ) as shell:
        os.close(theirs)
        try:
            os.write(terminal, setup.encode())
            seen(terminal, "READY> ")
            os.write(terminal, f"{line}\t\a".encode())
            shown = seen(terminal, ">\r")
        finally:
            shell.kill()
            os.close(terminal)
    return shown.rpartition("<")[2].partition(">")[0]


def seen(terminal: int, end: str) -> str:
    """What the terminal shows until this."""
    shown = ""
    deadline = time.monotonic() + 30
    while end not in shown:
        assert select.select([terminal], [], [], deadline - time.monotonic())[0], shown
        shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


@pytest.mark.parametrize(("line", "expected"), TYPED)
@pytest.mark.parametrize(
    ("command", "setup"),
    [(["bash", "--norc", "-i"], BASH), (["zsh", "-f", "-i"], ZSH)],
    ids=["bash", "zsh"],
)
def test_tab(command: list[str], setup: str, line: str, expected: str, share: Path, tmp_path: Path) -> None:
    assert tab(command, setup, environment(share, tmp_path), line) == expected


def fish(line: str, share: Path, home: Path) -> dict[str, str]:
    """What fish offers after this, and what it says of each."""
    done = subprocess.run(
        ["fish", "--private", "-c", 'complete -C "$argv[1]"', "--", line],
        cwd=home,
        env=environment(share, home),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    offered = (each.partition("\t") for each in done.stdout.splitlines())
    return {word: says for word, _, says in offered}


@pytest.mark.parametrize(("line", "expected"), TYPED)
def test_fish(line: str, expected: str, share: Path, tmp_path: Path) -> None:
    assert list(fish(line, share, tmp_path)) == [expected.split()[-1]]


def test_all_subcommands_are_there(share: Path, tmp_path: Path) -> None:
    offered = fish("kbus ", share, tmp_path)
    assert set(SUBCOMMANDS) <= set(offered)
    assert offered["send"] == "send an announcement to the listeners of its name"
