# SPDX-License-Identifier: MIT
"""The sections of the page: sentences, charts and tables about everything in the scope."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from . import answers, html, plots, verdicts, words
from .charts import chart
from .findings import DAYS, Findings, Row
from .html import Field


def traffic(findings: Findings) -> str:
    """What is sent, and by whom."""
    says = verdicts.traffic(findings)
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
        "rates", "Rates", says, chart("messages", findings.hours), _left_out(findings),
        html.table("Names with most messages", findings.names, names, findings.totals["names"]),
        "<h3>Top talkers</h3>", f"<p class='says'>{escape(verdicts.talking(findings))}</p>",
        html.table("KSocks that sent most", findings.talkers, talkers, findings.totals["talkers"]),
        _sizes(findings),
    )  # fmt: skip


def _sizes(findings: Findings) -> str:
    """Return the plot of sizes, in which those that nobody used have their place, too."""
    if not findings.sizes:
        return ""
    by_size = {row["size"]: row["messages"] for row in findings.sizes}
    first, last = min(by_size), max(by_size)
    values = [by_size.get(size, 0) for size in range(first, last + 1)]
    return f"<h3>Sizes of data</h3>{plots.bars(first, values, 'Messages by size of their data')}"


def _left_out(findings: Findings) -> str:
    """Return a sentence about the hours that the plot does not show, if there are any."""
    total, shown = findings.totals["hours"], len(findings.hours)
    if total == shown:
        return ""
    others = findings.of_all["hours"]["messages"] - sum(row["messages"] for row in findings.hours)
    return (
        f"<p class='more'>{shown:,} of {total:,} hours are shown, the {DAYS} days up to the latest;"
        f" {words.count(others, 'message is', 'messages are')} of others, or of clocks that are wrong.</p>"
    )


def latency(findings: Findings) -> str:
    """How long replies take."""
    says = verdicts.speed(findings).text
    plot = ""
    if findings.latency:
        labels = [_marked(findings, row) for row in findings.latency]
        spans = [(row["p50_ns"], row["p90_ns"], row["p99_ns"]) for row in findings.latency]
        plot = plots.spans(labels, spans, "Latency by name: half, nine in ten, 99 in 100 of the replies")
        plot += (
            "<p class='more'>Within these times came: (dot) half of the replies, (bar) nine in ten,"
            f" (diamond) 99 in a hundred.{_few(findings)}</p>"
        )
    fields = [
        Field("name", lambda row: escape(_marked(findings, row))),
        html.number("replies", "answers"),
        html.time("p50", "p50_ns"),
        html.time("p90", "p90_ns"),
        html.time("p99", "p99_ns"),
        html.time("mean", "mean_ns"),
        html.time("longest", "longest_ns"),
    ]
    return html.section(
        "latency", "Latency", says, chart("latency", findings.hours), plot,
        html.table("The slowest names", findings.latency, fields, findings.totals["latency"]),
    )  # fmt: skip


def _marked(findings: Findings, row: Row) -> str:
    """Return a name, with a mark if it has too few replies."""
    return (
        f"{row['name']} *"
        if row["answers"] < findings.thresholds.number("speed", "few_replies")
        else row["name"]
    )


def _few(findings: Findings) -> str:
    few = words.number(findings.thresholds.number("speed", "few_replies"))
    return (
        f" Names with * have fewer than {few} replies, and come last."
        if findings.of_all["latency"]["few"]
        else ""
    )


def silence(findings: Findings) -> str:
    """What was not answered, and who is not heard."""
    found = (verdicts.answering(findings).text, verdicts.silence(findings).text)
    # Once, if there is nothing to say of either.
    says = " ".join(dict.fromkeys(found))
    fields = [
        html.text("name", "name"),
        *(html.number(column, column) for column in answers.OUTCOMES.values()),
        html.share("failed", "failed"),
    ]
    return html.section(
        "silence", "Silence", says, chart("failures", findings.hours),
        html.table("How requests ended, by name", findings.outcomes, fields, findings.totals["outcomes"]),
    )  # fmt: skip


def losses(findings: Findings) -> str:
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
    parts = [chart("losses", findings.hours)]
    if findings.listeners:
        table = html.table(
            "Recorders that missed messages", findings.listeners, listeners, findings.totals["listeners"]
        )
        parts += ["<h3>Recorders too slow</h3>", table]
    if findings.backlogs:
        table = html.table(
            "Repliers with most requests waiting", findings.backlogs, backlogs, findings.totals["backlogs"]
        )
        parts += ["<h3>Longest queues</h3>", table]
    if findings.full_queues:
        table = html.table(
            "Minutes with most serial numbers unseen",
            findings.full_queues,
            full,
            findings.totals["full_queues"],
        )
        parts += ["<h3>Refused or unseen</h3>", table]
    return html.section("losses", "Losses", verdicts.losses(findings).text, *parts)


def repliers(findings: Findings) -> str:
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
            findings.repliers,
            fields,
            findings.totals["repliers"],
        )
    ]
    if findings.crashes:
        parts += [
            "<h3>Went with requests unanswered</h3>",
            html.table(
                "Repliers that left most requests", findings.crashes, crashes, findings.totals["crashes"]
            ),
        ]
    return html.section("repliers", "Repliers", verdicts.availability(findings).text, *parts)


def odd(findings: Findings) -> str:
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
        verdicts.change(findings).text,
        html.table("The oddest hours", findings.odd, fields, findings.totals["odd"]),
    )


def compared(findings: Findings) -> str:
    """What two scopes have in common, and not; nothing if there are no two."""
    if not findings.compare:
        return ""
    before, after = findings.compare

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
        "comparison", "Before and after", verdicts.comparing(findings), sides,
        html.table("Names, before and after", findings.compared, fields, findings.totals["compared"]),
    )  # fmt: skip


#: The sections in their order; one that is empty is left out
ALL: tuple[Callable[[Findings], str], ...] = (traffic, latency, silence, losses, repliers, odd, compared)
