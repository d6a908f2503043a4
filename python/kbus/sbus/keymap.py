# SPDX-License-Identifier: MIT
"""Routing keys and KBUS message names: each key has one name, and each name below the root one key.

A segment of letters and digits is a word of the name, and the separator is a dot. What names cannot have is
written with the letter ``Z``:

========================= ==========================================================================
``Z`` and two digits      the byte of that number, in hex with capitals, if it is neither a letter, a
                          digit, NUL nor the separator: ``ZE4``
``Z00`` as a whole word   an empty segment
``Z5A`` before such       the letter ``Z``, where what follows would make it one of the above: the
                          segment ``Z2A`` is the word ``Z5A2A``
``Z`` before all else     itself: ``Zoo``
========================= ==========================================================================

In the protocol ``slash`` no key has ``!`` as a whole segment, because that is reserved. So the name of a KBUS
program may have ``Z21`` as a word without meaning it, and that word stands for itself. Source: the
bridge's specification, 'Keys and names'.
"""

from __future__ import annotations

import re
from typing import Optional

from .. import _abi as abi
from . import packets
from .counts import NAME_TOO_LONG, Dropped
from .packets import Protocol

_PLAIN = re.compile(rb"[A-Za-z0-9]+")
#: Words that are segments as they are, each of them.
_PLAIN_NAME = re.compile(rb"[A-Ya-z0-9]+(?:\.[A-Ya-z0-9]+)*")
_EMPTY = b"Z00"
_WHOLE_EMPTY = re.compile(rb"Z(?:5A)*00")
_WHOLE_RESERVED = re.compile(rb"Z(?:5A)*21")


class NameTooLong(Dropped):
    """The name of a key would be longer than KBUS allows, or a secret key is longer than that."""

    cause = NAME_TOO_LONG


class KeyMap:
    """The mapping for one protocol and one root, which is ``$`` or a name such as ``$.Sbus``.

    ``has_secrets`` says whether keys that begin with ``!/cred/`` are secret, and ``!`` is reserved.

    Raises ValueError if the root is neither. Immutable.
    """

    def __init__(self, protocol: Protocol, root: str = "$") -> None:
        if not re.fullmatch(r"\$(\.[A-Za-z0-9]+)*", root):
            raise ValueError(f'the root {root!r} is neither "$" nor a message name')
        self.separator = protocol.separator
        self.prefix = root.encode() + b"."
        self.has_secrets = protocol.has_control
        codes = "|".join(f"{byte:02X}" for byte in range(1, 256) if self._is_escaped(byte))
        self._unsafe = re.compile(rf"Z(?=(?:5A)*(?:{codes}))|[^A-Za-z0-9]".encode())
        self._escape = re.compile(rf"Z(?:({codes})|5A(?=(?:5A)*(?:{codes})))".encode())

    def _is_escaped(self, byte: int) -> bool:
        return not _PLAIN.fullmatch(bytes([byte])) and byte != self.separator[0]

    def name(self, key: bytes) -> bytes:
        """Return the message name of a key.

        Raises NameTooLong. The key has no NUL and, in the protocol ``slash``, no segment ``!``.
        """
        # No name is shorter than its key.
        if len(self.prefix) + len(key) <= abi.MAX_NAME_LEN:
            name = self.prefix + self._words(key)
            if len(name) <= abi.MAX_NAME_LEN:
                return name
        raise NameTooLong(f"the name of key {key[:40]!r}… has more than {abi.MAX_NAME_LEN} bytes")

    def key(self, name: bytes) -> bytes:
        """Return the key of a message name. Raises ValueError if it is not below the root."""
        if not name.startswith(self.prefix):
            raise ValueError(f"the name {name!r} is not below {self.prefix!r}")
        words = name[len(self.prefix) :]
        if _PLAIN_NAME.fullmatch(words):
            return words.replace(b".", self.separator)
        return self.separator.join(map(self._segment, words.split(b".")))

    def can_match(self, pattern: bytes) -> bool:
        """Return whether a pattern is short enough to match a key that has a name."""
        return len(self.prefix) + len(pattern) - pattern.count(b"*") <= abi.MAX_NAME_LEN

    def binding(self, pattern: bytes) -> Optional[bytes]:
        """Return the tightest name to bind to that covers what a pattern matches.

        That is an exact name, ``%`` in place of the last word, or ``*`` in place of one or more. None if no
        name that KBUS allows can match.
        """
        if not self.can_match(pattern):
            return None
        if packets.is_exact(pattern, self.separator):
            name = self.prefix + self._words(pattern)
        else:
            star = pattern.find(b"*")
            # Behind the last separator before it, or before the end.
            begin = pattern.rfind(self.separator, 0, star if star >= 0 else None) + 1
            name = self.prefix + (self._words(pattern[: begin - 1]) + b"." if begin else b"")
            name += b"%" if star >= 0 and self.separator not in pattern[begin:] else b"*"
        return name if len(name) <= abi.MAX_NAME_LEN else None

    def _words(self, segments: bytes) -> bytes:
        """The words of segments, with their dots, for segments with their separators."""
        words = segments.replace(self.separator, b".")
        if _PLAIN_NAME.fullmatch(words) and (self.separator == b"." or b"." not in segments):
            return words
        return b".".join(map(self._word, segments.split(self.separator)))

    def _word(self, segment: bytes) -> bytes:
        if b"Z" not in segment and _PLAIN.fullmatch(segment):
            return segment
        if not segment:
            return _EMPTY
        if self.has_secrets and _WHOLE_RESERVED.fullmatch(segment):
            return segment
        if _WHOLE_EMPTY.fullmatch(segment):
            return b"Z5A" + segment[1:]
        return self._unsafe.sub(_escaped, segment)

    def _segment(self, word: bytes) -> bytes:
        if b"Z" not in word or (self.has_secrets and _WHOLE_RESERVED.fullmatch(word)):
            return word
        if word == _EMPTY:
            return b""
        if _WHOLE_EMPTY.fullmatch(word):
            return b"Z" + word[3:]
        return self._escape.sub(_unescaped, word)


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"Z%02X" % match[0][0]


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)]) if match[1] else b"Z"
