# SPDX-License-Identifier: MIT
"""Senders that wait for room, as a model for Spin (spin/line.pml): whoever could go on is woken.

Each scenario is searched to its end. Then each rule is taken out in turn, and Spin must find an error.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parent / "spin" / "line.pml"

SCENARIOS = ["LINE", "LIMITS", "UNBIND", "TWO", "REQUEST", "TASKS", "WAKES"]

ABOUT_THE_MODEL = pytest.mark.long("what comes of it changes with the model only")

# How Spin prints the assertion that fails; 'unbinding' is in 'settled' alone.
SETTLED = "unbinding"
ORDER = "violated ( !("
REASON = "violated changed["
CLOSED = "violated  !(closing["
OWN = "violated (((asleep_for"
STUCK = "invalid end state"

# What is taken out, the scenario that is to notice it, and what Spin then finds
RULES = [
    ("OMIT_POP", "LINE", SETTLED),
    ("OMIT_JOIN", "LINE", SETTLED),
    ("OMIT_LEAVE", "LINE", SETTLED),
    ("OMIT_WAKE_UP", "LINE", SETTLED),
    ("OMIT_READY_LEAVES", "LINE", SETTLED),
    ("OMIT_KEPT", "LINE", SETTLED),
    ("OMIT_ALL_KEPT", "LINE", SETTLED),
    ("OMIT_LINE", "LINE", ORDER),
    ("OMIT_ALL_FIT", "LINE", ORDER),
    ("OMIT_NOT_READY", "LINE", REASON),
    ("OMIT_RESIZE", "LIMITS", SETTLED),
    ("OMIT_REFUSAL", "LIMITS", SETTLED),
    ("OMIT_UNBIND", "UNBIND", SETTLED),
    ("OMIT_RETRY", "UNBIND", SETTLED),
    ("OMIT_CLOSE", "TWO", STUCK),
    ("OMIT_CLOSING", "TWO", CLOSED),
    ("OMIT_LEAVE", "TWO", SETTLED),
    ("OMIT_RELEASE", "REQUEST", SETTLED),
    ("OMIT_ANSWER", "REQUEST", SETTLED),
    ("OMIT_OWN_SLOT", "REQUEST", REASON),
    ("OMIT_SERIAL", "TASKS", OWN),
    ("OMIT_GONE", "TASKS", STUCK),
    ("OMIT_NEXT_FIRST", "WAKES", STUCK),
    ("OMIT_QUEUE_FIRST", "WAKES", STUCK),
    ("OMIT_STATE_FIRST", "WAKES", STUCK),
]


def search(directory: Path, scenario: str, *rules: str) -> str:
    """What Spin says of all states of a scenario, without these rules."""
    defines = [f"-D{scenario}", *(f"-D{rule}" for rule in rules)]
    made = subprocess.run(["spin", *defines, "-a", MODEL], cwd=directory, capture_output=True, text=True)
    assert made.returncode == 0 and "Error" not in made.stdout, made.stdout + made.stderr
    # An error is found early: to compile for speed takes longer than to search slowly.
    compiler = ["cc", "-O0" if rules else "-O1", "-w", "-DSAFETY", "-DMEMLIM=900", "-o", "pan", "pan.c"]
    subprocess.run(compiler, cwd=directory, check=True)
    searched = subprocess.run(
        ["./pan", "-n", "-m100000", "-w22"], cwd=directory, capture_output=True, text=True
    )
    return searched.stdout + searched.stderr


def whole(output: str) -> bool:
    """Whether nothing was left out of the search."""
    return not re.search(r"max search depth too small|out of memory|not completed", output)


@pytest.mark.rule(22, 41, 42)
@pytest.mark.parametrize(
    "scenario", [pytest.param(name, marks=[] if name == "LINE" else ABOUT_THE_MODEL) for name in SCENARIOS]
)
def test_whoever_could_go_on_is_woken(scenario: str, tmp_path: Path) -> None:
    output = search(tmp_path, scenario)
    assert re.search(r"errors: 0\b", output) and whole(output), output


@ABOUT_THE_MODEL
@pytest.mark.parametrize(
    ("rule", "scenario", "found"), RULES, ids=[f"{rule}-{scenario}" for rule, scenario, _ in RULES]
)
def test_a_rule_taken_out_is_noticed(rule: str, scenario: str, found: str, tmp_path: Path) -> None:
    output = search(tmp_path, scenario, rule)
    assert re.search(r"errors: [1-9]", output), output
    assert found in output, output


def test_each_rule_that_can_be_taken_out_is() -> None:
    known = {rule for rule, _, _ in RULES}
    assert set(re.findall(r"\bOMIT_[A-Z_]+", MODEL.read_text())) - {"OMIT_"} == known
