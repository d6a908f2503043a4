# SPDX-License-Identifier: MIT
"""Rules for keys: what lines say, and which of them decides."""

from __future__ import annotations

import gc
import grp
import os
import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus.sbus.access import EVERYBODY, BadRule, Denied, Rights, Rule, Rules, parse
from kbus.sbus.packets import DOT, SLASH
from kbus.sbus.secret import Credentials
from tests.sbus.reference import reference_matches

OWN = Credentials(gid=10, uid=1, pid=99, groups=frozenset({20, 30}))
EXAMPLE = b"""\
# what somebody needs to know
default deny
deny   both       user:1   Lab/Secret/

allow  subscribe  *            Lab/
  allow\tpublish    group:20    Lab/*/Set\r
allow  publish    group:40    ""
allow  publish    user:1      "two words"
"""


def may(rights: Rights, key: bytes) -> tuple[bool, bool]:
    """Whether one may publish to the key, and subscribe to it."""
    try:
        rights.check("publish", key)
    except Denied:
        publish = False
    else:
        publish = True
    try:
        rights.check("subscribe", key)
    except Denied:
        assert not rights.may_receive(key)
        return publish, False
    assert rights.may_receive(key)
    return publish, True


def test_the_first_line_that_fits_decides() -> None:
    rights = parse(EXAMPLE, SLASH).of(OWN)
    assert may(rights, b"Lab/Door") == (False, True)
    assert may(rights, b"Lab/Door/Set") == (True, True)
    assert may(rights, b"Lab/Secret/Set") == (False, False)
    assert may(rights, b"two words") == (True, False)
    assert may(rights, b"Else") == (False, False)
    # user:1 is another one, and not everybody is in group 20.
    other = parse(EXAMPLE, SLASH).of(OWN._replace(uid=2, groups=frozenset()))
    assert may(other, b"Lab/Secret/Set") == (False, True)


def test_clients_with_the_same_rules_share_rights() -> None:
    """However many groups else they are in, and nothing of those is remembered."""
    rules = parse(EXAMPLE, SLASH)
    rights = rules.of(OWN)
    assert rules.of(OWN._replace(pid=100, groups=range(20, 30))) is rights
    assert rules.of(OWN._replace(groups=(20, 40))) is not rights


def test_the_example_of_the_docs() -> None:
    example = Path(__file__).parents[2] / "docs/examples/sbus_access.rules"
    rules = parse(example.read_bytes(), SLASH)
    lab = rules.of(Credentials(gid=1, uid=pwd.getpwnam("daemon").pw_uid, pid=1))
    assert may(lab, b"Lab/Door/Set") == (True, True)
    assert may(lab, b"Lab/Coffee Machine") == (True, True)
    assert may(lab, b"Lab/Door") == (False, True)
    nobody = rules.of(Credentials(gid=1, uid=pwd.getpwnam("nobody").pw_uid, pid=1))
    assert (may(nobody, b"Lab/Door"), may(nobody, b"Lab/Secret/Door")) == ((False, True), (False, False))


def test_it_says_which_line_denies() -> None:
    rights = parse(EXAMPLE, SLASH).of(OWN)
    with pytest.raises(Denied, match="publish to b'Lab/Secret/x', by line 3 of the rules"):
        rights.check("publish", b"Lab/Secret/x")
    with pytest.raises(Denied, match="subscribe to b'Else', by default"):
        rights.check("subscribe", b"Else")


def test_without_a_default_it_is_deny() -> None:
    assert may(parse(b"", SLASH).of(OWN), b"a") == (False, False)
    assert may(parse(b"default allow", SLASH).of(OWN), b"a") == (True, True)


