# SPDX-License-Identifier: MIT
"""Completions of the commands for bash, zsh and fish, made from their parsers, below a directory.

They are where each shell looks for them below ``share``: ``python -m tests.setup.completions SHARE``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import shtab

from kbus import cli
from kbus.pipeline.cli import parser as pipeline
from kbus.sbus import command, daemon
from kbus.testing import server

#: where a shell looks for the completions of a command, below share
PLACES = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/site-functions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}
PARSERS: tuple[Callable[[], argparse.ArgumentParser], ...] = (
    lambda: cli.parser()[0],
    lambda: command.parser()[0],
    daemon.parser,
    pipeline,
    server.parser,
)
#: What the metavars of arguments stand for, where that is something that a shell knows
_KNOWN = {"COMMAND": shtab.FILE, "FILE": shtab.FILE, "PATH": shtab.FILE, "DIR": shtab.DIRECTORY}


def main(argv: list[str]) -> int:
    """Write them, and return the exit status."""
    (share,) = argv
    for path, text in completions():
        file = Path(share) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return 0


def completions() -> Iterator[tuple[str, str]]:
    """Where each completion belongs, below share, and what it is."""
    for make in PARSERS:
        parser = make()
        _describe(parser)
        for shell, place in PLACES.items():
            yield place.format(parser.prog), _licensed(shell, shtab.complete(parser, shell))


def _licensed(shell: str, text: str) -> str:
    """The text with a licence; the first line of one for zsh tells what it is for."""
    first, rest = text.split("\n", 1) if shell == "zsh" else ("", text)
    return f"{first}\n# SPDX-License-Identifier: MIT\n{rest}".lstrip("\n")


def _describe(parser: argparse.ArgumentParser) -> None:
    """Say what files arguments take, and have a line for each subcommand, as ``--help`` has."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                action.choices[choice.dest].description = choice.help
            for each in action.choices.values():
                _describe(each)
        elif action.metavar in _KNOWN:
            action.complete = _KNOWN[action.metavar]  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
