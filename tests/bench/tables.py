# SPDX-License-Identifier: MIT
"""The rst tables of what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from .cases import (
    BINDINGS,
    BRIDGE_FANS,
    BRIDGE_ROUND_TRIP,
    BRIDGE_STUCK,
    BROKERS,
    DAMAGE,
    FANS,
    IN_PYTHON,
    ONE_A_CALL,
    OTHERS,
    PYTHON,
    READ,
    ROUND_TRIP,
    SCHEDULERS,
    SEND,
    SEND_UNDISTURBED,
    SENDERS,
    SIZES,
    STEADY,
    SUBSCRIPTIONS,
    TITLES,
    UNDISTURBED,
    among,
    bound,
    bridge_among,
    bridge_to,
    many_to_one,
    one_to_many,
    one_to_one,
)
from .goals import BRIDGE_GOALS, GOALS, Goal, Results, Which, case_figure, median, ratio

MOST_FUNCTIONS = 15
Row = Sequence[str]
NOTHING = "\\-"
HEAD = ".. SPDX-License-Identifier: MIT\n.. Made by `make bench`.\n\n"


def table(header: Row, rows: Sequence[Row], widths: Sequence[int]) -> str:
    """A list-table with these widths, in percent."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", ""]
    for first, *others in (header, *rows):
        lines += [f"   * - {first}".rstrip(), *(f"     - {cell}".rstrip() for cell in others)]
    return HEAD + "\n".join(lines) + "\n"


def goals(results: Results, by_instructions: Results) -> str:
    """Each goal, the figure, and whether it is met; and the figure where the clock counts instructions."""
    return _judged(GOALS, results, by_instructions)


def bridge_goals(results: Results, by_instructions: Results) -> str:
    """The same for the goals of the sbus bridge."""
    return _judged(BRIDGE_GOALS, results, by_instructions)


def _judged(wanted: Sequence[Goal], results: Results, by_instructions: Results) -> str:
    rows = []
    for goal in wanted:
        figure, counted = (ratio(each, goal.of, goal.to) for each in (results, by_instructions))
        met = NOTHING if figure is None else "yes" if goal.is_met(figure) else "**no**"
        shown = [NOTHING if each is None else f"{each:.2f}" for each in (figure, counted)]
        rows.append((goal.title, goal.says(), shown[0], met, shown[1]))
    return table(("ratio", "goal", "measured", "met", "by instructions"), rows, (52, 10, 12, 10, 16))


def bridge(results: Results) -> str:
    """Clients of the bridge beside raw sockets and brokers: deliveries a second, and round trips."""
    rows = []
    for name in ("sbus", "seqpacket", *BROKERS):
        fans = [_cell(results, bridge_to(count), name) for count in BRIDGE_FANS]
        time = median(results, Which(BRIDGE_ROUND_TRIP, name, "p50"))
        rows.append((TITLES[name], *fans, NOTHING if time is None else f"{time / 1000:,.0f}"))
    header = ("deliveries a second", *(f"one to {count}" for count in BRIDGE_FANS), "round trip, µs")
    return table(header, rows, (36, 17, 17, 16, 14))


def bridge_round_trips(results: Results) -> str:
    """Round trips to oneself, while others have subscriptions, or do not read; in microseconds."""
    rows = []
    for title in (BRIDGE_ROUND_TRIP, BRIDGE_STUCK, *map(bridge_among, SUBSCRIPTIONS)):
        times = [median(results, Which(title, "sbus", figure)) for figure in ("p50", "p99")]
        shown = [NOTHING if time is None else f"{time / 1000:,.0f}" for time in times]
        rows.append((title.removeprefix("bridge: "), *shown))
    return table(("microseconds", "p50", "p99"), rows, (60, 20, 20))


def _cell(results: Results, case: str, transport: str) -> str:
    """The figure, and its ratio to that of SEQPACKET."""
    which = Which(case, transport, case_figure(case))
    figure = median(results, which)
    if figure is None:
        return NOTHING
    share = ratio(results, which, Which(case, "seqpacket", which.figure))
    return f"{figure:,.0f}" + (f" ({share:.2f})" if share is not None and transport != "seqpacket" else "")


def _by_transport(results: Results, titles: Mapping[str, str], first: int) -> str:
    """A row for each transport, and a column for each of the cases, by what is its header."""
    measured = [name for name in TITLES if any(results.get(case, {}).get(name) for case in titles.values())]
    rows = [(TITLES[name], *(_cell(results, case, name) for case in titles.values())) for name in measured]
    width = (100 - first) // len(titles)
    return table(("messages a second", *titles), rows, (first, *(width for _ in titles)))


def rates(results: Results) -> str:
    """One to one, by size."""
    titles = {size: one_to_one(size) for size in SIZES}
    return _by_transport(results, {**titles, "64 B, SCHED_BATCH": UNDISTURBED}, 30)


def fans(results: Results) -> str:
    """One to many."""
    return _by_transport(results, {f"to {count} listeners": one_to_many(count) for count in FANS}, 50)


def senders(results: Results) -> str:
    """Many to one."""
    return _by_transport(results, {f"{count} senders": many_to_one(count) for count in SENDERS}, 46)


