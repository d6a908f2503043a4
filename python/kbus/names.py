# SPDX-License-Identifier: MIT
"""Message names: which are legal, what wildcards match, which binding is more specific.

Pure functions. KBUS does all of this itself; they are for programs that check beforehand.
Source: semantics, rules 1 to 4 and 9.
"""

from __future__ import annotations

import re
from functools import lru_cache

from . import _abi as abi

WILDCARDS = ("*", "%")
#: How names begin that only KBUS gives to messages, and programs only to replies. Source: semantics, rule 5.
OWN_PREFIX = "$.KBUS."

_WORD = re.compile("[A-Za-z0-9]+")


def check(name: str) -> None:
    """Raise ValueError, which says what is wrong, unless ``name`` can be bound to."""
    length = len(name.encode(errors="surrogatepass"))
    if length > abi.MAX_NAME_LEN:
        raise ValueError(f"a message name of {length} bytes is longer than {abi.MAX_NAME_LEN}")
    if not name.startswith("$."):
        raise ValueError(f'message name {name!r} does not start with "$."')
    *words, last = name[2:].split(".")
    for word in words if last in WILDCARDS else [*words, last]:
        if not word:
            raise ValueError(f"message name {name!r} has an empty word")
        if word in WILDCARDS:
            raise ValueError(f"message name {name!r} has a wildcard that is not the last word")
        if not _WORD.fullmatch(word):
            raise ValueError(f"message name {name!r} has other than ASCII letters and digits in {word!r}")


@lru_cache(maxsize=4096)
def check_sent(name: str) -> None:
    """Raise ValueError if no message that KBUS has sent can have this name."""
    check(name)
    if is_wildcard(name):
        raise ValueError(f"a message whose name is the wildcard {name!r}")


def is_valid(name: str) -> bool:
    """Return whether ``name`` can be bound to."""
    try:
        check(name)
    except ValueError:
        return False
    return True


def is_wildcard(name: str) -> bool:
    """Return whether a legal name ends in a wildcard, so that no message can be sent to it."""
    return name.endswith(WILDCARDS)


def matches(pattern: str, name: str) -> bool:
    """Return whether a binding to ``pattern`` gets messages called ``name``.

    ``*`` stands for one or more words, ``%`` for exactly one. Both must be legal, ``name``
    without a wildcard.
    """
    if not is_wildcard(pattern):
        return pattern == name
    prefix = pattern[:-1]
    if not name.startswith(prefix):
        return False
    return pattern.endswith("*") or "." not in name[len(prefix) :]


def specificity(pattern: str) -> tuple[int, int]:
    """Return a key that is greater for the more specific of two legal names that match a message.

    A Request goes to the replier whose binding is the most specific: the exact name, then ``%``,
    then ``*``, where the longer prefix counts more.
    """
    kind = 0 if pattern.endswith("*") else 1 if pattern.endswith("%") else 2
    return kind, pattern.count(".")
