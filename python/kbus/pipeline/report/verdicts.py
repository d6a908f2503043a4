# SPDX-License-Identifier: MIT
"""The sentences: what a section of the report shows, said in words, and whether that is good."""

from __future__ import annotations

from typing import NamedTuple

from . import words
from .facts import Facts

GOOD, WATCH, BAD = "good", "watch", "bad"
#: Share of requests that failed from which on it is to be watched, and bad
_FAILED = (0.01, 0.05)


class Verdict(NamedTuple):
    """A sentence, and how good what it says is: GOOD, WATCH or BAD."""

    level: str
    text: str


def recordings(facts: Facts) -> Verdict:
    """Are the recordings whole?"""
    files = facts.files["files"]
    ill = {health: count for health, count in facts.health.items() if health not in ("ok", "copy")}
    if not files:
        return Verdict(BAD, "There are no recordings in this scope.")
    if not ill:
        return Verdict(GOOD, f"All {words.count(files, 'recording is', 'recordings are')} whole.")
    kinds = ", ".join(f"{count} {health}" for health, count in sorted(ill.items()))
    skipped = words.size(facts.files["skipped"])
    return Verdict(
        WATCH,
        f"Of {words.count(files, 'recording', 'recordings')}, {kinds}:"
        f" {skipped} could not be used, the rest was.",
    )


def answering(facts: Facts) -> Verdict:
    """Do requests get replies?"""
    found = facts.all_outcomes
    failed = found["status"] + found["unanswered"]
    known = failed + found["reply"]
    if not known:
        return Verdict(GOOD, "Nobody has asked anything: there are no requests.")
    part = failed / known
    level = GOOD if part < _FAILED[0] else WATCH if part < _FAILED[1] else BAD
    text = (
        f"Of {words.count(known, 'request', 'requests')}, {words.share(found['reply'] / known)} got a reply,"
        f" {words.count(found['status'], 'a status in its place', 'a status in its place')}"
        f" and {words.number(found['unanswered'])} no answer at all."
    )
    unknown = found["incomplete"] + found["orphan"]
    if unknown:
        text += f" Of {words.number(unknown)} more the recording has only one half."
    return Verdict(level, text)


def speed(facts: Facts) -> Verdict:
    """What is slow?"""
    if not facts.latency:
        return Verdict(GOOD, "There are no replies to measure.")
    slowest = facts.latency[0]
    text = (
        f"The slowest name is {slowest['name']}: half of its replies come within"
        f" {words.duration(slowest['p50_ns'])},"
        f" one in a hundred later than {words.duration(slowest['p99_ns'])};"
        f" the longest took {words.duration(slowest['longest_ns'])}."
    )
    return Verdict(WATCH if slowest["p99_ns"] > 1e9 else GOOD, text)


def silence(facts: Facts) -> Verdict:
    """Who is silent?"""
    found = facts.of_all["devices"]
    text = "No device is more than an hour behind the latest recording."
    if found["silent"]:
        longest = found["longest"]
        text = (
            f"{words.count(found['silent'], 'device was', 'devices were')} last heard"
            " more than an hour before the latest"
            f" recording; {longest['device']} {words.duration(longest['behind_s'] * 1e9)} before it."
        )
    wrong = found["wrong_clocks"]
    if wrong:
        clocks = words.count(wrong, "device is", "devices are")
        text += f" The clock{'s' * (wrong > 1)} of {clocks} wrong: when"
        text += f" {'these were' if wrong > 1 else 'it was'} heard is not known."
    return Verdict(WATCH if found["silent"] or wrong else GOOD, text)


def losses(facts: Facts) -> Verdict:
    """What was lost?"""
    lost, gaps = facts.losses["recorder_lost"], facts.losses["recording_gaps"]
    full = facts.totals["full_queues"]
    if not lost and not gaps and not full:
        return Verdict(GOOD, "No queue was full, and the recordings have no holes.")
    parts = []
    if lost:
        parts.append(f"recorders missed {words.count(lost, 'message', 'messages')}")
    if gaps:
        parts.append(f"there are {words.count(gaps, 'hole', 'holes')} between recordings")
    if full:
        parts.append(f"in {words.count(full, 'minute', 'minutes')} messages were refused or went unseen")
    text = ", ".join(parts)
    return Verdict(WATCH, f"{text[0].upper()}{text[1:]}.")


def availability(facts: Facts) -> Verdict:
    """Were repliers there?"""
    if not facts.repliers and not facts.crashes:
        return Verdict(GOOD, "No replier came or went while this was recorded.")
    away = facts.of_all["repliers"]["away"]
    text = "Every replier was there all the time."
    if away:
        worst = facts.repliers[0]
        text = (
            f"{words.count(away, 'replier was', 'repliers were')} not there all the time;"
            f" {worst['name']} on {worst['device']} for {words.share(worst['bound'])} of it."
        )
    if facts.crashes:
        left = facts.of_all["crashes"]["requests"]
        text += (
            f" {words.count(facts.totals['crashes'], 'replier', 'repliers')} left"
            f" {words.count(left, 'request', 'requests')} unanswered when they went."
        )
    return Verdict(BAD if facts.crashes else WATCH if away else GOOD, text)


def change(facts: Facts) -> Verdict:
    """What changed?"""
    if not facts.odd:
        return Verdict(
            GOOD, "No hour was unlike the same hour of earlier days, as far as there are enough of these."
        )
    row = facts.odd[0]
    more = "more" if row["deviations"] > 0 else "fewer"
    text = (
        f"{words.count(facts.totals['odd'], 'hour was', 'hours were')} unlike the same hour of earlier days."
        " The oddest:"
        f" {row['device']} at {words.moment(row['period'])} sent {words.number(row['messages'])} messages"
        f" {row['name']}, {more} than the usual {words.number(row['usual'])}."
    )
    return Verdict(WATCH, text)


def traffic(facts: Facts) -> Verdict:
    """How much is there?"""
    if not facts.names:
        return Verdict(WATCH, "There is no traffic in this scope.")
    total = facts.of_all["hours"]["messages"]
    first = facts.names[0]
    return Verdict(
        GOOD,
        f"{words.number(total)} messages of {words.count(facts.totals['names'], 'name', 'names')} in"
        f" {words.count(facts.totals['hours'], 'hour', 'hours')};"
        f" {words.share(first['messages'] / total)} of them are {first['name']}.",
    )


def talking(facts: Facts) -> str:
    """Who talks most?"""
    if not facts.talkers:
        return "Nobody."
    first = facts.talkers[0]
    return (
        f"KSock {first['from']} on {first['device']} sends most:"
        f" {words.share(first['share'])} of the messages of its bus since recording began."
    )


def comparing(facts: Facts) -> str:
    """What is different?"""
    changed = facts.of_all["compared"]["changed"]
    if not changed:
        return "There are no replies on both sides to compare."
    return f"Latency changed most for {changed['name']}: p99 is {changed['times']:.3g} times what it was."


#: What the report begins with, in this order
AT_A_GLANCE = (
    ("Recordings", recordings),
    ("Answers", answering),
    ("Speed", speed),
    ("Silence", silence),
    ("Losses", losses),
    ("Repliers", availability),
    ("Changes", change),
)
