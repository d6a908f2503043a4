# SPDX-License-Identifier: MIT
"""Files of programs for `kbus-fuzz --replay`, as log.c writes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Operation(NamedTuple):
    """One line of a program, and where it belongs."""

    worker: str
    """The line "worker N threads T"."""
    program: str
    """The line "program N"."""
    text: str
    """The operation itself."""


def read(path: Path) -> list[Operation]:
    """The operations of a file; ValueError if one is of no worker or of no program.

    A last line without an end is left out: the machine died while it was written.
    """
    operations = []
    worker = program = ""
    for line in path.read_text().splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        text = line.strip()
        if text.startswith("worker "):
            worker, program = text, ""
        elif text.startswith("program "):
            program = text
        elif worker and program:
            operations.append(Operation(worker, program, text))
        else:
            raise ValueError(f"{path}: not of a program: {text}")
    return operations


def render(operations: Iterable[Operation]) -> str:
    """The text of a file. Programs without an operation are gone."""
    lines = []
    worker = program = ""
    for operation in operations:
        if operation.worker != worker:
            worker, program = operation.worker, ""
            lines.append(worker)
        if operation.program != program:
            program = operation.program
            lines.append(program)
        lines.append(operation.text)
    return "".join(line + "\n" for line in lines)


def programs(operations: Iterable[Operation]) -> list[list[Operation]]:
    """The operations of each program."""
    found: dict[tuple[str, str], list[Operation]] = {}
    for operation in operations:
        found.setdefault((operation.worker, operation.program), []).append(operation)
    return list(found.values())
