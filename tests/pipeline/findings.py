# SPDX-License-Identifier: MIT
"""What a report is made from, without Spark: findings about as many devices and hours as a test wants."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import Any

from kbus.pipeline.report.devices import POINTS
from kbus.pipeline.report.findings import Findings, Row
from kbus.pipeline.report.scope import Scope
from kbus.pipeline.report.thresholds import Thresholds

BEGIN = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
MS = 1_000_000


def latency(name: str, replies: int, p99_ms: float) -> Row:
    """A row of the table of latencies."""
    return {
        "name": name, "answers": replies, "p50_ns": p99_ms * MS / 8, "p90_ns": p99_ms * MS / 2,
        "p99_ns": p99_ms * MS, "mean_ns": p99_ms * MS / 6, "longest_ns": int(p99_ms * MS * 1.2),
    }  # fmt: skip


def outcomes(**found: int) -> Row:
    """How requests ended; those that are not named did not."""
    kinds = ("reply", "errors", "status", "unanswered", "incomplete", "orphan")
    return {**dict.fromkeys(kinds, 0), **found}


def healthy(**other: Any) -> Findings:
    """Findings of which every verdict is green, but for those that are given."""
    findings = Findings(
        scope=Scope(),
        compare=None,
        thresholds=Thresholds(),
        totals={"devices": 1, "hours": 2, "names": 2, "latency": 1, "outcomes": 0, "full_queues": 0, "odd": 0,
                "crashes": 0, "repliers": 0, "talkers": 0, "listeners": 0, "backlogs": 0, "sizes": 0},
        of_all={
            "devices": {"recorded": 1, "silent": 0, "longest": {"device": "a", "behind_s": 0.0},
                        "wrong_clocks": 0},
            "hours": {"rows": 2, "messages": 100, "first": BEGIN, "last": BEGIN + timedelta(days=4)},
            "repliers": {"away": 0, "longest_away": 0.0},
            "crashes": {"requests": 0},
            "latency": {"few": 0},
            "compared": {"changed": 0},
        },
        health={"ok": 1},
        files={"files": 1, "size": 1000, "damaged": 0, "skipped": 0},
        devices=[],
        hours=[],
        device_lines={},
        device_names={},
        names=[],
        talkers=[],
        sizes=[],
        latency=[latency("$.A", 1000, 5)],
        outcomes=[],
        all_outcomes=outcomes(reply=100),
        repliers=[],
        crashes=[],
        listeners=[],
        backlogs=[],
        full_queues=[],
        losses={"recorder_lost": 0, "recording_gaps": 0},
        odd=[],
        compared=[],
    )  # fmt: skip
    for name, value in other.items():
        before = getattr(findings, name)
        setattr(findings, name, {**before, **value} if isinstance(before, dict) else value)
    return findings


def fleet(devices: int, hours: int) -> Findings:
    """Findings about so many devices, with everything that the page can show, and a name that is no HTML."""
    chance = random.Random(devices)
    names = ["$.Pump.Speed", "$.Pump.Level", "$.<script>alert(1)</script>"]
    said = [f"device-{number:04d}.plant.example" for number in range(devices)]
    found = healthy(
        compare=(Scope(recorder="1.0"), Scope(recorder="1.1")),
        totals={"devices": devices, "hours": hours, "names": 3, "latency": 30, "crashes": 1, "repliers": 1,
                "odd": 1, "full_queues": 1, "compared": 3},
        health={"ok": 30 * devices, "torn": devices},
        files={"files": 31 * devices, "size": 10**11, "skipped": 12_345},
        hours=[_hour(chance, number) for number in range(hours) if number % 97],
        names=[
            {"name": name, "messages": 10**8, "bytes": 10**10, "devices": devices} for name in names
        ],
        talkers=[{"device": said[0], "bus": 0, "from": 3, "messages": 10**7, "share": 0.25}],
        sizes=[{"size": size, "messages": 10**9 >> size} for size in (9, 11, 12, 20, 23)],
        latency=[latency(name, 10**6, 2000 / 7**place) for place, name in enumerate([*names, *"abcdefgh"])]
        + [latency("$.Rare", 3, 4000)],
        outcomes=[{"name": names[0], **outcomes(reply=10**6, errors=10**5, status=7), "failed": 0.1}],
        all_outcomes=outcomes(reply=10**6, errors=10**5, status=7, incomplete=3),
        repliers=[{"device": said[0], "bus": 0, "name": names[0], "bound": 0.5, "outages": 2}],
        crashes=[{"device": said[0], "bus": 0, "ksock": 7, "ts": BEGIN, "requests": 3}],
        listeners=[{"device": said[0], "bus": 0, "episodes": 3, "messages": 345}],
        backlogs=[{"device": said[0], "bus": 0, "replier": 7, "waiting": 12}],
        full_queues=[{"device": said[0], "bus": 0, "period": BEGIN, "unseen": 12}],
        odd=[{"device": said[0], "name": names[0], "period": BEGIN, "messages": 9, "usual": 99,
              "deviations": -9.0}],
        compared=[_compared(name) for name in names],
    )  # fmt: skip
    found.of_all["hours"] = {**found.of_all["hours"], "messages": 10**9, "last": found.hours[-1]["period"]}
    found.of_all["latency"] = {"few": 1}
    found.of_all["repliers"] = {"away": 1, "longest_away": 0.5}
    found.of_all["crashes"] = {"requests": 3}
    found.of_all["compared"] = {"changed": {"name": names[0], "times": 1.5}}
    found.of_all["devices"]["recorded"] = devices
    found.devices = [_device(chance, device) for device in said]
    found.device_lines = {device: [chance.randrange(10**6) for _ in range(POINTS)] for device in said}
    found.device_names = {
        device: [
            {"name": name, "messages": chance.randrange(10**7), "p50_ns": chance.random() * 1e7,
             "p99_ns": chance.random() * 1e9, "failed": chance.random() / 9, "names": 20}
            for name in names
        ]
        for device in said
    }  # fmt: skip
    return found


def _hour(chance: random.Random, number: int) -> Row:
    p50 = chance.lognormvariate(15, 0.3)
    return {
        "period": BEGIN + timedelta(hours=number), "messages": chance.randrange(10**6), "bytes": 10**7,
        "answers": 100, "p50_ns": p50, "p99_ns": p50 * chance.uniform(3, 30),
        "errors": chance.randrange(200), "status": chance.randrange(20), "unanswered": chance.randrange(9),
        "lost": chance.randrange(50) * (number % 20 == 0), "holes": 0, "unseen": chance.randrange(9),
    }  # fmt: skip


def _device(chance: random.Random, device: str) -> Row:
    return {
        "device": device, "messages": chance.randrange(10**8), "bytes": 10**9, "seconds": 5e6,
        "last_ts": BEGIN, "behind_s": 0.0, "is_clock_right": chance.random() > 0.1,
        "p50_ns": chance.random() * 1e7, "p99_ns": chance.random() * 1e9, "failed": chance.random() / 9,
        "unanswered": 3, "lost": chance.randrange(100), "crashes": chance.randrange(3), "trouble": 1.0,
    }  # fmt: skip


def _compared(name: str) -> Row:
    values = {"rate": 12.5, "p50_ns": 2e6, "p99_ns": 9e7, "failed": 0.125, "messages": 10**6}
    return {"name": name} | {
        f"{key}_{side}": value * factor
        for key, value in values.items()
        for side, factor in (("before", 1), ("after", 1.5))
    }
