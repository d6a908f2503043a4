# SPDX-License-Identifier: MIT
"""Some seconds of fuzzing captures; `make fuzz-captures` goes on for longer, with larger ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from . import fuzz
from .rubbish import MIB


def test_captures_damaged_at_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others each time; what is said, if one fails, has the seed."""
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    assert fuzz.run(int.from_bytes(os.urandom(4), "little"), 5, MIB, said.append) is None, said
