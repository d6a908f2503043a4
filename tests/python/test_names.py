# SPDX-License-Identifier: MIT
"""kbus.names: rules 1 to 4 and 9 of the semantics, without a kernel."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus import names

from .strategies import bindable_names, literal_names, words

ILLEGAL = {
    "": "does not start",
    "$": "does not start",
    "Fred": "does not start",
    "Fred.$.Jim": "does not start",
    "$Fred": "does not start",
    "*": "does not start",
    "$.": "empty word",
    "$..": "empty word",
    "$..Fred": "empty word",
    "$.Fred.": "empty word",
    "$.Fred..Jim": "empty word",
    "$.Fred..*": "empty word",
    "$.*.Fred": "not the last word",
    "$.Fred.%.*": "not the last word",
    "$.Fred*": "other than ASCII",
    "$.*Fred": "other than ASCII",
    "$.**": "other than ASCII",
    "$.Fr ed": "other than ASCII",
    "$.Fred\n": "other than ASCII",
    "$.Fred\0": "other than ASCII",
    "$.Fred-Jim": "other than ASCII",
    "$.Fréd": "other than ASCII",
    "$.१": "other than ASCII",
    "$.\ud800": "other than ASCII",
    "$.$.Fred": "other than ASCII",
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_names(name: str) -> None:
    with pytest.raises(ValueError, match=ILLEGAL[name]):
        names.check(name)
    assert not names.is_valid(name)


@pytest.mark.parametrize("name", ["$.a", "$.*", "$.%", "$.0", "$.Fred.Jim", "$.Fred.*", "$.Fred.%"])
def test_legal_names(name: str) -> None:
    names.check(name)
    assert names.is_valid(name)


@given(bindable_names)
def test_drawn_names_are_legal(name: str) -> None:
    assert names.is_valid(name)


@given(st.text("$.*%aZ0- é\0", max_size=12))
def test_legal_is_what_the_grammar_says(name: str) -> None:
    grammar = r"\$(\.[A-Za-z0-9]+)+|\$(\.[A-Za-z0-9]+)*\.[*%]"
    assert names.is_valid(name) == bool(re.fullmatch(grammar, name))


def test_length_limits() -> None:
    assert names.is_valid("$." + "a" * 998)
    with pytest.raises(ValueError, match="1001 bytes is longer than 1000"):
        names.check("$." + "a" * 999)
    # Bytes count, not characters.
    with pytest.raises(ValueError, match="1002 bytes"):
        names.check("$." + "é" * 500)


@given(literal_names)
def test_a_literal_matches_itself_alone(name: str) -> None:
    assert not names.is_wildcard(name)
    assert names.matches(name, name)
    assert not names.matches(name, name + ".x")
    assert not names.matches(name, name + "x")
    assert not names.matches(name.lower(), name.upper()) or name.lower() == name.upper()


@given(literal_names, st.lists(words, max_size=3))
def test_wildcards_match_further_words(prefix: str, more: list[str]) -> None:
    name = ".".join([prefix, *more])
    assert names.is_wildcard(prefix + ".*")
    assert names.matches(prefix + ".*", name) == (len(more) >= 1)
    assert names.matches(prefix + ".%", name) == (len(more) == 1)
    assert not names.matches(prefix + "x.*", name)


def test_all_that_match_from_the_most_specific() -> None:
    ordered = ["$.a.b.c", "$.a.b.%", "$.a.b.*", "$.a.*", "$.*"]
    assert all(names.matches(pattern, "$.a.b.c") for pattern in ordered)
    alphabetical = sorted(ordered)
    assert alphabetical != ordered
    assert sorted(alphabetical, key=names.specificity, reverse=True) == ordered


@given(literal_names)
def test_no_two_that_match_are_equally_specific(name: str) -> None:
    parts = name.split(".")
    patterns = [name, ".".join([*parts[:-1], "%"])]
    patterns += [".".join([*parts[:depth], "*"]) for depth in range(1, len(parts))]
    assert all(names.matches(pattern, name) for pattern in patterns)
    assert len({names.specificity(pattern) for pattern in patterns}) == len(patterns)
