# SPDX-License-Identifier: MIT
"""The sections of the page: sentences, charts and tables about everything in the scope."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from kbus.pipeline import answers

from . import html, plots, verdicts, words
from .charts import chart
from .facts import DAYS, Facts, Row
from .html import Field


def traffic(facts: Facts) -> str:
    """What is sent, and by whom."""
    says = verdicts.traffic(facts)
    names = [
        html.text("name", "name"),
        html.number("messages", "messages"),
        html.size("data", "bytes"),
        html.number("devices", "devices"),
    ]
    talkers = [
        html.text("device", "device"),
        html.text("bus", "bus"),
        html.text("KSock", "from"),
        html.number("messages", "messages"),
        html.share("share of its bus", "share"),
    ]
    return html.section(
        "rates", "Rates", says, chart("messages", facts.hours), _left_out(facts),
        html.table("Names with most messages", facts.names, names, facts.totals["names"]),
        "<h3>Top talkers</h3>", f"<p class='says'>{escape(verdicts.talking(facts))}</p>",
        html.table("KSocks that sent most", facts.talkers, talkers, facts.totals["talkers"]),
        _sizes(facts),
    )  # fmt: skip


def _sizes(facts: Facts) -> str:
    """Return the plot of sizes, in which those that nobody used have their place, too."""
    if not facts.sizes:
        return ""
    by_size = {row["size"]: row["messages"] for row in facts.sizes}
    first, last = min(by_size), max(by_size)
    values = [by_size.get(size, 0) for size in range(first, last + 1)]
    return f"<h3>Sizes of data</h3>{plots.bars(first, values, 'Messages by size of their data')}"


def _left_out(facts: Facts) -> str:
    """Return a sentence about the hours that the plot does not show, if there are any."""
    total, shown = facts.totals["hours"], len(facts.hours)
    if total == shown:
        return ""
    others = facts.of_all["hours"]["messages"] - sum(row["messages"] for row in facts.hours)
    return (
        f"<p class='more'>{shown:,} of {total:,} hours are shown, the {DAYS} days up to the latest;"
        f" {words.count(others, 'message is', 'messages are')} of others, or of clocks that are wrong.</p>"
    )


def latency(facts: Facts) -> str:
    """How long replies take."""
    says = verdicts.speed(facts).text
    plot = ""
    if facts.latency:
        labels = [_marked(facts, row) for row in facts.latency]
        spans = [(row["p50_ns"], row["p90_ns"], row["p99_ns"]) for row in facts.latency]
        plot = plots.spans(labels, spans, "Latency by name: half, nine in ten, 99 in 100 of the replies")
        plot += (
            "<p class='more'>Within these times came: (dot) half of the replies, (bar) nine in ten,"
            f" (diamond) 99 in a hundred.{_few(facts)}</p>"
        )
    fields = [
        Field("name", lambda row: escape(_marked(facts, row))),
        html.number("replies", "answers"),
        html.time("p50", "p50_ns"),
        html.time("p90", "p90_ns"),
        html.time("p99", "p99_ns"),
        html.time("mean", "mean_ns"),
        html.time("longest", "longest_ns"),
    ]
    return html.section(
        "latency", "Latency", says, chart("latency", facts.hours), plot,
        html.table("The slowest names", facts.latency, fields, facts.totals["latency"]),
    )  # fmt: skip


def _marked(facts: Facts, row: Row) -> str:
    """Return a name, with a mark if it has too few replies."""
    return (
        f"{row['name']} *"
        if row["answers"] < facts.thresholds.number("speed", "few_replies")
        else row["name"]
    )


def _few(facts: Facts) -> str:
    few = words.number(facts.thresholds.number("speed", "few_replies"))
    return (
        f" Names with * have fewer than {few} replies, and come last."
        if facts.of_all["latency"]["few"]
        else ""
    )


def silence(facts: Facts) -> str:
    """What was not answered, and who is not heard."""
    says = f"{verdicts.answering(facts).text} {verdicts.silence(facts).text}"
    fields = [
        html.text("name", "name"),
        *(html.number(column, column) for column in answers.OUTCOMES.values()),
        html.share("failed", "failed"),
    ]
    return html.section(
        "silence", "Silence", says, chart("failures", facts.hours),
        html.table("How requests ended, by name", facts.outcomes, fields, facts.totals["outcomes"]),
    )  # fmt: skip


def losses(facts: Facts) -> str:
    """What was lost, and where it was slow."""
    listeners = [
        html.text("device", "device"),
        html.text("bus", "bus"),
        html.number("times full", "episodes"),
        html.number("messages lost", "messages"),
    ]
    full = [
        html.text("device", "device"),
        html.text("bus", "bus"),
        html.moment("minute", "period"),
        html.number("serial numbers unseen", "unseen"),
    ]
    backlogs = [
        html.text("device", "device"),
        html.text("bus", "bus"),
        html.text("replier", "replier"),
        html.number("requests waiting at a time", "waiting"),
    ]
    parts = [chart("losses", facts.hours)]
    if facts.listeners:
        table = html.table(
            "Recorders that missed messages", facts.listeners, listeners, facts.totals["listeners"]
        )
        parts += ["<h3>Recorders too slow</h3>", table]
    if facts.backlogs:
        table = html.table(
            "Repliers with most requests waiting", facts.backlogs, backlogs, facts.totals["backlogs"]
        )
        parts += ["<h3>Longest queues</h3>", table]
    if facts.full_queues:
        table = html.table(
            "Minutes with most serial numbers unseen", facts.full_queues, full, facts.totals["full_queues"]
        )
        parts += ["<h3>Refused or unseen</h3>", table]
    return html.section("losses", "Losses", verdicts.losses(facts).text, *parts)


def repliers(facts: Facts) -> str:
    """Who was there to reply."""
    fields = [
        html.text("device", "device"),
        html.text("bus", "bus"),
        html.text("name", "name"),
        html.share("there", "bound"),
        html.number("went", "outages"),
    ]
    crashes = [
        html.text("device", "device"),
        html.text("bus", "bus"),
        html.text("KSock", "ksock"),
        html.moment("when", "ts"),
        html.number("requests left", "requests"),
    ]
    parts = [
        html.table(
            "Names that were bound, those that were away longest first",
            facts.repliers,
            fields,
            facts.totals["repliers"],
        )
    ]
    if facts.crashes:
        parts += [
            "<h3>Went with requests unanswered</h3>",
            html.table("Repliers that left most requests", facts.crashes, crashes, facts.totals["crashes"]),
        ]
    return html.section("repliers", "Repliers", verdicts.availability(facts).text, *parts)


def odd(facts: Facts) -> str:
    """What is unlike earlier days."""
    fields = [
        html.text("device", "device"),
        html.text("name", "name"),
        html.moment("hour", "period"),
        html.number("messages", "messages"),
        html.number("usual", "usual"),
        Field("deviations", lambda row: f"{row['deviations']:+.1f}"),
    ]
    return html.section(
        "anomalies",
        "Anomalies",
        verdicts.change(facts).text,
        html.table("The oddest hours", facts.odd, fields, facts.totals["odd"]),
    )


def compared(facts: Facts) -> str:
    """What two scopes have in common, and not; nothing if there are no two."""
    if not facts.compare:
        return ""
    before, after = facts.compare

    def both(title: str, key: str, show: Callable[[Any], str]) -> Field:
        def shown(row: Row) -> str:
            one, other = row[f"{key}_before"], row[f"{key}_after"]
            return f"{show(one)} → {show(other)} <small>{words.ratio(one, other)}</small>"

        # By how many times as much it is now.
        return Field(title, shown, lambda row: words.times(row[f"{key}_before"], row[f"{key}_after"]))

    fields = [
        html.text("name", "name"),
        both("messages a second", "rate", words.rate),
        both("p50", "p50_ns", words.duration),
        both("p99", "p99_ns", words.duration),
        both("failed", "failed", words.share),
    ]
    sides = f"<p class='more'>Before: {escape(str(before))}. After: {escape(str(after))}.</p>"
    return html.section(
        "comparison", "Before and after", verdicts.comparing(facts), sides,
        html.table("Names, before and after", facts.compared, fields, facts.totals["compared"]),
    )  # fmt: skip


#: The sections in their order; one that is empty is left out
ALL: tuple[Callable[[Facts], str], ...] = (traffic, latency, silence, losses, repliers, odd, compared)
