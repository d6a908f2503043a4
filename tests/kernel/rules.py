# SPDX-License-Identifier: MIT
"""Which tests cover which rule, axiom and part of the ABI.

`python3 -m tests.kernel.rules` prints that as an rst table. The markers are read from the source of the
tests, so that this needs neither the module nor pytest.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
HEADER = TESTS.parent / "kernel" / "include" / "uapi" / "linux" / "kbus.h"

AXIOMS = ("order", "urgency", "answer", "loss", "isolation", "lifetime")
FIELDS = (
    *("start_guard", "id", "in_reply_to", "to", "from", "flags", "name_len", "data_len"),
    *("orig_from", "final_to", "name", "data", "end_guard"),
)

ALL_TOGETHER = ("every field", "every flag", "every ioctl")
"""What a test of the whole ABI is marked with; it is not counted for the single ones."""

Subject = tuple[str, "int | str"]
"""A kind of marker ("rule", "axiom" or "abi") and its argument."""


def subjects() -> list[Subject]:
    """Everything that must have a test."""
    header = HEADER.read_text()
    ioctls = re.findall(r"^#define KBUS_IOC_(\w+)\s+_IO", header, re.MULTILINE)
    flags = re.findall(r"^#define KBUS_BIT_(\w+)", header, re.MULTILINE)
    return [
        *(("rule", number) for number in range(1, 50)),
        *(("axiom", name) for name in AXIOMS),
        *(("abi", name) for name in (*FIELDS, *flags, "DATA_PAD", *ioctls, *ALL_TOGETHER)),
    ]


@functools.cache
def coverage() -> dict[Subject, list[str]]:
    """For each marker that a test has, the tests that have it, as `file::test` relative to tests/."""
    found: dict[Subject, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text(), str(path))
        common = set(_marks(tree.body))
        for test in tree.body:
            if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
                continue
            for subject in sorted({*common, *_marks(test.decorator_list)}, key=str):
                found.setdefault(subject, []).append(f"{path.relative_to(TESTS)}::{test.name}")
    return found


def _marks(nodes: list[ast.stmt] | list[ast.expr]) -> Iterator[Subject]:
    """The markers in decorators, or in the `pytestmark` of a module."""
    for node in nodes:
        if isinstance(node, ast.stmt) and not (isinstance(node, ast.Assign) and _is_pytestmark(node)):
            continue
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and (kind := _marker(call.func)):
                yield from ((kind, value) for value in map(_constant, call.args) if value is not None)


def _is_pytestmark(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)


def _marker(function: ast.expr) -> str | None:
    match = re.fullmatch(r"pytest\.mark\.(rule|axiom|abi)", ast.unparse(function))
    return match[1] if match else None


def _constant(argument: ast.expr) -> int | str | None:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, (int, str)):
        return argument.value
    return None


def table() -> str:
    """An rst table: rule, axiom or part of the ABI, and its tests."""
    found = coverage()
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 20 80", "", "   * - what", "     - tests"]
    for kind, value in subjects():
        first, *others = (f"``{test}``" for test in found.get((kind, value), ["none"]))
        lines += [f"   * - {kind} {value}", f"     - | {first}", *(f"       | {other}" for other in others)]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
