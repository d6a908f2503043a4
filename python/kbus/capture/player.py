# SPDX-License-Identifier: MIT
"""Sending a recording again: which messages, as what, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Optional

from .. import Message
from .. import _abi as abi
from ..names import OWN_PREFIX
from .reader import Record

_KEPT_FLAGS = abi.BIT_URGENT | abi.BIT_ALL_OR_WAIT | abi.BIT_ALL_OR_FAIL | abi.BIT_EXTENDED | abi.BITS_USER


def timed(records: Iterable[Record]) -> Iterator[tuple[float, Record]]:
    """Yield the records with the seconds from the first of them, which never go back.

    Within a boot of a machine that is CLOCK_MONOTONIC's, so that a clock that was set does not matter; from
    one boot to the next, and where it is not known which boot it is, CLOCK_REALTIME's.
    """
    seconds = 0.0
    before: Optional[Record] = None
    for record in records:
        if before is not None:
            seconds += max(0, _between(before, record)) / 1e9
        before = record
        yield seconds, record


def _between(before: Record, after: Record) -> int:
    """ns from one to the other."""
    boot = _boot(before)
    if boot and boot == _boot(after):
        return after.facts.mono_ns - before.facts.mono_ns
    return after.time_ns - before.time_ns


def _boot(record: Record) -> Optional[tuple[object, object]]:
    info = record.facts.section.info
    return (info.get("device"), info["boot_id"]) if info.get("boot_id") else None


class Casting:
    """What is sent for a recorded message.

    Without ``requests``, everything is announced: Requests and replies too, so that listeners get them
    and nothing answers. With it, Requests are sent as such, to the present replier, and recorded
    replies are left out. What KBUS itself made can't be sent, nor what has a name that only KBUS and replies
    may have, as errors of repliers do. ``names`` maps beginnings of names, in whole words, to others; the
    longest that fits is taken.
    """

    def __init__(self, requests: bool = False, names: Optional[Mapping[str, str]] = None) -> None:
        self._requests = requests
        self._names = sorted((names or {}).items(), key=lambda each: -len(each[0]))

    def cast(self, message: Message) -> Optional[Message]:
        """Return what is to be sent, or None."""
        if message.is_synthetic() or (self._requests and message.is_reply()):
            return None
        name = self._mapped(message.name)
        if name.startswith(OWN_PREFIX):
            return None
        flags = message.flags & _KEPT_FLAGS
        if self._requests and message.is_request():
            flags |= abi.BIT_WANT_A_REPLY
        keeps_id = message.id is not None and message.id.network_id
        return Message(
            name,
            message.data,
            orig_from=message.orig_from,
            final_to=message.final_to,
            flags=flags,
            id=message.id if keeps_id else None,
        )

    def _mapped(self, name: str) -> str:
        for begin, other in self._names:
            if name == begin or name.startswith(begin + "."):
                return other + name[len(begin) :]
        return name
