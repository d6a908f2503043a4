# SPDX-License-Identifier: MIT
"""What of the module's tests is run on the stand-in, and that the docs say why the rest is not."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kernel.stand_in import LEFT_OUT, MODULES, Lacks

ROOT = Path(__file__).parents[2]


def test_what_is_listed_is_there() -> None:
    found: list[str] = []
    for name in MODULES:
        text = (ROOT / f"tests/kernel/test_{name}.py").read_text()
        found += re.findall(r"^def (test_\w+)", text, re.MULTILINE)
    assert set(LEFT_OUT) <= set(found)


def test_the_docs_have_a_line_for_each_reason() -> None:
    lines = (ROOT / "docs/howto/test.rst").read_text().splitlines()
    for reason in Lacks:
        assert [line for line in lines if line.startswith(f"* {reason.value}")], reason
