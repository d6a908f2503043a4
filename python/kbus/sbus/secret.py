# SPDX-License-Identifier: MIT
"""Secret messages: keys that begin with ``!/cred/``, and which clients may use them. Pure functions.

Source: the protocol text, 'Secret messages', and the bridge's specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from .. import _abi as abi
from .counts import CREDENTIALS, RESERVED, Dropped
from .keymap import NameTooLong

PREFIX = b"!/cred/"
WHOAMI = b"!/cred/whoami"

_PARTS = re.compile(rb"!/cred/([^/]*)/([^/]*)/([^/]*)/(.*)", re.DOTALL)
_TOKEN = re.compile(rb"(?:\A|/)!(?:/|\Z)")
_NUMBER = re.compile(rb"[0-9]*")


class Invalid(Dropped):
    """The key uses the token ``!`` for something that it is not for. It is ignored."""

    cause = RESERVED


class Misuse(Dropped):
    """``*`` or a truncated key in place of credentials: the sender is disconnected."""

    cause = CREDENTIALS
    ends = True


class Credentials(NamedTuple):
    """The ids of a client. ``groups`` are the supplementary groups that are known."""

    gid: int
    uid: int
    pid: int
    groups: Iterable[int] = ()

    def key(self) -> bytes:
        """Return them as the beginning of a routing key, without a separator at the end."""
        return b"%s%d/%d/%d" % (PREFIX, self.gid, self.uid, self.pid)


class SecretKey(NamedTuple):
    """A secret key or pattern taken apart, with the numbers as they stand in it."""

    gid: bytes
    uid: bytes
    pid: bytes
    rest: bytes

    def matches(self, own: Credentials) -> bool:
        """Return whether a client with these credentials may subscribe to it. Empty numbers match."""
        gids = {b"", b"%d" % own.gid, *(b"%d" % gid for gid in own.groups)}
        return self.gid in gids and self.uid in (b"", b"%d" % own.uid) and self.pid in (b"", b"%d" % own.pid)

    def complete(self, own: Credentials) -> bytes:
        """Return the key with the client's own credentials in place of empty numbers."""
        return b"%s%s/%s/%s/%s" % (
            PREFIX,
            self.gid or b"%d" % own.gid,
            self.uid or b"%d" % own.uid,
            self.pid or b"%d" % own.pid,
            self.rest,
        )


def uses_token(key: bytes) -> bool:
    """Return whether ``!`` is a whole segment of a key or pattern, as far as it can have a name."""
    return b"!" in key and _TOKEN.search(key, 0, abi.MAX_NAME_LEN + 1) is not None


def split(key: bytes, server: bytes = b"") -> SecretKey:
    """Take apart a key or pattern in which ``uses_token`` is true.

    ``server`` is what ``Credentials.key`` gives for the servers in between, which may stand before the
    client's. Raises Invalid, Misuse, and NameTooLong for more bytes than a message name may have.
    """
    if len(key) > abi.MAX_NAME_LEN:
        raise NameTooLong(f"the secret key {key[:40]!r}… has more than {abi.MAX_NAME_LEN} bytes")
    if not key.startswith(PREFIX):
        raise Invalid(f"the token ! in {key[:40]!r}")
    if server and key.startswith(server + b"/" + PREFIX):
        key = key[len(server) + 1 :]
    parts = _parts(key)
    rest = parts.rest
    while rest.startswith(PREFIX):
        rest = _parts(rest).rest
    if uses_token(rest):
        raise Invalid(f"the token ! in {key[:40]!r}")
    return parts


def _parts(key: bytes) -> SecretKey:
    match = _PARTS.fullmatch(key)
    if match is None:
        raise Misuse(f"{key[:40]!r} is truncated")
    if any(b"*" in match[number] for number in (1, 2, 3)):
        raise Misuse(f"{key[:40]!r} has * in place of credentials")
    if not all(_NUMBER.fullmatch(match[number]) for number in (1, 2, 3)):
        raise Invalid(f"{key[:40]!r} has other than numbers in place of credentials")
    return SecretKey(match[1], match[2], match[3], match[4])
