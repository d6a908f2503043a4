# SPDX-License-Identifier: MIT
"""Programs that were written for the original package: each method is called in their way."""

from __future__ import annotations

import pytest

from tests.kernel.porting import OLD, Old


@pytest.mark.parametrize("old", OLD, ids=[each.what for each in OLD])
def test_called_as_in_the_original(old: Old) -> None:
    old.check()
