# SPDX-License-Identifier: MIT
"""The messages that come by, counted by name, and Requests matched with their answers.

The caller gives the times, in seconds of a clock that can't be set. Memory is bounded; what is beyond a bound
is counted.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple, Optional

from ... import Message, MessageId
from ..._failed import is_failed

__all__ = ["MOST_NAMES", "MOST_WAITING", "NameCounts", "Traffic", "Waiting"]

#: Names that are counted one by one, and Requests whose answer is looked for
MOST_NAMES = 10_000
MOST_WAITING = 10_000
#: Seconds; a rate over less says little
_SHORTEST = 0.05


@dataclass
class NameCounts:
    """What came by one name; an answer counts with its own name, and its time with the Request's name."""

    name: str
    messages: int = 0
    #: of data
    bytes: int = 0
    #: a second, in the last interval
    rate: float = 0.0
    byte_rate: float = 0.0
    #: Requests that were answered, by KBUS too, and the seconds that this took: in all, and the longest
    answered: int = 0
    #: those of them to which the replier answered that it failed
    failed: int = 0
    answer_time: float = 0.0
    longest: float = 0.0
    _counted: tuple[int, int] = (0, 0)

    @property
    def latency(self) -> Optional[float]:
        """Seconds from a Request to its answer, the mean; None if none has been answered."""
        return self.answer_time / self.answered if self.answered else None

    def end_interval(self, seconds: float) -> None:
        """Work out the rates of an interval that took so long."""
        messages, data = self._counted
        self.rate = (self.messages - messages) / seconds
        self.byte_rate = (self.bytes - data) / seconds
        self._counted = self.messages, self.bytes


class Waiting(NamedTuple):
    """A Request that has no answer yet."""

    id: MessageId
    name: str
    from_: int
    #: when it came
    since: float


class Traffic:
    """Counts messages; ``now`` is when it begins to."""

    def __init__(self, now: float) -> None:
        self._waiting: dict[MessageId, Waiting] = {}
        self.clear(now)

    def clear(self, now: float) -> None:
        """Begin to count again. Requests that wait go on waiting."""
        self.names: dict[str, NameCounts] = {}
        #: messages of names, and Requests, that there was no room for
        self.other_names = 0
        self.not_followed = 0
        self._interval_began = now

    def take(self, message: Message, now: float) -> None:
        """Count a message that came now."""
        counts = self._counts_of(message.name)
        if counts:
            counts.messages += 1
            counts.bytes += len(message.data or b"")
        else:
            self.other_names += 1
        if message.in_reply_to:
            self._take_answer(message, message.in_reply_to, now)
        elif message.id and message.is_request():
            self._take_request(message, message.id, now)

    def end_interval(self, now: float) -> None:
        """Work out the rates since this was called before; nothing if hardly any time has passed."""
        seconds = now - self._interval_began
        if seconds >= _SHORTEST:
            self._interval_began = now
            for counts in self.names.values():
                counts.end_interval(seconds)

    def waiting(self) -> list[Waiting]:
        """The Requests that have no answer yet, the oldest first."""
        return list(self._waiting.values())

    def forget_all_but(self, senders: Set[int], before: float) -> None:
        """Let no Request wait that came before this, unless one of these KSocks has sent it.

        An answer may have been missed, and there is none if the sender has left or has abandoned the Request.
        """
        self._waiting = {
            id: each for id, each in self._waiting.items() if each.from_ in senders or each.since >= before
        }

    def _counts_of(self, name: str) -> Optional[NameCounts]:
        if name not in self.names:
            if len(self.names) >= MOST_NAMES:
                return None
            self.names[name] = NameCounts(name)
        return self.names[name]

    def _take_request(self, message: Message, id: MessageId, now: float) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self.not_followed += 1
            return
        # Serial numbers come again; the latest is the last of the dictionary.
        self._waiting.pop(id, None)
        self._waiting[id] = Waiting(id, message.name, message.from_, now)

    def _take_answer(self, answer: Message, id: MessageId, now: float) -> None:
        request = self._waiting.pop(id, None)
        counts = self._counts_of(request.name) if request else None
        if request and counts:
            counts.answered += 1
            counts.failed += is_failed(answer)
            counts.answer_time += now - request.since
            counts.longest = max(counts.longest, now - request.since)
