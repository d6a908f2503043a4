# SPDX-License-Identifier: MIT
"""`python3 -m tests.lint.folders`: whether imports of python/kbus/pipeline run one way, and which classes
there have a name that another class has.

The folders are in the order in which data flow; a module imports what stands in its own folder and in those
before it. The pipeline reads captures, so no class of kbus.capture has a name of the pipeline's either.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "python" / "kbus"
ORDER = ("decode", "tables", "source", "ingest", "derive", "report", "")
"""The last one is the command, in no folder."""


def backwards(modules: dict[str, str]) -> list[str]:
    """Imports of a later folder; ``modules`` has the text of each, by path below the pipeline's folder."""
    found = []
    for path, text in modules.items():
        folder = path.rpartition("/")[0]
        here = ["kbus", "pipeline", *folder.split("/")] if folder else ["kbus", "pipeline"]
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ImportFrom):
                continue
            base = here[: len(here) - node.level + 1] if node.level else []
            name = [*base, *filter(None, (node.module or "").split("."))]
            if name[:2] != ["kbus", "pipeline"]:
                continue
            for each in node.names:
                target = [*name, each.name][2]
                place = target if target in ORDER else ""
                if ORDER.index(place) > ORDER.index(folder):
                    found.append(f"{path}:{node.lineno}: {folder} comes before {place or 'the command'}")
    return found


def of_one_name(modules: dict[str, str]) -> list[str]:
    """Names that more than one class has, and where."""
    places = defaultdict(list)
    for path, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    return [f"{name}: {', '.join(where)}" for name, where in places.items() if len(where) > 1]


def _read(folder: str) -> dict[str, str]:
    top = PACKAGE / folder
    return {str(path.relative_to(top)): path.read_text() for path in sorted(top.rglob("*.py"))}


def main() -> int:
    """Print what is wrong; 1 if there is anything."""
    capture = {f"capture/{path}": text for path, text in _read("capture").items()}
    found = [*backwards(_read("pipeline")), *of_one_name({**_read("pipeline"), **capture})]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
