# SPDX-License-Identifier: MIT
"""Access by key: the file of rules, and who of those that have subscribed may have a message."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from typing import Optional

from . import counts
from .packets import Protocol
from .peer import Peer
from .rules import BadRule, Rules, parse

#: Bytes that a file of rules has at most.
MOST_BYTES = 1 << 20


class NoRules(Exception):
    """The file cannot be used. The text begins with its path and, if it is about one, the line."""


class RulesFile:
    """A file of rules. ``rules`` are those that it had when it was read last and was good.

    Raises NoRules if it is not good at first.
    """

    def __init__(self, path: str, protocol: Protocol) -> None:
        self.path = path
        self._protocol = protocol
        self.rules = self._read()

    def read(self) -> None:
        """Read it anew. Raises NoRules; then the rules are what they were."""
        self.rules = self._read()

    def _read(self) -> Rules:
        try:
            return parse(self._content(), self._protocol)
        except BadRule as error:
            raise NoRules(f"{self.path}:{error}") from None
        except OSError as error:
            raise NoRules(f"{self.path}: {error.strerror}") from None

    def _content(self) -> bytes:
        # Opening a FIFO would wait, and all clients with it.
        fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise NoRules(f"{self.path}: it is not a regular file")
            with open(fd, "rb", closefd=False) as file:
                content = file.read(MOST_BYTES + 1)
        finally:
            os.close(fd)
        if len(content) > MOST_BYTES:
            raise NoRules(f"{self.path}: it has more than {MOST_BYTES} bytes")
        return content


def readers(key: bytes, subscribers: Iterable[Peer]) -> Receivers:
    """Return who of the subscribers gets messages with a key, and who is to be counted for the others."""
    allowed: list[Peer] = []
    denied: list[Peer] = []
    for peer in subscribers:
        may = peer.rights is None or peer.rights.may_receive(key)
        (allowed if may else denied).append(peer)
    return allowed, Withheld(key, denied) if denied else None


class Withheld:
    """Counts messages for the subscribers of a key that may not have them."""

    def __init__(self, key: bytes, peers: Sequence[Peer]) -> None:
        self._detail = f"subscribe to {key[:60]!r}"
        self._peers = peers

    def count(self, count: int, publisher: Optional[Peer]) -> None:
        """So many messages were withheld, which ``publisher`` has published if that is not None."""
        for peer in self._peers:
            if peer is not publisher or peer.settings.echo:
                peer.drop(counts.SUBSCRIBE_DENIED, self._detail)
                peer.counts.dropped[counts.SUBSCRIBE_DENIED] += count - 1


#: Who gets messages with a key, and who counts them for those who may not have them, if there are any.
Receivers = tuple[Iterable[Peer], Optional[Withheld]]
