# SPDX-License-Identifier: MIT
"""The page: sections of HTML around tables, plots and sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from kbus.pipeline import answers, sketch

from . import plots, verdicts, words
from .facts import DAYS, MOST_DEVICES, Facts, Row
from .style import STYLE

#: How a column is headed, and what it says of a row
Field = tuple[str, Callable[[Row], str]]


def page(facts: Facts) -> str:
    """Return the report."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>KBUS: {escape(str(facts.scope))}</title><style>{STYLE}</style></head><body>",
        f"<h1>How is the bus?</h1><p class='scope'>{_headline(facts)}</p>",
        _glance(facts),
        _traffic(facts),
        _latency(facts),
        _silence(facts),
        _losses(facts),
        _repliers(facts),
        _odd(facts),
        _compared(facts) if facts.compare else "",
        _devices(facts),
        _notes(),
        "</body></html>",
    ]
    return "\n".join(parts)


def _headline(facts: Facts) -> str:
    files = facts.files
    span = ""
    if facts.hours:
        first, last = (words.moment(facts.of_all["hours"][key]) for key in ("first", "last"))
        span = f", {first} to {last} UTC"
    return (
        f"{escape(str(facts.scope))}: {words.count(files['messages'], 'message', 'messages')} of"
        f" {words.count(facts.totals['devices'], 'device', 'devices')}, from"
        f" {words.count(files['files'], 'file', 'files')} of {words.size(files['size'])}{span}."
    )


def _section(name: str, title: str, says: str, *parts: str) -> str:
    return (
        f'<section id="{name}"><h2>{title}</h2><p class="says">{escape(says)}</p>{"".join(parts)}</section>'
    )


def _table(rows: Sequence[Row], fields: Sequence[Field], total: int) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(title)}</th>" for title, _ in fields)
    body = "".join(f"<tr>{''.join(f'<td>{value(row)}</td>' for _, value in fields)}</tr>" for row in rows)
    more = f"<p class='more'>{len(rows)} of {total:,} are shown.</p>" if total > len(rows) else ""
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"


def _text(key: str) -> Callable[[Row], str]:
    return lambda row: escape(str(row[key]))


def _number(key: str) -> Callable[[Row], str]:
    return lambda row: words.number(row[key])


def _time(key: str) -> Callable[[Row], str]:
    return lambda row: words.duration(row[key])


def _share(key: str) -> Callable[[Row], str]:
    return lambda row: words.share(row[key])


def _moment(key: str) -> Callable[[Row], str]:
    return lambda row: words.moment(row[key])


def _glance(facts: Facts) -> str:
    items = []
    for title, judge in verdicts.AT_A_GLANCE:
        level, text = judge(facts)
        items.append(f'<li class="{level}"><b>{title}</b> <span>{escape(text)}</span></li>')
    return (
        f'<section id="health"><h2>Health at a glance</h2><ul class="glance">{"".join(items)}</ul></section>'
    )


def _traffic(facts: Facts) -> str:
    says = verdicts.traffic(facts).text
    plot = ""
    if facts.hours:
        times = [row["period"] for row in facts.hours]
        plot = plots.over_time(
            times, [row["messages"] for row in facts.hours], "messages an hour", "Messages by hour"
        )
        plot += _left_out(facts)
    names: list[Field] = [
        ("name", _text("name")),
        ("messages", _number("messages")),
        ("data", lambda row: words.size(row["bytes"])),
        ("devices", _number("devices")),
    ]
    talkers: list[Field] = [
        ("device", _text("device")),
        ("bus", _text("bus")),
        ("KSock", _text("from")),
        ("messages", _number("messages")),
        ("share of its bus", _share("share")),
    ]
    labels = [_size_class(row["size"]) for row in facts.sizes]
    sizes = (
        plots.bars(labels, [row["messages"] for row in facts.sizes], "messages", "Sizes of data")
        if labels
        else ""
    )
    return _section(
        "rates", "Rates", says, plot, _table(facts.names, names, facts.totals["names"]),
        "<h3>Top talkers</h3>", f"<p class='says'>{escape(verdicts.talking(facts))}</p>",
        _table(facts.talkers, talkers, facts.totals["talkers"]),
        "<h3>Sizes of data</h3>", sizes,
    )  # fmt: skip


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


def _size_class(size: int) -> str:
    return "0" if size == 0 else words.size(2 ** (size - 1)).replace(" ", "\N{NO-BREAK SPACE}")


def _latency(facts: Facts) -> str:
    says = verdicts.speed(facts).text
    plot = ""
    if facts.latency:
        labels = [row["name"] for row in facts.latency]
        spans = [(row["p50_ns"], row["p90_ns"], row["p99_ns"]) for row in facts.latency]
        plot = plots.spans(
            labels, spans, "Latency by name: half, nine in ten, 99 in a hundred of the replies"
        )
        plot += (
            "<p class='more'>Within these times came: (dot) half of the replies, (bar) nine in ten,"
            " (diamond) 99 in a hundred.</p>"
        )
    fields: list[Field] = [
        ("name", _text("name")),
        ("replies", _number("answers")),
        ("p50", _time("p50_ns")),
        ("p90", _time("p90_ns")),
        ("p99", _time("p99_ns")),
        ("mean", _time("mean_ns")),
        ("longest", _time("longest_ns")),
    ]
    return _section("latency", "Latency", says, plot, _table(facts.latency, fields, facts.totals["latency"]))


