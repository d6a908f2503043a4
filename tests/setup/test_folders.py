# SPDX-License-Identifier: MIT
"""Which imports between folders of the package, and which names, `make lint` finds."""

from __future__ import annotations

from tests.lint.circles import circles
from tests.lint.folders import backwards, imported, of_one_name

MODULES = {
    "kbus/ksock.py": "import os\nfrom . import names\n\ndef f():\n    from .testing.client import C\n",
    "kbus/testing/client.py": "from ..ksock import Ksock\nfrom kbus.cli import main\n",
    "kbus/cli/main.py": "from .. import Ksock\n",
    "kbus/pipeline/decode/a.py": "from ..tables import b\nfrom kbus import errors\n",
    "kbus/pipeline/tables/b.py": "from ..decode.a import A\nfrom . import c\nfrom .. import commands\n",
    "kbus/pipeline/cli.py": "from .tables.b import B\n",
}


def test_folders_that_import_each_other_are_found() -> None:
    graph = imported(MODULES)
    assert graph["kbus"] == {"kbus/testing"}
    assert graph["kbus/testing"] == {"kbus", "kbus/cli"}
    assert ["kbus", "kbus/cli", "kbus/testing"] in circles(graph, most=1)
    assert circles({"a": {"b"}, "b": set(), "c": {"a"}}, most=1) == []


def test_imports_of_later_folders_are_found() -> None:
    assert backwards(imported(MODULES)) == [
        "kbus/pipeline/decode imports from kbus/pipeline/tables, which comes later",
        "kbus/pipeline/tables imports from kbus/pipeline, which comes later",
    ]


def test_classes_of_one_name_are_found() -> None:
    assert of_one_name({"a.py": "class A: ...\nclass B: ...\n", "b/c.py": "class B: ...\n"}) == [
        "B: a.py:2, b/c.py:1"
    ]
