# SPDX-License-Identifier: MIT
"""Which circles of calls between files of the module `make lint` finds."""

from __future__ import annotations

from tests.lint.circles import calls, circles

A = "void a(void)\n{\n\tb(1);\n}\n"
B = "int b(int x)\n{\n\tshort_way();\n\treturn 0; /* not a() */\n}\n"
C = "void c(void)\n{\n\ta();\n}\n\nstatic void b2(void)\n{\n}\n"
HEADER = "static inline void short_way(void)\n{\n\tc();\n}\n"


def test_a_circle_of_three_is_found_through_a_header() -> None:
    graph = calls({"a.c": A, "b.c": B, "c.c": C, "all.h": HEADER})
    assert graph == {"a.c": {"b.c"}, "b.c": {"c.c"}, "c.c": {"a.c"}}
    assert circles(graph) == [["a.c", "b.c", "c.c"]]


def test_a_circle_of_two_is_none() -> None:
    graph = calls({"a.c": A, "b.c": "int b(int x)\n{\n\ta();\n}\n", "c.c": C})
    assert graph["c.c"] == {"a.c"}
    assert circles(graph) == []
