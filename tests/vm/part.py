# SPDX-License-Identifier: MIT
"""A plug-in of pytest's for guests. ``--part N/OF`` runs one test of each OF: machines side by side run all.

The file ``running`` in $RESULTS names the test that is running, for when the guest does not come to its end.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest


def _part(text: str) -> tuple[int, int]:
    number, _, of = text.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part such as 1/2")
    return int(number), int(of)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Have the option."""
    parser.addoption("--part", type=_part, default=(1, 1), metavar="N/OF", help="which part of the tests")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the others to other machines; neighbours, which take about as long, are in different parts."""
    number, of = config.getoption("part")
    items[:] = items[number - 1 :: of]


def pytest_runtest_logstart(nodeid: str) -> None:
    """Say which test begins."""
    if "RESULTS" in os.environ:
        Path(os.environ["RESULTS"], "running").write_text(f"{nodeid}\n")
