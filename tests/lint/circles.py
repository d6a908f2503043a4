# SPDX-License-Identifier: MIT
"""`python3 -m tests.lint.circles`: which files of kernel/ call each other in a circle of more than two.

A call is the name of a function that another file defines, with a bracket after it; a function that is
inline in a header calls for whoever calls it. Pointers to functions are no calls: by them the kernel calls
the module.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

KERNEL = Path(__file__).parents[2] / "kernel"
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
DEFINITION = re.compile(
    r"^(?P<static>static )?\w[\w \t*]*?\b(?P<name>\w+)\([^;{}]*?\)\s*(?:__\w+\([^)]*\)\s*)*"
    r"\{(?P<body>.*?)^\}",
    re.MULTILINE | re.DOTALL,
)


def _named(text: str) -> set[str]:
    return set(re.findall(r"\b(\w+)\(", text))


def calls(sources: dict[str, str]) -> dict[str, set[str]]:
    """For each C file the others whose functions it calls; ``sources`` has the text of each file."""
    texts = {file: COMMENT.sub("", text) for file, text in sources.items()}
    owners: dict[str, str] = {}
    inline: dict[str, set[str]] = {}
    for file, text in texts.items():
        for match in DEFINITION.finditer(text):
            if file.endswith(".h"):
                inline[match["name"]] = _named(match["body"])
            elif not match["static"]:
                owners[match["name"]] = file
    found: dict[str, set[str]] = {}
    for file, text in texts.items():
        if file.endswith(".c"):
            names = _named(text)
            names |= {name for each in names & inline.keys() for name in inline[each]}
            found[file] = {owners[name] for name in names & owners.keys()} - {file}
    return found


def circles(graph: dict[str, set[str]], most: int = 2) -> list[list[str]]:
    """Sets of more than ``most`` files each of which reaches all the others."""
    reached = {file: _reached(graph, file) for file in graph}
    together = {tuple(sorted(b for b in reached[a] if a in reached[b])) for a in graph}
    return sorted(list(files) for files in together if len(files) > most)


def _reached(graph: dict[str, set[str]], file: str) -> set[str]:
    found: set[str] = set()
    new = {file}
    while new:
        new = {other for one in new for other in graph[one]} - found
        found |= new
    return found


def main() -> int:
    """Print the circles; 1 if there are any."""
    paths = [*KERNEL.glob("*.c"), *KERNEL.glob("*.h")]
    found = circles(calls({path.name: path.read_text() for path in paths if ".mod." not in path.name}))
    for files in found:
        print("These files call each other in a circle:", ", ".join(files))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
