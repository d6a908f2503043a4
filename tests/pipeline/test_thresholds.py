# SPDX-License-Identifier: MIT
"""Thresholds, what verdicts make of them, and what programs are told: report.json and the exit status."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kbus.pipeline import commands, report
from kbus.pipeline.cli import main
from kbus.pipeline.report.summary import judged, summary
from kbus.pipeline.report.thresholds import DEFAULTS, Limits, Thresholds, ThresholdsError, load
from kbus.pipeline.source import session
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.findings import BEGIN, healthy, latency, outcomes


def read(tmp_path: Path, text: str) -> Thresholds:
    path = tmp_path / "thresholds.toml"
    path.write_text(text)
    return load(path)


def test_without_a_file_and_with_an_empty_one(tmp_path: Path) -> None:
    assert read(tmp_path, "").as_dict() == Thresholds().as_dict()
    assert Thresholds().limits("answers", "failed") == Limits(0.01, 0.05)


def test_a_file_changes_only_what_it_names(tmp_path: Path) -> None:
    found = read(tmp_path, "[speed]\nfew_replies = 7\np99_s = {red = 3}\n[repliers.crashes]\nred = inf\n")
    assert found.limits("speed", "p99_s") == Limits(1, 3)
    assert found.limits("repliers", "crashes") == Limits(0, math.inf)
    assert found.number("speed", "few_replies") == 7
    assert found.limits("answers", "failed") == Limits(0.01, 0.05)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[speed", "no TOML: "),
        ("[colour]\n", "colour is none of recordings, answers, speed, "),
        ("speed = 3\n", "speed is 3, which is no table"),
        ("[speed]\np98_s = {red = 3}\n", "speed.p98_s is none of speed.p99_s, speed.few_replies"),
        ("[speed]\np99_s = 3\n", "speed.p99_s is 3, which is no table"),
        ("[speed]\np99_s = {blue = 3}\n", "speed.p99_s.blue is none of speed.p99_s.yellow, speed.p99_s.red"),
        ("[speed]\np99_s = {red = '3'}\n", "speed.p99_s.red is '3', which is no number from 0 on"),
        ("[speed]\np99_s = {red = true}\n", "speed.p99_s.red is True, which is no number from 0 on"),
        ("[speed]\np99_s = {red = -1}\n", "speed.p99_s.red is -1, which is no number from 0 on"),
        ("[speed]\np99_s = {red = nan}\n", "speed.p99_s.red is nan, which is no number from 0 on"),
        ("[speed]\nfew_replies = {red = 1}\n", "speed.few_replies is {'red': 1}, which is no number"),
        ("[answers]\nfailed = {yellow = 0.1}\n", "answers.failed: red (0.05) is below yellow (0.1)"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ThresholdsError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/thresholds.toml: {says}")


#: Findings for which one verdict is not green: the figure, its threshold, what it is there
WORSE: dict[tuple[str, str], tuple[dict[str, Any], float]] = {
    ("recordings", "damaged_files"): ({"health": {"torn": 3}}, 3),
    ("answers", "failed"): ({"all_outcomes": outcomes(reply=97, errors=1, status=1, unanswered=1)}, 0.03),
    ("speed", "p99_s"): ({"latency": [latency("$.A", 1000, 2500)]}, 2.5),
    ("silence", "behind_s"): (
        {"of_all": {"devices": {"longest": {"device": "a", "behind_s": 7200.0}, "silent": 1,
                                "wrong_clocks": 0}}},
        7200,
    ),
    ("silence", "wrong_clocks"): (
        {"of_all": {"devices": {"silent": 0, "longest": 0, "wrong_clocks": 2}}}, 2,
    ),
    ("losses", "lost_messages"): ({"losses": {"recorder_lost": 4}}, 4),
    ("losses", "holes"): ({"losses": {"recording_gaps": 5}}, 5),
    ("losses", "refused_minutes"): ({"totals": {"full_queues": 6}}, 6),
    ("repliers", "away"): (
        {"of_all": {"repliers": {"away": 1, "longest_away": 0.25}},
         "repliers": [{"name": "$.A", "device": "a", "bound": 0.75}]},
        0.25,
    ),
    ("repliers", "crashes"): (
        {"totals": {"crashes": 2}, "of_all": {"crashes": {"requests": 9}}, "crashes": [{}]}, 2,
    ),
    ("changes", "odd_hours"): (
        {"totals": {"odd": 8},
         "odd": [{"device": "a", "name": "$.A", "period": BEGIN, "messages": 1, "usual": 9,
                  "deviations": -5}]},
        8,
    ),
}  # fmt: skip


def test_each_limit_is_tried() -> None:
    pairs = [
        (verdict, figure)
        for verdict, figures in DEFAULTS.items()
        for figure, default in figures.items()
        if isinstance(default.value, Limits)
    ]
    assert pairs == list(WORSE)


@pytest.mark.parametrize(("verdict", "figure"), WORSE)
def test_a_figure_is_yellow_above_one_limit_and_red_above_the_other(verdict: str, figure: str) -> None:
    other, value = WORSE[verdict, figure]
    for limits, level in (
        (Limits(value, value), "green"),
        (Limits(value * 0.9, value), "yellow"),
        (Limits(value * 0.5, value * 0.9), "red"),
    ):
        findings = healthy(**other, thresholds=Thresholds({(verdict, figure): limits}))
        found = {title.lower(): each for title, each in judged(findings).items()}
        assert found[verdict].figures[figure] == value
        assert found[verdict].level == level
        assert {each.level for name, each in found.items() if name != verdict} == {"green"}


def test_names_with_few_replies_do_not_make_it_yellow() -> None:
    few = healthy(latency=[latency("$.Rare", 99, 5000)], of_all={"latency": {"few": 1}})
    found = judged(few)["Speed"]
    assert found.level == "unknown" and found.figures["p99_s"] is None
    assert found.text.startswith("No name has 100 replies, too few to judge by. The slowest name is $.Rare:")
    both = healthy(
        latency=[latency("$.A", 100, 2000), latency("$.Rare", 99, 5000)], of_all={"latency": {"few": 1}}
    )
    found = judged(both)["Speed"]
    assert found.level == "yellow" and found.text.startswith("The slowest name is $.A:")
    assert found.text.endswith("1 name has fewer than 100 replies, too few to judge by.")


def test_what_was_not_seen_is_not_good() -> None:
    """One is bad, so that --fail-on red fails: that nothing was recorded."""
    nothing = healthy(
        files={"files": 0, "size": 0}, health={}, totals=dict.fromkeys(healthy().totals, 0), latency=[],
        all_outcomes=outcomes(), of_all={"hours": {"rows": 0, "messages": 0, "first": None, "last": None}},
    )  # fmt: skip
    found = judged(nothing)
    assert found.pop("Recordings").level == "red"
    assert {(each.level, each.text) for each in found.values()} == {("unknown", "Nothing was recorded.")}
    assert all(each.figures[name] is None for title, each in found.items() for name in DEFAULTS[title.lower()]
               if name != "few_replies")  # fmt: skip
    said = json.loads(summary(nothing, judged(nothing)))
    assert (said["level"], said["verdicts"][1]["level"]) == ("red", "unknown")
    # A hole is known, whatever is not in it.
    assert (
        judged(replace(nothing, losses={"recorder_lost": 0, "recording_gaps": 1}))["Losses"].level == "yellow"
    )


@pytest.mark.parametrize(
    ("title", "other"),
    [
        ("Answers", {"all_outcomes": outcomes(incomplete=3)}),
        ("Speed", {"latency": []}),
        ("Changes", {"of_all": {"hours": {"rows": 9, "messages": 9, "first": BEGIN, "last": BEGIN}}}),
    ],
)
def test_what_nothing_tells_of_is_unknown(title: str, other: dict[str, Any]) -> None:
    found = judged(healthy(**other))
    assert [name for name, each in found.items() if each.level == "unknown"] == [title]


def test_what_report_json_has() -> None:
    findings = healthy(health={"torn": 1}, totals={"crashes": 1}, crashes=[{}])
    found = json.loads(summary(findings, judged(findings)))
    assert list(found) == [
        "format", "level", "scope", "compare", "since", "until", "verdicts", "totals", "thresholds",
    ]  # fmt: skip
    assert (found["format"], found["level"], found["scope"]) == (1, "red", "everything")
    assert (found["since"], found["until"]) == ("2026-03-01T12:00:00Z", "2026-03-05T13:00:00Z")
    assert [each["name"] for each in found["verdicts"]] == list(DEFAULTS)
    recordings = found["verdicts"][0]
    assert recordings["level"] == "yellow" and recordings["figures"]["damaged_files"] == 1
    assert found["totals"] == {
        "messages": 100,
        "files": 1,
        "bytes": 1000,
        "devices": 1,
        "names": 2,
        "hours": 2,
    }
    assert found["thresholds"]["silence"]["behind_s"] == {"yellow": 3600, "red": None}
    for each in found["verdicts"]:
        assert set(each["figures"]) >= set(DEFAULTS[each["name"]]) - {"few_replies"}


@pytest.mark.parametrize(
    ("fail_on", "worst", "status"),
    [
        ("red", "red", 3), ("red", "yellow", 0), ("yellow", "red", 3), ("yellow", "yellow", 3),
        ("yellow", "green", 0), (None, "red", 0), ("yellow", "unknown", 0),
    ],
)  # fmt: skip
def test_exit_status(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    fail_on: str | None,
    worst: str,
    status: int,
) -> None:
    written = report.Written(1234, {"Answers": worst, "Losses": "green"}, [])
    monkeypatch.setattr(commands, "write_report", lambda *_: written)
    monkeypatch.setattr(session, "start", mock.MagicMock())
    monkeypatch.setattr(session, "stop", mock.MagicMock())
    Warehouse.create(str(tmp_path / "tables"), buckets=1)
    words = ["report", "--quiet", "--tables", str(tmp_path / "tables"), "--output", str(tmp_path / "r.html")]
    assert main([*words, *(["--fail-on", fail_on] if fail_on else [])]) == status
    said = "all is green" if worst == "green" else f"{worst}: Answers"
    assert capsys.readouterr().out.startswith(f"report: 1,234 bytes; {said}; ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--thresholds", "{tmp}/no.toml"], "No such file or directory: '{tmp}/no.toml'"),
        (["--thresholds", "{tmp}/wrong.toml"], "{tmp}/wrong.toml: colour is none of recordings"),
        (["--output", "{tmp}/report.json"], "{tmp}/report.json: the verdicts for programs would be"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_done(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: list[str],
    says: str,
) -> None:
    (tmp_path / "wrong.toml").write_text("[colour]\n")
    words = [each.format(tmp=tmp_path) for each in words]
    assert main(["report", "--tables", str(tmp_path / "none"), *words]) == 1
    assert says.format(tmp=tmp_path) in capsys.readouterr().err
