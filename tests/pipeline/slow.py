# SPDX-License-Identifier: MIT
"""The answers, calculated the slow and obvious way in plain Python, from the same recordings.

Nothing here is shared with the pipeline but the reader of captures.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kbus import Message
from kbus import _abi as abi
from kbus._failed import FAILED
from kbus.capture import Reader

HOUR = 3600 * 10**9
MINUTE = 60 * 10**9
WITHIN = 60 * 10**9
Session = tuple[str, str]


@dataclass
class Heard:
    """A message as recorded."""

    session: Session
    time_ns: int
    mono_ns: int
    sequence: int
    lost: int
    message: Message

    @property
    def length(self) -> int:
        return len(self.message.data or b"")


@dataclass
class Asked:
    """A request or an answer without one, and what became of it."""

    session: Session
    name: str
    time_ns: int
    mono_ns: int
    outcome: str
    replier: int | None = None
    latency_ns: int | None = None


@dataclass
class Recordings:
    """All messages of some captures, those of a session in the order in which they were recorded."""

    heard: dict[Session, list[Heard]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Recordings:
        found = cls()
        for path in paths:
            with Reader(path, strict=False) as reader:
                for time_ns, message, findings in reader:
                    session = findings.section.info["device"], findings.section.info["boot_id"]
                    heard = Heard(
                        session, time_ns, findings.mono_ns, findings.sequence, findings.lost, message
                    )
                    found.heard[session].append(heard)
        for each in found.heard.values():
            each.sort(key=lambda one: one.sequence)
        return found

    def all(self) -> list[Heard]:
        return [each for session in self.heard.values() for each in session]

    def seconds(self) -> dict[str, float]:
        """By device: how long it was recorded without a hole."""
        total: dict[str, float] = defaultdict(float)
        for (device, _), heard in self.heard.items():
            for before, after in zip(heard, heard[1:]):
                if not is_hole(before, after):
                    total[device] += (after.mono_ns - before.mono_ns) / 1e9
        return total

    def conversations(self) -> list[Asked]:
        return [each for heard in self.heard.values() for each in _conversations(heard)]


def is_hole(before: Heard, after: Heard) -> bool:
    return after.sequence != before.sequence + 1 or after.lost != before.lost


def _conversations(heard: list[Heard]) -> list[Asked]:
    waiting: dict[tuple[int, int, int], list[Heard]] = defaultdict(list)
    found = []
    for each in heard:
        message = each.message
        if message.in_reply_to:
            key = (message.in_reply_to.network_id, message.in_reply_to.serial_num, message.to)
            asked = waiting[key]
            while asked and each.mono_ns - asked[0].mono_ns > WITHIN:
                found.append(_open(asked.pop(0), heard))
            if not asked:
                found.append(Asked(each.session, message.name, each.time_ns, each.mono_ns, "orphan"))
                continue
            request = asked.pop(0)
            failed = message.name == FAILED
            outcome = "status" if message.is_synthetic() else "failed" if failed else "reply"
            latency = each.mono_ns - request.mono_ns
            name = request.message.name
            found.append(
                Asked(each.session, name, request.time_ns, request.mono_ns, outcome, message.from_, latency)
            )
        elif message.is_request():
            assert message.id
            waiting[message.id.network_id, message.id.serial_num, message.from_].append(each)
    return found + [_open(each, heard) for asked in waiting.values() for each in asked]


def _open(request: Heard, heard: list[Heard]) -> Asked:
    until = request.mono_ns + WITHIN
    incomplete = heard[-1].mono_ns < until or any(
        is_hole(before, after) and before.mono_ns < until and after.mono_ns > request.mono_ns
        for before, after in zip(heard, heard[1:])
    )
    outcome = "incomplete" if incomplete else "unanswered"
    return Asked(request.session, request.message.name, request.time_ns, request.mono_ns, outcome)


def quantile(values: Iterable[int], q: float) -> int:
    """The value of rank ceil(q * n)."""
    ordered = sorted(values)
    return ordered[max(math.ceil(q * len(ordered)), 1) - 1]


def size_class(length: int) -> int:
    k = 0
    while length >= 2**k:
        k += 1
    return k


def unseen(heard: list[Heard]) -> dict[int, int]:
    """By minute, since 1970: serial numbers given and not seen."""
    if any(is_hole(before, after) for before, after in zip(heard, heard[1:])):
        return {}
    minutes: dict[int, list[int]] = defaultdict(list)
    # Counted on where they wrap: a serial is the nearest one to that before it.
    count, wrap = 0, 2**32 - 1
    for each in heard:
        assert each.message.id
        if not each.message.id.network_id:
            count += (each.message.id.serial_num - count + wrap // 2) % wrap - wrap // 2
            minutes[each.time_ns // MINUTE].append(count)
    found = {}
    before = None
    for minute in sorted(minutes, key=lambda each: max(minutes[each])):
        highest = max(minutes[minute])
        if before is not None and highest - before > len(minutes[minute]):
            found[minute] = highest - before - len(minutes[minute])
        before = highest
    return found


def odd_hours(
    counts: dict[tuple[str, str, int], int],
) -> dict[tuple[str, str, int], tuple[int, float, float]]:
    """Of messages by (device, name, hour since 1970): those that are odd; messages, usual, deviations."""
    recorded = sorted({(device, hour) for device, _, hour in counts})
    found = {}
    for device, name in {(device, name) for device, name, _ in counts}:
        hours = [hour for each, hour in recorded if each == device]
        for hour in hours:
            earlier = [
                counts.get((device, name, each), 0)
                for each in hours
                if each < hour and each % 24 == hour % 24
            ][-28:]
            if len(earlier) < 3:
                continue
            usual = statistics.median(earlier)
            spread = statistics.median(abs(each - usual) for each in earlier)
            deviation = max(1.4826 * spread, math.sqrt(usual), 1)
            messages = counts.get((device, name, hour), 0)
            if abs(messages - usual) / deviation > 4:
                found[device, name, hour] = (messages, usual, (messages - usual) / deviation)
    return found


#: Names of messages that tell of repliers that went with requests unanswered
LEFT = (abi.NAME_REPLIER_GONEAWAY, abi.NAME_REPLIER_IGNORED)
