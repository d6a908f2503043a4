# SPDX-License-Identifier: MIT
"""Keys and names: each key has one name, each name one key, and bindings cover patterns."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kbus import names
from kbus.sbus import secret
from kbus.sbus.keymap import KeyMap, NameTooLong
from kbus.sbus.packets import DOT, SLASH, Protocol
from tests.sbus.reference import reference_matches, words

MAPS = {protocol: KeyMap(protocol) for protocol in (DOT, SLASH)}
PROTOCOLS = st.sampled_from(list(MAPS))
#: What is special in one protocol or the other, and what is special in the mapping.
AWKWARD = st.lists(st.sampled_from(list(b"ABZ0159aEF./*!%$ \n\xff\x01")), max_size=14).map(bytes)
BYTES = st.binary(max_size=40).map(lambda data: data.replace(b"\0", b""))


def is_legal(key: bytes, protocol: Protocol) -> bool:
    return not (protocol.has_control and secret.uses_token(key))


@pytest.mark.parametrize(
    ("protocol", "key", "name"),
    [
        (SLASH, b"Sensors/Kitchen", b"$.Sensors.Kitchen"),
        (DOT, b"Sensors.Kitchen", b"$.Sensors.Kitchen"),
        (SLASH, b"a.b", b"$.aZ2Eb"),
        (DOT, b"a/b", b"$.aZ2Fb"),
        (SLASH, b"", b"$.Z00"),
        (SLASH, b"a//b/", b"$.a.Z00.b.Z00"),
        (SLASH, b"Zoo", b"$.Zoo"),
        (SLASH, b"Z2A", b"$.Z5A2A"),
        (SLASH, b"Z2F", b"$.Z2F"),
        (SLASH, b"Z00", b"$.Z5A00"),
        (SLASH, b"Z5A00", b"$.Z5A5A00"),
        (SLASH, b"aZ00", b"$.aZ00"),
        (SLASH, b"Z41", b"$.Z41"),
        (SLASH, "Küche".encode(), b"$.KZC3ZBCche"),
        (SLASH, b"x!", b"$.xZ21"),
        (SLASH, b"Z21", b"$.Z21"),
        (DOT, b"!", b"$.Z21"),
        (DOT, b"Z21", b"$.Z5A21"),
        (SLASH, b"KBUS/Replier/Ignored", b"$.KBUS.Replier.Ignored"),
    ],
)
def test_rule_keys_and_names(protocol: Protocol, key: bytes, name: bytes) -> None:
    assert MAPS[protocol].name(key) == name
    assert MAPS[protocol].key(name) == key


@given(PROTOCOLS, st.one_of(AWKWARD, BYTES))
@example(SLASH, b"Z5A21")
@example(SLASH, b"Z5AZ5A2A")
def test_rule_a_key_comes_back(protocol: Protocol, key: bytes) -> None:
    if is_legal(key, protocol):
        name = MAPS[protocol].name(key)
        names.check(name.decode())
        assert MAPS[protocol].key(name) == key


def test_rule_a_key_comes_back_whatever_is_short() -> None:
    for protocol, keymap in MAPS.items():
        keys = [key for key in words(b"Z50A2!/", 6) if is_legal(key, protocol)]
        assert [keymap.key(keymap.name(key)) for key in keys] == keys


@given(
    PROTOCOLS,
    st.lists(
        st.from_regex("[A-Z0-9]{1,8}|Z(5A){0,2}(00|21|2E|2F|41)?|[A-Za-z0-9]+", fullmatch=True),
        min_size=1,
        max_size=4,
    ),
)
def test_rule_each_name_has_a_key_of_its_own(protocol: Protocol, words: list[str]) -> None:
    """So what any KBUS program sends is delivered, under a key that no other name has."""
    name = ".".join(["$", *words]).encode()
    key = MAPS[protocol].key(name)
    assert is_legal(key, protocol)
    assert MAPS[protocol].name(key) == name


def test_rule_each_short_name_has_a_key_of_its_own() -> None:
    for keymap in MAPS.values():
        named = [b"$." + word for word in words(b"Z50A21", 6) if word]
        keys = [keymap.key(name) for name in named]
        assert len(set(keys)) == len(keys)
        assert [keymap.name(key) for key in keys] == named


@given(PROTOCOLS, AWKWARD, AWKWARD)
def test_rule_no_two_keys_have_one_name(protocol: Protocol, one: bytes, other: bytes) -> None:
    if one != other and is_legal(one, protocol) and is_legal(other, protocol):
        assert MAPS[protocol].name(one) != MAPS[protocol].name(other)


@given(
    PROTOCOLS, st.text("abZ*./", max_size=10).map(str.encode), st.text("abZ2./", max_size=10).map(str.encode)
)
def test_rule_bindings_cover_what_patterns_match(protocol: Protocol, pattern: bytes, key: bytes) -> None:
    keymap = MAPS[protocol]
    if reference_matches(pattern, key, protocol.separator):
        binding = keymap.binding(pattern)
        assert binding is not None
        assert names.matches(binding.decode(), keymap.name(key).decode())


@pytest.mark.parametrize(
    ("pattern", "binding"),
    [
        (b"a/b", b"$.a.b"),
        (b"a/b/", b"$.a.b.*"),
        (b"a/*", b"$.a.%"),
        (b"a/b*", b"$.a.%"),
        (b"a/*/c", b"$.a.*"),
        (b"a/*/", b"$.a.*"),
        (b"*", b"$.%"),
        (b"", b"$.*"),
        (b"/", b"$.Z00.*"),
        (b"a" * 1000, None),
        (b"a" * 998, b"$." + b"a" * 998),
        (b"a" * 997 + b"/", None),
    ],
)
def test_rule_the_tightest_binding(pattern: bytes, binding: bytes | None) -> None:
    assert MAPS[SLASH].binding(pattern) == binding


def test_rule_a_name_that_is_too_long_is_refused() -> None:
    assert len(MAPS[SLASH].name(b"a" * 998)) == 1000
    for key in (b"a" * 999, b"\xff" * 333, b"/" * 300):
        with pytest.raises(NameTooLong):
            MAPS[SLASH].name(key)


def test_roots() -> None:
    keymap = KeyMap(SLASH, "$.Sbus")
    assert keymap.name(b"a/b") == b"$.Sbus.a.b"
    assert keymap.key(b"$.Sbus.a.b") == b"a/b"
    assert keymap.binding(b"") == b"$.Sbus.*"
    with pytest.raises(ValueError, match="not below"):
        keymap.key(b"$.Other")
    for root in ("", "Sbus", "$.", "$.a.*", "$..a", "$.a\n"):
        with pytest.raises(ValueError, match="neither"):
            KeyMap(SLASH, root)
