# SPDX-License-Identifier: MIT
"""Each program of docs/examples prints what the docs say on the stand-in, too.

Those in C, those of ``kbus-sbusd``, and the one that reads ``/proc/kbus`` itself need the module:
test_examples_vm.py runs them. So do the pages about installing and tracing, whose commands are for root.
"""

from __future__ import annotations

import pytest

from tests.docs.examples import TOGETHER, Part, run_together
from tests.testing.reached import served


def needs_module(parts: list[Part]) -> bool:
    return any(part.file.endswith(".c") or part.file in ("sbus_bridge.sh", "who_hangs.sh") for part in parts)


@pytest.mark.parametrize(
    "parts", [parts for parts in TOGETHER if not needs_module(parts)], ids=lambda parts: parts[-1].file
)
def test_example(parts: list[Part], monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as path:
        monkeypatch.setenv("KBUS_TEST_BUS", path)
        run_together(parts)
