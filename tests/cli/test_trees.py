# SPDX-License-Identifier: MIT
"""`kbus bindings --tree` and `--watch`, but for the looking."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbus.cli.bindings import changes
from kbus.cli.tree import tree
from kbus.inspect import Binding
from tests.python.strategies import bindable_names


def command_of(pid: int) -> str:
    return {100: "sensor", 101: "panel"}.get(pid, "?")


def test_a_tree() -> None:
    found = [
        Binding(1, 1, 102, False, "$.*"),
        Binding(0, 4, 101, False, "$.Sensors.Kitchen"),
        Binding(0, 4, 101, False, "$.Sensors.Kitchen"),
        Binding(0, 3, 101, False, "$.Sensors.%"),
        Binding(0, 2, 100, True, "$.Sensors.Kitchen"),
        Binding(0, 2, 100, True, "$.Sensors"),
        Binding(0, 2, 100, True, "$.Lamp.Hall.Set"),
    ]
    assert tree(found, command_of) == [
        "kbus0",
        "└── $",
        "    ├── Lamp",
        "    │   └── Hall",
        "    │       └── Set  replier 2 (100 sensor)",
        "    └── Sensors  replier 2 (100 sensor)",
        "        ├── %  listener 3 (101 panel)",
        "        └── Kitchen  replier 2 (100 sensor), listener 4 (101 panel) x2",
        "kbus1",
        "└── $",
        "    └── *  listener 1 (102 ?)",
    ]


def test_no_tree() -> None:
    assert tree([], command_of) == []


bindings = st.lists(
    st.builds(Binding, st.integers(0, 1), st.integers(1, 2), st.just(100), st.booleans(), bindable_names),
    max_size=8,
)


@given(found=bindings)
def test_a_tree_has_every_binding(found: list[Binding]) -> None:
    drawn = "\n".join(tree(found, command_of))
    assert sum(drawn.count(kind) for kind in ("replier ", "listener ")) == len(set(found))
    words = {(each.device, each.name[:end]) for each in found for end in _ends(each.name)}
    devices = {each.device for each in found}
    assert len(drawn.splitlines()) == len(words) + len(devices)


def _ends(name: str) -> list[int]:
    return [index for index, character in enumerate(name + ".") if character == "."]


@given(before=bindings, after=bindings)
def test_changes_lead_from_one_to_the_other(before: list[Binding], after: list[Binding]) -> None:
    gone, come = changes(before, after)
    left = list(before)
    for each in gone:
        left.remove(each)
    key = repr
    assert sorted(left + come, key=key) == sorted(after, key=key)
    assert not set(gone) & set(come)


def test_the_oldest_change_is_first() -> None:
    a, b, c = (Binding(0, 1, 100, False, f"$.{name}") for name in "ABC")
    assert changes([c, b, a], [b]) == ([a, c], [])
    assert changes([a], [c, b, a]) == ([], [b, c])
