# SPDX-License-Identifier: MIT
"""What a step says while it is at work."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from kbus.pipeline import progress
from kbus.pipeline.progress import Progress

PATIENCE = 60.0


def test_a_step_says_what_is_new(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LOOK", 0.01)
    monkeypatch.setattr(progress, "_SAY", 0.0)
    stages: dict[int, Any] = {}
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=stages.get)
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    said = ""

    def wait_for(text: str) -> None:
        nonlocal said
        end = time.monotonic() + PATIENCE
        while text not in (said := said + capsys.readouterr().err):
            assert time.monotonic() < end, said
            time.sleep(0.01)

    with Progress(spark, "stream") as shown:
        shown.state = lambda: "waiting"
        wait_for("stream: waiting, 0 s\n")
        stages[0] = SimpleNamespace(numCompletedTasks=1, numTasks=3)
        wait_for("stream: 1 of 3 tasks, ")
        shown.say("X is torn")
        wait_for("stream: X is torn\n")
    assert said.count("waiting") == 1