def round_trips(results: Results) -> str:
    """Quantiles of round trips, in microseconds."""
    rows = []
    for name in ONE_A_CALL:
        times = [median(results, Which(ROUND_TRIP, name, figure)) for figure in ("p50", "p99", "p999")]
        share = ratio(results, Which(ROUND_TRIP, name, "p50"), Which(ROUND_TRIP, "seqpacket", "p50"))
        cells = [NOTHING if time is None else f"{time / 1000:,.0f}" for time in times]
        rows.append((TITLES[name], *cells, NOTHING if share is None else f"{share:.2f}"))
    return table(("microseconds", "p50", "p99", "p99.9", "p50 to SEQPACKET"), rows, (40, 14, 14, 14, 18))


def floods(results: Results) -> str:
    """The same, while others do something, by TRANSFER."""
    rows = []
    for where in SCHEDULERS:
        for others in OTHERS:
            which = Which(among(others, where), "transfer", "p99")
            idle = which._replace(case=among("nobody", where))
            times = [median(results, which._replace(figure=figure)) for figure in ("p50", "p99", "p999")]
            cells = [NOTHING if time is None else f"{time / 1000:,.0f}" for time in times]
            share = ratio(results, which, idle)
            rows.append((where, others, *cells, NOTHING if share is None else f"{share:.2f}"))
    header = ("processors", "others", "p50", "p99", "p99.9", "p99 to nobody's")
    return table(header, rows, (20, 22, 13, 13, 13, 19))


def bindings(results: Results) -> str:
    """A send against unrelated bindings, in microseconds."""
    rows = []
    for name in ("kbus", "transfer"):
        times = [median(results, Which(bound(count), name, "p50")) for count in BINDINGS]
        rows.append((TITLES[name], *(NOTHING if time is None else f"{time / 1000:.2f}" for time in times)))
    header = ("microseconds", *(f"{count:,} bindings" for count in BINDINGS))
    return table(header, rows, (40, 20, 20, 20))


def python(results: Results) -> str:
    """One to one from Python."""
    rows = [(title, _cell(results, PYTHON, name)) for name, title in IN_PYTHON.items()]
    return table(("messages a second", "64 B"), rows, (60, 40))


def _sending(title: str, case: str) -> Iterator[tuple[str, Which, str, float]]:
    for who, suffix in (("alone", ""), ("recorded", ", with a recorder")):
        yield title + suffix, Which(case, "recorder", who), "{:.1f}", 1e-3
        lost = f"how often the sender loses the processor{suffix}"
        yield lost, Which(case, "recorder", f"{who}_switches"), "{:.2f}", 1


_OF_RECORDING = (
    ("read by a Python listener, messages a second", Which(READ, "recorder", "listener"), "{:,.0f}", 1),
    ("recorded without loss, messages a second", Which(READ, "recorder", "recorder"), "{:,.0f}", 1),
    *_sending("a send, microseconds of the sender's processor", SEND),
    *_sending("a send, SCHED_BATCH", SEND_UNDISTURBED),
    (
        "the recorder at 1,000 messages a second: of a processor",
        Which(STEADY, "recorder", "cpu"),
        "{:.0f} %",
        1,
    ),
    ("and memory, MiB", Which(STEADY, "recorder", "memory"), "{:.1f}", 1 / (1 << 20)),
    ("reading a capture, MiB a second", Which(DAMAGE, "recorder", "rate"), "{:.1f}", 1),
)
"""Titles, figures, how they are shown, and what they are multiplied by."""


def recording(results: Results) -> str:
    """What recording takes."""
    rows = [
        (title, NOTHING if (figure := median(results, which)) is None else form.format(figure * factor))
        for title, which, form, factor in _OF_RECORDING
    ]
    return table(("64 B, from Python", ""), rows, (75, 25))


def scale(few: Mapping[str, float], many: Mapping[str, float]) -> str:
    """What one of few, and one of many KSocks and bindings costs."""
    rows = [
        (title, *(f"{figures[name] / 1000:.1f}" for figures in (few, many)), memory)
        for title, name, memory in (
            ("open a KSock", "open", f"{many['open_memory']:,.0f} bytes"),
            ("bind", "bind", f"{many['bind_memory']:,.0f} bytes"),
            ("send to one listener, and read", "deliver", ""),
            ("deliver to each of all KSocks, and read", "deliver_to_all", ""),
            ("unbind", "unbind", ""),
            ("close a KSock, which unbinds it", "close", ""),
        )
    ]
    header = ("microseconds", *(f"{each['ksocks']:,.0f} KSocks" for each in (few, many)), "memory")
    return table(header, rows, (46, 18, 18, 18))


def profiles(by_case: Mapping[str, Mapping[str, float]]) -> str:
    """Where the instructions of a message go."""
    titles = list(next(iter(by_case.values())))
    rows = [(title, *(f"{groups[title]:,.0f}" for groups in by_case.values())) for title in titles]
    rows.append(("all", *(f"{sum(groups.values()):,.0f}" for groups in by_case.values())))
    return table(("instructions", *by_case), rows, (22, *(13 for _ in by_case)))


def functions(by_case: Mapping[str, Mapping[str, float]]) -> str:
    """The module's functions that most instructions are of, for the cases that it has a part in."""
    cases = {title: counts for title, counts in by_case.items() if counts}
    most = Counter[str]()
    for counts in cases.values():
        most |= Counter(counts)
    rows = [
        (f"``{name}``", *(f"{counts.get(name, 0):,.0f}" for counts in cases.values()))
        for name, _ in most.most_common(MOST_FUNCTIONS)
    ]
    return table(("instructions", *cases), rows, (40, *(20 for _ in cases)))


def instructions(counts: Mapping[str, int]) -> str:
    """How many instructions each message takes."""
    return table(("", "instructions"), [(title, f"{count:,}") for title, count in counts.items()], (75, 25))
