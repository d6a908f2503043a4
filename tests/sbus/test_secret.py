# SPDX-License-Identifier: MIT
"""Who may use which secret key."""

from __future__ import annotations

import itertools

import pytest

from kbus.sbus import secret
from kbus.sbus.keymap import NameTooLong
from kbus.sbus.secret import Credentials, Invalid, Misuse

OWN = Credentials(gid=100, uid=1000, pid=1111, groups=frozenset({4, 27}))


def test_rule_whoami_is_what_subscribing_takes() -> None:
    assert OWN.key() == b"!/cred/100/1000/1111"
    assert secret.split(OWN.key() + b"/x").matches(OWN)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (b"100/1000/1111", True),
        (b"//", True),
        (b"100//", True),
        (b"/1000/", True),
        (b"//1111", True),
        # 'Supplementary groups count as matching'
        (b"27/1000/1111", True),
        (b"101/1000/1111", False),
        (b"100/1001/1111", False),
        (b"100/1000/1112", False),
        # Other digits than those of the number itself, or some of them.
        (b"0100/1000/1111", False),
        (b"10/1000/1111", False),
        (b"100/100/1111", False),
        (b"100/1000/111", False),
        (b"100/1000/11111", False),
    ],
)
def test_rule_credentials_must_match(parts: bytes, expected: bool) -> None:
    assert secret.split(b"!/cred/" + parts + b"/x").matches(OWN) == expected


def test_rule_empty_components_are_the_own_ones() -> None:
    for parts in itertools.product((b"", b"100"), (b"", b"1000"), (b"", b"1111")):
        key = b"!/cred/" + b"/".join(parts) + b"/a/*/b/"
        assert secret.split(key).complete(OWN) == b"!/cred/100/1000/1111/a/*/b/"


@pytest.mark.parametrize(
    "key", [b"!/cred/", b"!/cred/1", b"!/cred/1/2", b"!/cred/1/2/3", b"!/cred/whoami", b"!/cred//"]
)
def test_rule_truncated_keys(key: bytes) -> None:
    with pytest.raises(Misuse):
        secret.split(key)


@pytest.mark.parametrize(
    "key", [b"!/cred/*/2/3/x", b"!/cred/1/2*/3/x", b"!/cred/1/2/*/x", b"!/cred/1/2/3/!/cred/*/2/3/x"]
)
def test_rule_stars_in_credentials(key: bytes) -> None:
    with pytest.raises(Misuse):
        secret.split(key)


@pytest.mark.parametrize(
    "key",
    [
        b"!",
        b"!/",
        b"!/x",
        b"a/!",
        b"a/!/b",
        b"!/cred",
        b"!/cred/a/2/3/x",
        b"!/cred/1/2/3/!",
        b"!/cred/1/2/3/a/!/b",
    ],
)
def test_rule_other_uses_of_the_token(key: bytes) -> None:
    assert secret.uses_token(key)
    with pytest.raises(Invalid):
        secret.split(key)


def test_a_key_may_be_as_long_as_a_name() -> None:
    assert secret.split(OWN.key().ljust(999, b"/") + b"x").matches(OWN)
    with pytest.raises(NameTooLong):
        secret.split(OWN.key().ljust(1000, b"/") + b"x")


@pytest.mark.parametrize("key", [b"", b"a", b"!a", b"a!", b"a/!b", b"!!", b"cred/1/2/3/"])
def test_rule_what_is_no_token(key: bytes) -> None:
    assert not secret.uses_token(key)


def test_rule_the_rest_may_be_of_the_same_form() -> None:
    key = b"!/cred/100/1000/1111/!/cred/1/2/3/x"
    assert secret.split(key).complete(OWN) == key


def test_rule_credentials_behind_a_server() -> None:
    """With the prefix that whoami tells, and without it, it is the same key."""
    server = b"!/cred/5/6/7"
    behind = secret.split(server + b"/" + OWN.key() + b"/x", server)
    assert behind.matches(OWN)
    assert behind.complete(OWN) == secret.split(OWN.key() + b"/x", server).complete(OWN) == OWN.key() + b"/x"
    assert not secret.split(server + b"/x", server).matches(OWN)
