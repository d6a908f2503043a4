# SPDX-License-Identifier: MIT
"""Data as text and as JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus import Message, json, text

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.text(st.characters(codec="utf-8")))
def test_text(value: str) -> None:
    assert text.decode(Message("$.A", text.encode(value))) == value


@given(values.filter(lambda value: "\\ud" not in ascii(value)))
def test_json(value: Any) -> None:
    assert json.decode(Message("$.A", json.encode(value))) == value


@pytest.mark.parametrize("decode", [text.decode, json.decode])
def test_data_of_another_kind(decode: Any) -> None:
    with pytest.raises(ValueError):
        decode(Message("$.A", b"\xff"))


def test_what_json_has_nothing_like() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json.encode(float("nan"))
