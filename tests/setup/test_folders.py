# SPDX-License-Identifier: MIT
"""Which imports between folders of the pipeline, and which names, `make lint` finds."""

from __future__ import annotations

from tests.lint.folders import backwards, of_one_name


def test_imports_of_later_folders_are_found() -> None:
    modules = {
        "decode/a.py": "from ..tables import b\n",
        "tables/b.py": "from ..decode.a import A\nfrom . import c\n",
        "tables/c.py": "from kbus.pipeline.report import d\nfrom kbus import errors\nfrom .. import cli\n",
        "cli.py": "from .report import d\nfrom kbus.capture import reader\n",
    }
    assert backwards(modules) == [
        "decode/a.py:1: decode comes before tables",
        "tables/c.py:1: tables comes before report",
        "tables/c.py:3: tables comes before the command",
    ]


def test_classes_of_one_name_are_found() -> None:
    assert of_one_name({"a.py": "class A: ...\nclass B: ...\n", "b/c.py": "class B: ...\n"}) == [
        "B: a.py:2, b/c.py:1"
    ]