def _silence(facts: Facts) -> str:
    says = f"{verdicts.answering(facts).text} {verdicts.silence(facts).text}"
    kinds = ("reply", "status", "unanswered", "incomplete", "orphan")
    fields: list[Field] = [
        ("name", _text("name")),
        *((kind, _number(kind)) for kind in kinds),
        ("failed", _share("failed")),
    ]
    return _section("silence", "Silence", says, _table(facts.outcomes, fields, facts.totals["outcomes"]))


def _losses(facts: Facts) -> str:
    listeners: list[Field] = [
        ("device", _text("device")),
        ("bus", _text("bus")),
        ("times full", _number("episodes")),
        ("messages lost", _number("messages")),
    ]
    full: list[Field] = [
        ("device", _text("device")),
        ("bus", _text("bus")),
        ("minute", _moment("period")),
        ("serial numbers unseen", _number("unseen")),
    ]
    backlogs: list[Field] = [
        ("device", _text("device")),
        ("bus", _text("bus")),
        ("replier", _text("replier")),
        ("requests waiting at a time", _number("waiting")),
    ]
    parts = []
    if facts.listeners:
        table = _table(facts.listeners, listeners, facts.totals["listeners"])
        parts += ["<h3>Recorders too slow</h3>", table]
    if facts.backlogs:
        parts += ["<h3>Longest queues</h3>", _table(facts.backlogs, backlogs, facts.totals["backlogs"])]
    if facts.full_queues:
        parts += ["<h3>Refused or unseen</h3>", _table(facts.full_queues, full, facts.totals["full_queues"])]
    return _section("losses", "Losses", verdicts.losses(facts).text, *parts)


def _repliers(facts: Facts) -> str:
    fields: list[Field] = [
        ("device", _text("device")),
        ("bus", _text("bus")),
        ("name", _text("name")),
        ("there", _share("bound")),
        ("went", _number("outages")),
    ]
    crashes: list[Field] = [
        ("device", _text("device")),
        ("bus", _text("bus")),
        ("KSock", _text("ksock")),
        ("when", _moment("ts")),
        ("requests left", _number("requests")),
    ]
    parts = [_table(facts.repliers, fields, facts.totals["repliers"])]
    if facts.crashes:
        parts += [
            "<h3>Went with requests unanswered</h3>",
            _table(facts.crashes, crashes, facts.totals["crashes"]),
        ]
    return _section("repliers", "Repliers", verdicts.availability(facts).text, *parts)


def _odd(facts: Facts) -> str:
    fields: list[Field] = [
        ("device", _text("device")),
        ("name", _text("name")),
        ("hour", _moment("period")),
        ("messages", _number("messages")),
        ("usual", _number("usual")),
        ("deviations", lambda row: f"{row['deviations']:+.1f}"),
    ]
    return _section(
        "anomalies", "Anomalies", verdicts.change(facts).text, _table(facts.odd, fields, facts.totals["odd"])
    )


def _compared(facts: Facts) -> str:
    assert facts.compare
    before, after = facts.compare

    def both(key: str, show: Callable[[Any], str]) -> Callable[[Row], str]:
        return lambda row: (
            f"{show(row[f'{key}_before'])} → {show(row[f'{key}_after'])}"
            f" <small>{words.ratio(row[f'{key}_before'], row[f'{key}_after'])}</small>"
        )

    fields: list[Field] = [
        ("name", _text("name")),
        ("messages a second", both("rate", words.rate)),
        ("p50", both("p50_ns", words.duration)),
        ("p99", both("p99_ns", words.duration)),
        ("failed", both("failed", words.share)),
    ]
    sides = f"<p class='more'>Before: {escape(str(before))}. After: {escape(str(after))}.</p>"
    return _section(
        "comparison", "Before and after", verdicts.comparing(facts), sides,
        _table(facts.compared, fields, facts.totals["compared"]),
    )  # fmt: skip


def _devices(facts: Facts) -> str:
    by_device: dict[str, dict[Any, int]] = {}
    for row in facts.device_hours:
        by_device.setdefault(row["device"], {})[row["period"]] = row["messages"]
    hours = [row["period"] for row in facts.hours]

    def line(row: Row) -> str:
        values = [by_device.get(row["device"], {}).get(hour, 0) for hour in hours]
        return plots.spark_line(values, f"Messages of {escape(row['device'])} by hour")

    def heard(row: Row) -> str:
        return words.moment(row["last_ts"]) + " (its clock is wrong)" * (row["is_clock_right"] is False)

    fields: list[Field] = [
        ("device", _text("device")),
        ("by hour", line),
        ("messages", _number("messages")),
        ("a second", lambda row: words.rate(row["messages"] / row["seconds"] if row["seconds"] else None)),
        ("p50", _time("p50_ns")),
        ("p99", _time("p99_ns")),
        ("failed", _share("failed")),
        ("lost", _number("lost")),
        ("crashes", _number("crashes")),
        ("last heard", heard),
    ]
    shown = len(facts.devices)
    says = f"{words.count(facts.totals['devices'], 'device', 'devices')}, those with most trouble first."
    if facts.totals["devices"] > shown:
        says += f" Here are {MOST_DEVICES}; --scope device=NAME tells of one."
    return _section(
        "devices", "Device by device", says, _table(facts.devices, fields, facts.totals["devices"])
    )


def _notes() -> str:
    return (
        "<footer><p>Times are UTC as the devices' clocks had it; latencies are from their monotonic"
        " clocks, seen by the recorder."
        f" Quantiles are within {sketch.ERROR:.0%} of the exact ones. Failed are requests"
        " that got a status or no answer, of those of which the recording tells. An hour is odd"
        f" if it is more than {answers.ODD:g} deviations from the median of the same hour"
        f" of at least {answers.EARLIER_DAYS} earlier days.</p></footer>"
    )