def test_names_of_users_and_groups() -> None:
    user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(os.getgid())
    text = f"deny both user:{user.pw_name} a\nallow both group:{group.gr_name} b"
    rules = parse(text.encode(), SLASH)
    assert [rule.who for rule in rules.rules] == [("user", user.pw_uid), ("group", group.gr_gid)]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("permit both * a", "'permit' is not allow, deny or default"),
        ("allow", "a rule is"),
        ("allow both *", "a rule is"),
        ("allow read * a", "'read' is not publish, subscribe or both"),
        ("allow both everybody a", "'everybody' is not"),
        ("allow both user: a", "'user:' is not"),
        ("allow both users:root a", "'users:root' is not"),
        ("allow both user:no-such-user a", "there is no user 'no-such-user'"),
        ("allow both group:no-such-group a", "there is no group 'no-such-group'"),
        ("allow both user:4294967295 a", "4294967295 is no user id"),
        ("allow both user:-1 a", "there is no user '-1'"),
        ("allow both user:\udcff a", "there is no user"),
        ("deny both * a # nobody", "a comment on a line of its own"),
        ('deny both * "a" # nobody', "ends with the next one"),
        ('deny both * "a', "ends with the next one"),
        ("deny both * a\0", "a key has no NUL"),
        ("deny both * !/cred/0/0/0/", "have no rules"),
        ("allow both * a/!", "have no rules"),
        ("default", "the default is allow or deny"),
        ("default perhaps", "the default is allow or deny"),
        ("default deny # or not", "the default is allow or deny"),
        ("default allow", "there is a default already"),
    ],
)
def test_rule_what_is_no_rule_is_an_error_with_its_line(line: str, why: str) -> None:
    """Above all what could be meant to deny something."""
    text = f"default deny\n\nallow both * x\n{line}\nallow both * y\n"
    with pytest.raises(BadRule) as caught:
        parse(text.encode("utf-8", "surrogateescape"), SLASH)
    assert str(caught.value).startswith("4: ")
    assert why in str(caught.value)


def test_dot_has_its_own_separator_and_no_reserved_token() -> None:
    rights = parse(b"allow both * a.\nallow both * !.cred.", DOT).of(OWN)
    assert may(rights, b"a.b") == (True, True)
    assert may(rights, b"a/b") == (False, False)
    assert may(rights, b"!.cred.x") == (True, True)


KEYS = st.text("ab/*", max_size=6).map(str.encode)
WHO = st.sampled_from([EVERYBODY, ("user", 1), ("user", 2), ("group", 10), ("group", 20), ("group", 40)])
WHAT = st.sampled_from([("publish",), ("subscribe",), ("publish", "subscribe")])


@given(st.lists(st.tuples(st.booleans(), WHAT, WHO, KEYS), max_size=8), st.booleans(), KEYS)
def test_rule_it_is_what_reading_the_lines_one_by_one_gives(
    lines: list[tuple[bool, tuple[str, ...], tuple[str, int], bytes]], default: bool, key: bytes
) -> None:
    rules = [Rule(*line, number) for number, line in enumerate(lines)]
    mine = {EVERYBODY, ("user", 1), ("group", 10), ("group", 20), ("group", 30)}

    def expected(what: str) -> bool:
        for rule in rules:
            if what in rule.what and rule.who in mine and reference_matches(rule.pattern, key, b"/"):
                return rule.allows
        return default

    rights = Rules(rules, default, b"/").of(OWN)
    assert may(rights, key) == (expected("publish"), expected("subscribe"))


def test_clients_with_the_same_credentials_share_their_rights() -> None:
    """And nothing stays when they have left."""
    rules = parse(EXAMPLE, SLASH)
    rights = rules.of(OWN)
    assert rules.of(OWN._replace(pid=100)) is rights
    assert rules.of(OWN._replace(uid=2)) is not rights
    for uid in range(1000):
        rules.of(OWN._replace(uid=uid))
    gc.collect()
    assert len(rules._rights) == 1


def test_what_is_remembered_is_bounded() -> None:
    rights = parse(b"default allow", SLASH).of(OWN)
    for number in range(5000):
        assert rights.may_receive(b"%d" % number)
    assert len(rights._readable) <= 1024
