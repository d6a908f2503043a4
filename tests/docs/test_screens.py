# SPDX-License-Identifier: MIT
"""The screens that the docs show are what the commands print, on terminals of several widths.

``python3 -m tests.docs.screens`` writes them anew.
"""

from __future__ import annotations

import re

import pytest

from tests.docs.screens import SCREENS, TABLE, WIDTHS, made

DOCS = SCREENS.parents[1]
#: What is not the same each time: times, ids of processes and users
DIFFERS = re.compile(
    r"\(\d+\.\d{9}\)|\d+\.\d{3} ms|(?<=ns\": )\d+|[\d.]+ a second, and up to [\d.]+ s|(?<=[pu]id=\")\d+"
    r'|\b\d+(?= +"?(\w+\.py|kbus)\b)'
)
FIGURE = re.compile(r"(?<![\w.])\d[\d.]*[KMG]?(us|ms|s)?(?!\w)|(?<= )-(?= )")


def alike(name: str, screen: str) -> list[str]:
    """What must be the same each time; columns are as wide as the longest figure."""
    if name in TABLE:
        return re.sub(" +", " ", DIFFERS.sub("#", screen)).splitlines()
    # kbus top: all figures differ, and with them how much of the first line is there, and the order.
    return sorted(re.sub(" +", " ", FIGURE.sub("#", line)) for line in screen.splitlines()[1:])


@pytest.mark.parametrize("width", WIDTHS)
def test_screens(width: int) -> None:
    for name, screen in made(width):
        assert alike(name, screen) == alike(name, (SCREENS / f"{name}.txt").read_text())


def test_the_docs_show_all() -> None:
    pages = "".join(page.read_text() for page in DOCS.rglob("*.rst"))
    assert {path.stem for path in SCREENS.iterdir()} == set(re.findall(r"screens/([a-z0-9-]+)\.txt", pages))
