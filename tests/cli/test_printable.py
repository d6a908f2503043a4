# SPDX-License-Identifier: MIT
"""Text that others have chosen, made fit for a terminal."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus.terminal.output import json_text, printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("grün ☃ 🙂 日本 a\u0301", "grün ☃ 🙂 日本 a\u0301"),
        ("a\x1b[2J", r"a\x1b[2J"),
        ("a\0b\x7f", r"a\x00b\x7f"),
        ("\n\r\t", r"\n\r\t"),
        ("\x80\x9b\x9f\x85", r"\x80\x9b\x9f\x85"),
        ("\u202a\u202e\u2066\u2069\u200f", r"\u202a\u202e\u2066\u2069\u200f"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\udc9b\ud800", r"\udc9b\ud800"),
        ("\xa0\ufeff\U000e0041", r"\xa0\ufeff\U000e0041"),
        (r"C:\n", r"C:\n"),
    ],
)
def test_escapes(text: str, expected: str) -> None:
    assert printable(text) == expected


#: Also surrogates, as from file names that are no UTF-8
ANY = st.text(st.characters(codec=None) | st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF))


@given(text=ANY)
def test_what_comes_of_it_is_printable_and_stays(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    shown.encode()
    assert not any(unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp") for each in shown)
    assert printable(shown) == shown


@given(value=st.dictionaries(st.text(), st.text() | st.characters(categories=["Cs"]) | st.integers()))
def test_json(value: dict[str, object]) -> None:
    shown = json_text(value)
    assert shown.isprintable() and shown.isascii()
    assert json.loads(shown) == value


def test_json_has_no_del() -> None:
    assert json_text("\x7f") == r'"\u007f"'


def test_json_has_no_control_character() -> None:
    assert json_text({"name": "a\x7f\x1b"}) == r'{"name": "a\u007f\u001b"}'
