# SPDX-License-Identifier: MIT
"""That all commands have manual pages, with the sections that such pages have."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docutils import nodes

from kbus.cli import SUBCOMMANDS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def manual(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The extension of Sphinx."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    yield import_module("manual")
    sys.modules.pop("manual", None)


def test_all_commands_have_pages(manual: Any) -> None:
    scripts = (ROOT / "python/pyproject.toml").read_text().split("[project.scripts]")[1].split("[")[0]
    assert set(re.findall("^(.+) =", scripts, re.M)) <= {page.name for page in manual.PAGES}
    assert all((ROOT / f"docs/{page.document}.rst").exists() for page in manual.PAGES)


def test_a_synopsis_has_all_subcommands(manual: Any) -> None:
    synopses = {page.name: page.synopsis for page in manual.PAGES if page.section != 4}
    for name in SUBCOMMANDS:
        assert sum(bool(re.search(f"^kbus {name} ", each, re.M)) for each in synopses.values()) == 1
    assert "\nkbus-pipeline check " in synopses["kbus-pipeline"]
    assert synopses["kbus-sbusd"].startswith("kbus-sbusd [-h] [-a ADDRESS]")
    for text in synopses.values():
        assert "usage:" not in text


def page_of(text: str) -> nodes.document:
    """A document that has some text and a section with another."""
    document = nodes.document(None, None)
    inner = nodes.section("", nodes.title("", "Inner"), nodes.paragraph("", "inside"))
    document += nodes.section("", nodes.title("", "Title"), nodes.paragraph("", text), inner)
    return document


def titles(document: nodes.document) -> list[str]:
    return [each.astext() for each in document.findall(nodes.title)]


def test_sections(manual: Any) -> None:
    app = SimpleNamespace(builder=SimpleNamespace(format="man"))
    document = page_of("text")
    manual._complete(app, document, "sbus/command")
    assert titles(document) == ["Title", "SYNOPSIS", "DESCRIPTION", "Inner", "SEE ALSO"]
    text = document.astext()
    assert text.endswith("kbus(1), kbus-record(1), kbus-pipeline(1), kbus-testbus(1), kbus(4), kbus-sbusd(8)")
    assert text.index("kbus-sbus pub") < text.index("DESCRIPTION") < text.index("text")


@pytest.mark.parametrize(("form", "document"), [("html", "sbus/command"), ("man", "sbus/session")])
def test_nothing_else_has_them(form: str, document: str, manual: Any) -> None:
    found = page_of("text")
    manual._complete(SimpleNamespace(builder=SimpleNamespace(format=form)), found, document)
    assert titles(found) == ["Title", "Inner"]
