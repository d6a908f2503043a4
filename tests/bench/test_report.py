# SPDX-License-Identifier: MIT
"""From what was measured to the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from tests.bench import plot, report, tables
from tests.bench.cases import MACHINES, ROUND_TRIP, one_to_one
from tests.bench.goals import BRIDGE_GOALS, GOALS, Which, cases_of_goals, median, ratio

SMALL = one_to_one("64 B")
RESULTS = {
    SMALL: {
        "transfer": [{"rate": 10.0}, {"rate": 60.0}, {"rate": 30.0}],
        "seqpacket": [{"rate": 10.0}, {"rate": 30.0}, {"rate": 10.0}],
    },
    ROUND_TRIP: {"transfer": [{"p50": 4000.0}], "seqpacket": [{"p50": 5000.0}]},
}
OURS, THEIRS = Which(SMALL, "transfer", "rate"), Which(SMALL, "seqpacket", "rate")


def test_medians() -> None:
    assert median(RESULTS, OURS) == 30
    assert median(RESULTS, OURS._replace(transport="pipe")) is None


def test_ratios_are_of_the_same_repetition() -> None:
    """A host that was slow then was slow for both."""
    assert ratio(RESULTS, OURS, THEIRS) == 2
    assert ratio(RESULTS, OURS, THEIRS._replace(transport="pipe")) is None


def test_goals_are_those_that_were_set() -> None:
    """Nobody moves them."""
    assert [(goal.limit, goal.at_most) for goal in GOALS] == [
        (0.75, True),
        (1.2, False),
        (4, False),
        (1.5, False),
        (3, False),
        (1.3, False),
        (1.1, True),
        # From Python, as messages are received: one by one, and as many as there are
        (0.8, False),
        (0.8, False),
        (3, True),
        (0.7, False),
        # What is no capture, beside one of that size
        (3, True),
        # With the usual scheduler, and where nobody takes the processor from who wakes him
        (1.1, True),
        (1.1, True),
    ]


def test_goals_of_the_bridge_are_those_that_were_set() -> None:
    assert [(goal.limit, goal.at_most) for goal in BRIDGE_GOALS] == [
        (0.2, False),
        (0.5, False),
        (0.5, False),
        (4, True),
        (1.1, True),
        (1.5, True),
    ]


def test_goals_are_about_what_is_measured() -> None:
    measured = {
        (case.title, name) for cases in MACHINES.values() for case in cases for name in case.transports
    }
    for goal in (*GOALS, *BRIDGE_GOALS):
        assert {goal.of[:2], goal.to[:2]} <= measured


def test_the_table_of_goals() -> None:
    rows = tables.goals(RESULTS, {}).split("   * - ")[2:]
    cells = [[cell.strip() for cell in row.split("     - ")] for row in rows]
    assert cells[0][1:] == ["≤ 0.75", "0.80", "**no**", "\\-"]
    assert cells[1][1:] == ["≥ 1.2", "2.00", "yes", "\\-"]
    assert cells[2][1:] == ["≥ 4", "\\-", "\\-", "\\-"]


def test_a_limit_that_is_just_reached() -> None:
    lower, upper = GOALS[0], GOALS[1]
    assert [lower.is_met(value) for value in (0.75, 0.7501)] == [True, False]
    assert [upper.is_met(value) for value in (1.2, 1.1999)] == [True, False]


def test_the_plot_is_xml() -> None:
    image = ElementTree.fromstring(plot.svg(RESULTS))
    shown = [element.text for element in image.iter("{http://www.w3.org/2000/svg}text")]
    # A round trip that takes 0.8 of the time is 1.25 times as fast.
    assert {"2", "1.2"} <= set(shown)


def test_runs_are_put_together(tmp_path: Path) -> None:
    one, other = tmp_path / "1", tmp_path / "2"
    one.write_text(json.dumps({"kernel": "6.1", "cpus": 1, "results": {SMALL: RESULTS[SMALL]}}))
    other.write_text(json.dumps({"cpus": 2, "results": {ROUND_TRIP: RESULTS[ROUND_TRIP]}}))
    merged = report.merged([one, other])
    assert (merged["kernel"], merged["results"]) == ("6.1", RESULTS)


def test_a_later_run_has_the_last_word_on_what_it_measured(tmp_path: Path) -> None:
    whole, part = tmp_path / "1", tmp_path / "2"
    whole.write_text(
        json.dumps({"results": {SMALL: {"pipe": [{"rate": 1.0}], "seqpacket": [{"rate": 2.0}]}}})
    )
    part.write_text(json.dumps({"results": {SMALL: {"seqpacket": [{"rate": 3.0}]}}}))
    assert report.merged([whole, part])["results"] == {
        SMALL: {"pipe": [{"rate": 1.0}], "seqpacket": [{"rate": 3.0}]}
    }


def test_what_was_counted_is_put_together(tmp_path: Path) -> None:
    one, other = tmp_path / "1", tmp_path / "2"
    one.write_text(json.dumps({"by_instructions": {SMALL: RESULTS[SMALL]}, "instructions": {"TRANSFER": 1}}))
    other.write_text(json.dumps({"by_instructions": {ROUND_TRIP: RESULTS[ROUND_TRIP]}}))
    merged = report.merged([one, other])
    assert (merged["by_instructions"], merged["results"]) == (RESULTS, {})


def test_every_goal_is_counted_on_one_processor() -> None:
    counted = {(case.title, name) for python in (True, False) for case, name in cases_of_goals(python)}
    for goal in (*GOALS, *BRIDGE_GOALS):
        assert {goal.of[:2], goal.to[:2]} <= counted


def test_the_documentation_is_what_the_results_say(tmp_path: Path) -> None:
    report.write(json.loads((report.DOCS / report.RESULTS).read_text()), tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_text() == (report.DOCS / path.name).read_text()
