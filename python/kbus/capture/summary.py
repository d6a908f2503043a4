# SPDX-License-Identifier: MIT
"""What is in a capture, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from .blocks import Damage
from .losses import Losses
from .reader import Reader, Record, Section


@dataclass
class Name:
    """The messages of one name."""

    messages: int = 0
    bytes: int = 0
    requests: int = 0
    replies: int = 0


@dataclass
class Summary:
    """Counts, span, names, losses and health of one capture.

    ``bytes`` are those of the messages, headers included. ``first_ns`` and ``last_ns`` are the earliest and
    the latest time (CLOCK_REALTIME), ``seconds`` how long it took by CLOCK_MONOTONIC, which nobody sets.
    ``lost`` is what the recorder's KSocks had lost at the end, as the statistics or else the last messages
    say. ``missing`` is how many sequence numbers are left out between the first and the last: what the
    recorder had, and the file has not. ``steps_back`` counts where the clock was set back. ``is_sealed``
    tells whether the last section has the statistics of all its interfaces. ``seconds``, ``lost`` and
    ``missing`` leave out sections that do not say what they are a recording of.
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


class _Span:
    """Where one section has come to."""

    def __init__(self) -> None:
        self.last: Optional[Record] = None
        self.losses = Losses()


def summarize(path: Path) -> Summary:
    """Read a capture, as far as it is undamaged. Raises OSError."""
    summary = Summary(path, path.stat().st_size)
    spans: dict[int, _Span] = {}
    with Reader(path, strict=False) as reader:
        for record in reader:
            span = spans.setdefault(record.facts.section.offset, _Span())
            _add(summary, span, record)
        summary.sections = [section.info for section in reader.sections]
        last = reader.sections[-1] if reader.sections else None
        summary.is_sealed = bool(last and last.interfaces) and not _unsealed(reader, reader.sections[-1])
        summary.damage = reader.damage
        summary.lost = sum(each.dropped for each in reader.statistics)
        for section in reader.sections:
            if section.offset in spans:
                buses = {section.interfaces[index].bus for index in _unsealed(reader, section)}
                summary.lost += sum(map(spans[section.offset].losses.of, buses))
    return summary


def _unsealed(reader: Reader, section: Section) -> list[int]:
    """The interfaces of a section that have no statistics."""
    sealed = {each.interface for each in reader.statistics if each.section is section}
    return [index for index in range(len(section.interfaces)) if index not in sealed]


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
    if facts.bus is not None:
        summary.buses[facts.bus] = summary.buses.get(facts.bus, 0) + 1
    span.losses.add(facts)
    if span.last is not None:
        # A tool that has put several recordings together leaves one section, which names none of them.
        if "recorder" in facts.section.info:
            summary.missing += max(0, facts.sequence - span.last.facts.sequence - 1)
            summary.seconds += max(0, facts.mono_ns - span.last.facts.mono_ns) / 1e9
        summary.steps_back += time_ns < span.last.time_ns
    span.last = record
