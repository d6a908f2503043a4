# SPDX-License-Identifier: MIT
"""Which of the messages that come are to be shown."""

from __future__ import annotations

import argparse
from typing import NamedTuple, Optional

from .. import Message, names
from ..terminal.options import name_to_bind
from .lines import FLAGS, KINDS, letter_of
from .peers import Opener

__all__ = ["Filter", "add_filters", "given_filter"]

_BITS = {name.lower(): bit for bit, _, name in FLAGS}


class Filter(NamedTuple):
    """What a message must have to pass. What is empty, or 0, does not count."""

    #: any of these kinds, values of ``KINDS``
    kinds: frozenset[str] = frozenset()
    #: any of these senders, ids of KSocks or names of programs
    senders: frozenset[str] = frozenset()
    #: none of these names, which may end in a wildcard
    without: tuple[str, ...] = ()
    #: all of these bits of the flags
    flags: int = 0
    #: none of these
    no_flags: int = 0

    @property
    def wants_peers(self) -> bool:
        """Whether it is to be known what program sent a message."""
        return not all(each.isdigit() for each in self.senders)

    def passes(self, message: Message, peer: Optional[Opener]) -> bool:
        """Whether the message passes; ``peer`` opened the sender's KSock, if that is known."""
        if self.kinds and KINDS[letter_of(message)] not in self.kinds:
            return False
        if self.senders and not self.senders & {str(message.from_), peer.command if peer else ""}:
            return False
        if message.flags & self.flags != self.flags or message.flags & self.no_flags:
            return False
        return not any(names.matches(each, message.name) for each in self.without)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """The options that make up a filter."""
    group = parser.add_argument_group(
        "what of it to show",
        "Each can be given more than once. What is passed over is counted.",
    )
    group.add_argument(
        "--kind",
        action="append",
        default=[],
        choices=list(KINDS.values()),
        metavar="KIND",
        help=f"any of these: {', '.join(KINDS.values())}",
    )
    group.add_argument(
        "--from",
        dest="senders",
        action="append",
        default=[],
        metavar="SENDER",
        help="from any of these, a KSock id or the name of a program",
    )
    group.add_argument(
        "--flag",
        action="append",
        default=[],
        choices=list(_BITS),
        metavar="FLAG",
        help=f"with all of these set: {', '.join(_BITS)}",
    )
    group.add_argument(
        "--no-flag",
        action="append",
        default=[],
        choices=list(_BITS),
        metavar="FLAG",
        help="with none of these set",
    )
    group.add_argument(
        "--except",
        dest="without",
        action="append",
        default=[],
        type=name_to_bind,
        metavar="NAME",
        help="without those of this name, which may end in a wildcard too",
    )


def given_filter(args: argparse.Namespace) -> Filter:
    """The filter that the options say."""
    return Filter(
        frozenset(args.kind),
        frozenset(args.senders),
        tuple(args.without),
        sum(_BITS[name] for name in set(args.flag)),
        sum(_BITS[name] for name in set(args.no_flag)),
    )
