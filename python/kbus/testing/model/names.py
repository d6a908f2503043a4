# SPDX-License-Identifier: MIT
"""Message names: rules 1 to 5 and 9, written as plainly as they can be."""

from __future__ import annotations

import errno

from ... import _abi as abi

WILDCARDS = (b"*", b"%")
OWN_PREFIX = b"$.KBUS."


def words(name: bytes) -> list[bytes]:
    """The words after ``$.``; a name without ``$.`` has none."""
    return name[2:].split(b".") if name.startswith(b"$.") else []


def is_wildcard(name: bytes) -> bool:
    """Whether the last word is ``*`` or ``%``."""
    return words(name)[-1:] in ([b"*"], [b"%"])


def is_legal(name: bytes) -> bool:
    """Rule 1: words of ASCII letters and digits, a wildcard only as the whole last one."""
    if not abi.MIN_NAME_LEN <= len(name) <= abi.MAX_NAME_LEN:
        return False
    parts = words(name)
    plain = parts[:-1] if is_wildcard(name) else parts
    return len(parts) > 0 and all(word.isalnum() for word in plain)


def check_for_binding(name: bytes | None) -> bytes:
    """What BIND, UNBIND, REPLIER and RESOLVE refuse about a name (rules 1, 2 and 11); None is address 0."""
    if name is None:
        raise OSError(errno.EFAULT, "rule 11: address 0")
    if not name:
        raise OSError(errno.EBADMSG, "rule 11: length 0")
    if len(name) > abi.MAX_NAME_LEN:
        raise OSError(errno.ENAMETOOLONG, "rule 2: over 1000 bytes")
    if not is_legal(name):
        raise OSError(errno.EBADMSG, "rule 1: not a legal name")
    return name


def matches(bound: bytes, name: bytes) -> bool:
    """Rule 3: whether a message called `name` is for a binding to `bound`."""
    if not is_wildcard(bound):
        return bound == name
    prefix, own = words(bound)[:-1], words(name)
    further = len(own) - len(prefix)
    if own[: len(prefix)] != prefix:
        return False
    return further == 1 if bound.endswith(b"%") else further >= 1


def specificity(bound: bytes) -> tuple[int, int]:
    """Rule 9: less for the more specific: exact, then ``%``, then ``*``, longer prefixes before shorter."""
    kind = {b"%": 1, b"*": 2}.get(words(bound)[-1], 0)
    return kind, -len(words(bound))
