# SPDX-License-Identifier: MIT
"""The README's markup is sound, and its programs are those that test_examples_vm.py runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

REPO = Path(__file__).parents[2]
EXAMPLES = REPO / "docs" / "examples"


def code_blocks(language: str) -> list[str]:
    """The README's code blocks in this language; docutils fails if it has to warn of anything."""
    options = ["--halt=warning", "--writer=xml", "--syntax-highlight=none"]
    rendered = subprocess.run(
        [sys.executable, "-m", "docutils", *options, "README.rst"],
        cwd=REPO,
        stdout=subprocess.PIPE,
        check=True,
    )
    blocks = ElementTree.fromstring(rendered.stdout).iter("literal_block")
    return [f"{block.text}\n" for block in blocks if language in block.attrib.get("classes", "").split()]


@pytest.mark.parametrize(
    ("language", "files"),
    [("python", ["tour.py"]), ("c", ["tour.c"]), ("text", ["tour.py.out", "tour.c.out"])],
)
def test_shows_what_is_tested(language: str, files: list[str]) -> None:
    # In reStructuredText a tab is as wide as in a terminal.
    assert code_blocks(language) == [(EXAMPLES / file).read_text().expandtabs() for file in files]
