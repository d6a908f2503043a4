# SPDX-License-Identifier: MIT
"""What is in a capture, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from .. import Message, MessageId
from .._failed import is_failed
from . import pcapng
from .blocks import Damage
from .reader import Reader, Record, Tally
from .sections import Section

#: Requests whose answer is looked for
_MOST_ASKED = 10_000


@dataclass
class Name:
    """The messages of one name."""

    messages: int = 0
    bytes: int = 0
    requests: int = 0
    replies: int = 0
    #: Requests to which the replier answered that it failed
    failed: int = 0


@dataclass
class Summary:
    """Counts, span, names, losses and health of one capture.

    ``bytes`` are those of the messages, headers included. ``first_ns`` and ``last_ns`` are the earliest and
    the latest time (CLOCK_REALTIME), ``seconds`` how long it took by CLOCK_MONOTONIC.
    ``lost`` is what the recorder's KSocks had lost at the end, as the statistics or else the last messages
    say. ``missing`` is how many sequence numbers are left out between the first and the last, or how many
    more messages the statistics count: what the recorder had, and the file has not. ``steps_back`` counts
    where the clock was set back. ``is_sealed`` says whether the last section has the statistics of all its
    interfaces. ``seconds``, ``lost`` and ``missing`` leave out sections that do not say what they are a
    recording of. ``sections`` has what the headers of those sections say that a ``Reader`` keeps, and
    ``more_sections`` counts the others. ``damage`` and ``more_damage`` are those of a ``Reader``.
    """

    path: Path
    size: int
    sections: list[dict[str, Any]] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0
    first_ns: Optional[int] = None
    last_ns: Optional[int] = None
    seconds: float = 0.0
    lost: int = 0
    missing: int = 0
    steps_back: int = 0
    is_sealed: bool = False
    names: dict[str, Name] = field(default_factory=dict)
    buses: dict[int, int] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    more_damage: int = 0
    more_sections: int = 0


class _Span(Tally):
    """Where one section has come to."""

    def __init__(self, section: Section) -> None:
        super().__init__(section)
        self.missing = 0
        #: names of the last Requests, by bus and id
        self.asked: dict[tuple[Optional[int], MessageId], Name] = {}

    def end(self, summary: Summary) -> None:
        """Add what is missing and lost in this section, which has no more blocks."""
        if self.section.recording is not None:
            summary.missing += max(self.missing, self.received - sum(self.messages.values()))
        summary.lost += self.dropped + sum(lost for _, lost in self.unsealed())
        summary.is_sealed = 0 < len(self.section.interfaces) == len(self.sealed)

    def count_failure(self, bus: Optional[int], message: Message, name: Name) -> None:
        """Let a Request of this name that is answered with an error count as failed."""
        if message.id and message.is_request():
            self.asked[bus, message.id] = name
            if len(self.asked) > _MOST_ASKED:
                del self.asked[next(iter(self.asked))]
        elif message.in_reply_to:
            request = self.asked.pop((bus, message.in_reply_to), None)
            if request and is_failed(message):
                request.failed += 1


def summarize(path: Path) -> Summary:
    """Read a capture, as far as it is undamaged. Raises OSError."""
    summary = Summary(path, path.stat().st_size)
    span: Optional[_Span] = None
    with Reader(path, strict=False) as reader:
        for block, record in reader.blocks():
            if block.kind == pcapng.SECTION_HEADER:
                assert reader.section is not None
                if span:
                    span.end(summary)
                span = _Span(reader.section)
            # No block comes before that.
            assert span is not None
            if record:
                _add(summary, span, record)
            span.add(block, record, reader.latest)
        if span:
            span.end(summary)
        summary.sections = [section.info for section in reader.sections]
        summary.more_sections = reader.more_sections
        summary.damage, summary.more_damage = reader.damage, reader.more_damage
    return summary


def _add(summary: Summary, span: _Span, record: Record) -> None:
    time_ns, message, facts = record
    length = message.total_length()
    summary.messages += 1
    summary.bytes += length
    summary.first_ns = time_ns if summary.first_ns is None else min(summary.first_ns, time_ns)
    summary.last_ns = time_ns if summary.last_ns is None else max(summary.last_ns, time_ns)
    name = summary.names.setdefault(message.name, Name())
    name.messages += 1
    name.bytes += length
    name.requests += message.is_request()
    name.replies += message.is_reply()
    span.count_failure(facts.bus, message, name)
    if facts.bus is not None:
        summary.buses[facts.bus] = summary.buses.get(facts.bus, 0) + 1
    if span.last is not None:
        # A tool that has put several recordings together leaves one section, which names none of them.
        if span.section.recording is not None:
            span.missing += max(0, facts.sequence - span.last.facts.sequence - 1)
            summary.seconds += max(0, facts.mono_ns - span.last.facts.mono_ns) / 1e9
        summary.steps_back += time_ns < span.last.time_ns
