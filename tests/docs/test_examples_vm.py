# SPDX-License-Identifier: MIT
"""Each program of docs/examples, run against the module as the docs say, prints what the docs say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.examples import EXAMPLES, TOGETHER, Part, run_together
from tests.kernel import module


@pytest.fixture
def fresh_bus() -> Iterator[None]:
    """The module as it is when it has just been loaded."""
    with module.reloaded():
        yield


@pytest.mark.parametrize("parts", TOGETHER, ids=lambda parts: parts[-1].file)
def test_example(fresh_bus: None, parts: list[Part]) -> None:
    run_together(parts)


def test_no_program_is_left_out() -> None:
    shown = {part.file for parts in TOGETHER for part in parts}
    programs = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh", ".c")}
    assert shown == {name for name in programs if not name.startswith("test_")}
