# SPDX-License-Identifier: MIT
"""`python3 -m tests.lint.folders`: how the modules of python/kbus stand to one another.

Imports between folders run one way. Those of python/kbus/pipeline are in the order in which data flow: a
module imports what stands in its own folder and in those before it. No two classes have one name but Service,
which kbus.aio has too.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

from tests.lint.circles import circles

PACKAGE = Path(__file__).parents[2] / "python" / "kbus"
PIPELINE = ("decode", "tables", "source", "ingest", "derive", "report")


def imported(modules: dict[str, str]) -> dict[str, set[str]]:
    """For each folder those that its modules import from, also within functions.

    ``modules`` has the text of each module, by path; a folder of it that is none is a module.
    """
    folders = {path.rpartition("/")[0] for path in modules}
    found: dict[str, set[str]] = {folder: set() for folder in folders}
    for path, text in modules.items():
        here = path.rpartition("/")[0]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                base = here.split("/")[: len(here.split("/")) - node.level + 1] if node.level else []
                name = [*base, *filter(None, (node.module or "").split("."))]
                places = ["/".join([*name, each.name]) for each in node.names]
                found[here] |= {place if place in folders else "/".join(name) for place in places}
    # What is left are modules, and packages of others.
    inside = {here: {_folder(place, folders) for place in places} for here, places in found.items()}
    return {here: places - {here, ""} for here, places in inside.items()}


def _folder(place: str, folders: set[str]) -> str:
    above = place.rpartition("/")[0]
    return place if place in folders else above if above in folders else ""


def backwards(graph: dict[str, set[str]]) -> list[str]:
    """Which folders of the pipeline import from later ones."""
    order = ["kbus/pipeline/" + folder for folder in PIPELINE] + ["kbus/pipeline"]
    return [
        f"{one} imports from {other}, which comes later"
        for at, one in enumerate(order)
        for other in order[at + 1 :]
        if other in graph.get(one, ())
    ]


def of_one_name(modules: dict[str, str]) -> list[str]:
    """Names that more than one class has, and where."""
    places = defaultdict(list)
    for path, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    return [
        f"{name}: {', '.join(where)}"
        for name, where in places.items()
        if len(where) > 1 and name != "Service"
    ]


def main() -> int:
    """Print what is wrong; 1 if there is anything."""
    paths = sorted(PACKAGE.rglob("*.py"))
    modules = {str(path.relative_to(PACKAGE.parent)): path.read_text() for path in paths}
    graph = imported(modules)
    found = [f"in a circle: {', '.join(each)}" for each in circles(graph, most=1)]
    found += [*backwards(graph), *of_one_name(modules)]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
