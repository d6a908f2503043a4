# SPDX-License-Identifier: MIT
"""Rules for who may publish and subscribe where: a file of lines, and what they mean for one client.

::

    # what somebody needs to know
    default deny
    deny   both       user:guest   Lab/
    allow  subscribe  *            Lab/
    allow  publish    group:lab    Lab/*/Set

The first line that fits decides; where none fits, the default, which is ``deny`` if there is no such line.
Patterns are those of the protocol. Between quotes they may have blanks, and ``""`` is the empty one.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from itertools import chain
from typing import NamedTuple, Optional
from weakref import WeakValueDictionary

from ..terminal.failures import Failure
from . import secret
from .counts import PUBLISH_DENIED, SUBSCRIBE_DENIED, Dropped
from .packets import Protocol
from .routing import Routes
from .secret import Credentials

#: ``*``, or ``user`` or ``group`` and an id
Who = tuple[str, int]
EVERYBODY: Who = ("*", 0)
_ALLOW = {b"allow": True, b"deny": False}
PUBLISH, SUBSCRIBE = "publish", "subscribe"
_DENIED = {PUBLISH: PUBLISH_DENIED, SUBSCRIBE: SUBSCRIBE_DENIED}
_WHAT = {b"publish": (PUBLISH,), b"subscribe": (SUBSCRIBE,), b"both": (PUBLISH, SUBSCRIBE)}
#: the largest id of a user or group; the next number means none
MOST_ID = 2**32 - 2
#: Bytes that a file of rules has at most.
MOST_BYTES = 1 << 20
#: Keys for which one client's rights are remembered. When there are more, all are looked up anew.
MOST_REMEMBERED = 1024


class BadRule(ValueError):
    """A line that is no rule. The text begins with its number, from 1."""


class Denied(Dropped):
    """The rules do not allow it. The text says which line."""


class Rule(NamedTuple):
    """One line: whether it allows ``what`` (PUBLISH, SUBSCRIBE) to ``who`` with keys that match."""

    allows: bool
    what: tuple[str, ...]
    who: Who
    pattern: bytes
    line: int


class Rules:
    """Rules in their order, and whether what none of them is about is allowed. Immutable."""

    def __init__(self, rules: list[Rule], default: bool, separator: bytes) -> None:
        self.rules = rules
        self.default = default
        #: the numbers of rules, by use and by user or group
        self._tables: dict[tuple[str, Who], Routes[int]] = {}
        for number, rule in enumerate(rules):
            for what in rule.what:
                self._tables.setdefault((what, rule.who), Routes(separator)).add(rule.pattern, number)
        self._about = frozenset(rule.who for rule in rules)
        self._rights: WeakValueDictionary[object, Rights] = WeakValueDictionary()

    def of(self, own: Credentials) -> Rights:
        """Return the rights of a client with these credentials; those with the same rules share them."""
        groups = (("group", gid) for gid in (own.gid, *own.groups))
        # Only those that rules are about: a client may be in 65,536 groups.
        who = self._about.intersection(chain((EVERYBODY, ("user", own.uid)), groups))
        rights = self._rights.get(who)
        if rights is None:
            rights = self._rights[who] = Rights(self, who)
        return rights

    def tables(self, what: str, who: frozenset[Who]) -> list[Routes[int]]:
        """Return where the rules are that are for a client that is all of these."""
        return [self._tables[what, each] for each in who if (what, each) in self._tables]


class Rights:
    """What the rules mean for clients with the same rules.

    ``names`` are the message names of keys that they may publish to, as far as those have been asked for.
    """

    def __init__(self, rules: Rules, who: frozenset[Who]) -> None:
        self._rules = rules
        self._tables = {what: rules.tables(what, who) for what in _DENIED}
        self.names: dict[bytes, bytes] = {}
        self._readable: dict[bytes, bool] = {}

    def check(self, what: str, key: bytes) -> None:
        """Raise Denied if they may not PUBLISH to a key, or SUBSCRIBE to it. It is no secret one."""
        numbers = [number for table in self._tables[what] for number in table.find(key)]
        rule = self._rules.rules[min(numbers)] if numbers else None
        if not (self._rules.default if rule is None else rule.allows):
            source = "default" if rule is None else f"line {rule.line} of the rules"
            raise Denied(f"{what} to {key[:60]!r}, by {source}", _DENIED[what])

    def may_receive(self, key: bytes) -> bool:
        """Return whether they may receive messages with a key, which is no secret one."""
        known = self._readable.get(key)
        if known is None:
            try:
                self.check(SUBSCRIBE, key)
                known = True
            except Denied:
                known = False
            if len(self._readable) >= MOST_REMEMBERED:
                self._readable.clear()
            self._readable[key] = known
        return known


def parse(text: bytes, protocol: Protocol) -> Rules:
    """Return the rules that a text has. Raises BadRule for the first line that is none."""
    rules: list[Rule] = []
    default: Optional[bool] = None
    for number, line in enumerate(text.split(b"\n"), 1):
        words = line.split(None, 3)
        if not words or words[0].startswith(b"#"):
            continue
        try:
            if words[0] == b"default":
                default = _default(words[1:], default)
            else:
                rules.append(_rule(words, protocol, number))
        except ValueError as error:
            raise BadRule(f"{number}: {error}") from None
    return Rules(rules, bool(default), protocol.separator)


def _default(words: list[bytes], before: Optional[bool]) -> bool:
    if len(words) != 1 or words[0] not in _ALLOW:
        raise ValueError("the default is allow or deny")
    if before is not None:
        raise ValueError("there is a default already")
    return _ALLOW[words[0]]


def _rule(words: list[bytes], protocol: Protocol, line: int) -> Rule:
    if words[0] not in _ALLOW:
        raise ValueError(f"{_text(words[0])} is not allow, deny or default")
    if len(words) < 4:
        raise ValueError("a rule is allow or deny, publish, subscribe or both, who, and a pattern")
    if words[1] not in _WHAT:
        raise ValueError(f"{_text(words[1])} is not publish, subscribe or both")
    pattern = _pattern(words[3].strip())
    if b"\0" in pattern:
        raise ValueError("a key has no NUL")
    if protocol.has_control and secret.uses_token(pattern):
        raise ValueError("the protocol says who may use keys with ! as a segment: they have no rules")
    return Rule(_ALLOW[words[0]], _WHAT[words[1]], _who(words[2]), pattern, line)


def _pattern(text: bytes) -> bytes:
    """The pattern that the rest of a line is, of which what looks like a comment is to be no part."""
    if text.startswith(b'"'):
        pattern, quote, behind = text[1:].partition(b'"')
        if not quote or behind:
            raise ValueError(
                "a pattern that begins with a quote ends with the next one, and so does the line"
            )
        return pattern
    if len(text.split()) > 1:
        raise ValueError("a pattern with blanks stands between quotes, a comment on a line of its own")
    return text


def _who(word: bytes) -> Who:
    if word == b"*":
        return EVERYBODY
    kind, colon, name = word.decode("utf-8", "surrogateescape").partition(":")
    if not colon or not name or kind not in ("user", "group"):
        raise ValueError(f"{_text(word)} is not *, user:NAME or group:NAME")
    return kind, id_of(kind, name)


def id_of(kind: str, name: str) -> int:
    """Return the id of a user or group, which its name may be. Raises ValueError if there is none."""
    if name.isascii() and name.isdigit():
        if int(name) > MOST_ID:
            raise ValueError(f"{name} is no {kind} id")
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid if kind == "user" else grp.getgrnam(name).gr_gid
    except (KeyError, ValueError):
        raise ValueError(f"there is no {kind} {_text(name.encode('utf-8', 'surrogateescape'))}") from None


def _text(word: bytes) -> str:
    """A word as it is shown, not all of one that is long."""
    return repr(word[:40].decode("utf-8", "backslashreplace"))


class RulesFile:
    """A file of rules. ``rules`` are those that it had when it was read last and was good.

    Raises Failure, the text of which has path and line, if it is not good at first.
    """

    def __init__(self, path: str, protocol: Protocol) -> None:
        self.path = path
        self._protocol = protocol
        self.read()

    def read(self) -> None:
        """Read it anew. Raises Failure; then the rules are what they were."""
        try:
            self.rules = parse(self._content(), self._protocol)
        except BadRule as error:
            raise Failure(f"{self.path}:{error}") from None
        except OSError as error:
            raise Failure(f"{self.path}: {error.strerror}") from None

    def _content(self) -> bytes:
        # Opening a FIFO would wait, and all clients with it.
        fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Failure(f"{self.path}: it is not a regular file")
            with open(fd, "rb", closefd=False) as file:
                content = file.read(MOST_BYTES + 1)
        finally:
            os.close(fd)
        if len(content) > MOST_BYTES:
            raise Failure(f"{self.path}: it has more than {MOST_BYTES} bytes")
        return content
