# SPDX-License-Identifier: MIT
"""The sentences: what a section of the report shows, said in words, and whether that is good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple, Optional

from . import answers, words
from .findings import Findings
from .thresholds import GREEN, LEVELS, RED, UNKNOWN, YELLOW


class Verdict(NamedTuple):
    """A sentence, how good what it says is (one of LEVELS), and the figures that it was judged by."""

    level: str
    text: str
    figures: dict[str, Any]


def worst(levels: list[str]) -> str:
    """Return the worst of some levels."""
    return max(levels, key=LEVELS.index, default=UNKNOWN)


def _judge(
    findings: Findings, verdict: str, text: str, measured: Mapping[str, Optional[float]], **more: Any
) -> Verdict:
    """Return a verdict on figures that have thresholds, None for those that are unknown; ``more`` are figures
    that have none.
    """
    limits = findings.thresholds.limits
    level = worst(
        [limits(verdict, figure).level(value) for figure, value in measured.items() if value is not None]
    )
    if level in (GREEN, UNKNOWN) and verdict != "recordings" and not findings.of_all["hours"]["rows"]:
        # Nothing happened because nothing was seen.
        return Verdict(UNKNOWN, "Nothing was recorded.", {**dict.fromkeys(measured), **more})
    return Verdict(level, text, {**measured, **more})


def recordings(findings: Findings) -> Verdict:
    """Are the recordings whole?"""
    files = findings.files["files"]
    ill = {health: count for health, count in findings.health.items() if health not in ("ok", "copy")}
    if not files:
        return Verdict(RED, "There are no recordings in this scope.", {"files": 0, "damaged_files": 0})
    text = f"All {words.count(files, 'recording is', 'recordings are')} whole."
    if ill:
        kinds = ", ".join(f"{count} {health}" for health, count in sorted(ill.items()))
        skipped = words.size(findings.files["skipped"])
        text = (
            f"Of {words.count(files, 'recording', 'recordings')}, {kinds}:"
            f" {skipped} could not be used, the rest was."
        )
    measured = {"damaged_files": sum(ill.values())}
    found = _judge(
        findings, "recordings", text, measured, files=files, skipped_bytes=findings.files["skipped"]
    )
    if findings.behind:
        steps = ", ".join(findings.behind)
        text += f" Other figures lack what is new: kbus-pipeline {steps} has not run since."
        found = found._replace(level=worst([found.level, YELLOW]), text=text)
    return found


def answering(findings: Findings) -> Verdict:
    """Do requests get replies?"""
    found = findings.all_outcomes
    failed = found["errors"] + found["status"] + found["unanswered"]
    known = failed + found["reply"]
    if not known:
        text = "Nobody has asked anything: there are no requests."
        return _judge(findings, "answers", text, {"failed": None}, requests=0)
    text = (
        f"Of {words.count(known, 'request', 'requests')}, {words.share(found['reply'] / known)} got a reply,"
        f" {words.count(found['errors'], 'an error', 'an error')},"
        f" {words.count(found['status'], 'a status in its place', 'a status in its place')}"
        f" and {words.number(found['unanswered'])} no answer at all."
    )
    unknown = found["incomplete"] + found["orphan"]
    if unknown:
        text += f" Of {words.number(unknown)} more the recording has only one half."
    return _judge(findings, "answers", text, {"failed": failed / known}, requests=known, **found)


def speed(findings: Findings) -> Verdict:
    """What is slow?"""
    if not findings.latency:
        return _judge(findings, "speed", "There are no replies to measure.", {"p99_s": None}, name=None)
    slowest = findings.latency[0]
    text = (
        f"The slowest name is {slowest['name']}: half of its replies come within"
        f" {words.duration(slowest['p50_ns'])},"
        f" one in a hundred later than {words.duration(slowest['p99_ns'])};"
        f" the longest took {words.duration(slowest['longest_ns'])}."
    )
    few = findings.thresholds.number("speed", "few_replies")
    p99_s: Optional[float] = slowest["p99_ns"] / 1e9
    if slowest["answers"] < few:
        text = (
            f"No name has {words.number(few)} replies, too few to judge by. {text[:-1]},"
            f" of {words.count(slowest['answers'], 'reply', 'replies')}."
        )
        p99_s = None
    elif findings.of_all["latency"]["few"]:
        names = words.count(findings.of_all["latency"]["few"], "name has", "names have")
        text += f" {names} fewer than {words.number(few)} replies, too few to judge by."
    return _judge(findings, "speed", text, {"p99_s": p99_s}, name=slowest["name"], replies=slowest["answers"])


def silence(findings: Findings) -> Verdict:
    """Who is silent?"""
    found = findings.of_all["devices"]
    since = words.duration(findings.thresholds.limits("silence", "behind_s").yellow * 1e9)
    text = f"No device is more than {since} behind the latest recording."
    longest = found["longest"]
    if found["silent"]:
        text = (
            f"{words.count(found['silent'], 'device was', 'devices were')} last heard"
            f" more than {since} before the latest"
            f" recording; {longest['device']} {words.duration(longest['behind_s'] * 1e9)} before it."
        )
    wrong = found["wrong_clocks"]
    if wrong:
        clocks = words.count(wrong, "device is", "devices are")
        text += f" The clock{'s' * (wrong > 1)} of {clocks} wrong: when"
        text += f" {'these were' if wrong > 1 else 'it was'} heard is not known."
    measured = {"behind_s": longest["behind_s"] if longest else 0.0, "wrong_clocks": wrong}
    return _judge(findings, "silence", text, measured, silent_devices=found["silent"])


def losses(findings: Findings) -> Verdict:
    """What was lost?"""
    lost, gaps = findings.losses["recorder_lost"], findings.losses["recording_gaps"]
    full = findings.totals["full_queues"]
    measured = {"lost_messages": lost, "holes": gaps, "refused_minutes": full}
    parts = []
    if lost:
        parts.append(f"recorders missed {words.count(lost, 'message', 'messages')}")
    if gaps:
        are = "is" if gaps == 1 else "are"
        parts.append(f"there {are} {words.count(gaps, 'hole', 'holes')} between recordings")
    if full:
        parts.append(f"in {words.count(full, 'minute', 'minutes')} messages were refused or went unseen")
    text = ", ".join(parts) or "no queue was full, and the recordings have no holes"
    return _judge(findings, "losses", f"{text[0].upper()}{text[1:]}.", measured)


def availability(findings: Findings) -> Verdict:
    """Were repliers there?"""
    found = findings.of_all["repliers"]
    away, left = found["away"], findings.of_all["crashes"]["requests"]
    text = "Every replier was there all the time."
    if not findings.repliers and not findings.crashes:
        text = "No replier came or went while this was recorded."
    if away:
        worst_one = findings.repliers[0]
        text = (
            f"{words.count(away, 'replier was', 'repliers were')} not there all the time;"
            f" {worst_one['name']} on {worst_one['device']} for {words.share(worst_one['bound'])} of it."
        )
    if findings.crashes:
        gone = findings.totals["crashes"]
        crashed = (
            f"{words.count(gone, 'replier', 'repliers')} left {words.count(left, 'request', 'requests')}"
            f" unanswered when {'it' if gone == 1 else 'they'} went."
        )
        text = f"{text} {crashed}" if away else crashed
    measured = {"away": found["longest_away"], "crashes": findings.totals["crashes"]}
    return _judge(findings, "repliers", text, measured, repliers_away=away, requests_left=left)


def change(findings: Findings) -> Verdict:
    """What changed?"""
    if not findings.odd:
        hours = findings.of_all["hours"]
        if not hours["rows"] or hours["last"] - hours["first"] < timedelta(days=answers.EARLIER_DAYS):
            text = f"There are not {answers.EARLIER_DAYS} earlier days to compare with."
            return _judge(findings, "changes", text, {"odd_hours": None})
        text = "No hour was unlike the same hour of earlier days, as far as there are enough of these."
        return _judge(findings, "changes", text, {"odd_hours": 0})
    row = findings.odd[0]
    more = "more" if row["deviations"] > 0 else "fewer"
    text = (
        f"{words.count(findings.totals['odd'], 'hour was', 'hours were')} unlike the same hour of earlier"
        " days. The oddest:"
        f" {row['device']} at {words.moment(row['period'])} sent {words.number(row['messages'])} messages"
        f" {row['name']}, {more} than the usual {words.number(row['usual'])}."
    )
    return _judge(findings, "changes", text, {"odd_hours": findings.totals["odd"]})


def traffic(findings: Findings) -> str:
    """How much is there?"""
    if not findings.names:
        return "There is no traffic in this scope."
    total = findings.of_all["hours"]["messages"]
    first = findings.names[0]
    return (
        f"{words.number(total)} messages of {words.count(findings.totals['names'], 'name', 'names')} in"
        f" {words.count(findings.totals['hours'], 'hour', 'hours')};"
        f" {words.share(first['messages'] / total)} of them are {first['name']}."
    )


def talking(findings: Findings) -> str:
    """Who talks most?"""
    if not findings.talkers:
        return "Nobody."
    first = findings.talkers[0]
    return (
        f"KSock {first['from']} on {first['device']} sends most:"
        f" {words.share(first['share'])} of the messages of its bus in this scope."
    )


def comparing(findings: Findings) -> str:
    """What is different?"""
    changed = findings.of_all["compared"]["changed"]
    if not changed:
        few = words.number(findings.thresholds.number("speed", "few_replies"))
        return f"No name has {few} replies on both sides, so latencies are not compared."
    return f"Latency changed most for {changed['name']}: p99 is {changed['times']:.3g} times what it was."


#: What the report begins with, in this order
AT_A_GLANCE: tuple[tuple[str, Callable[[Findings], Verdict]], ...] = (
    ("Recordings", recordings),
    ("Answers", answering),
    ("Speed", speed),
    ("Silence", silence),
    ("Losses", losses),
    ("Repliers", availability),
    ("Changes", change),
)
