# SPDX-License-Identifier: MIT
"""The line of waiting senders as a model for Spin (spin/line.pml): whoever could go on is woken.

Each scenario is searched to its end. Then each rule is taken out in turn, and Spin must find an error.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parent / "spin" / "line.pml"

SCENARIOS = {
    "LINE": "-DMESSAGES=1 -DLIMIT=2 -DFILLS=1",
    "LIMITS": "-DMESSAGES=1 -DLIMIT=2",
    "REFILL": "-DMESSAGES=1 -DLIMIT=1",
    "TWO": "-DMESSAGES=1 -DLIMIT=1",
    "REQUEST": "-DMESSAGES=1 -DLIMIT=2 -DFILLS=1",
    "CLOSE": "-DMESSAGES=1 -DLIMIT=1",
    "BYTES": "-DMESSAGES=1 -DLIMIT=1",
    "TASKS": "-DMESSAGES=1 -DLIMIT=1",
    "TURN": "-DMESSAGES=1 -DLIMIT=2",
}

ABOUT_THE_MODEL = pytest.mark.long("what comes of it changes with the model only")

# What tells in Spin's words which of the model's assertions has failed
SETTLED = "gone["
ORDER = "waits_for["
REASON = "violated changed["
OWN = "asleep_for"
STUCK = "invalid end state"

# What is taken out, the scenario that is to notice it, and what is then found.
RULES = [
    ("OMIT_READ", "LINE", SETTLED),
    ("OMIT_END", "LINE", SETTLED),
    ("OMIT_DROP", "TASKS", SETTLED),
    ("OMIT_KEPT", "LINE", SETTLED),
    ("OMIT_KEPT_PASS", "LINE", SETTLED),
    ("OMIT_LOOK_AGAIN", "LINE", SETTLED),
    ("OMIT_NOT_READY", "LINE", REASON),
    ("OMIT_FIT", "LINE", REASON),
    ("OMIT_LINE", "LINE", ORDER),
    ("OMIT_LOWER", "LIMITS", SETTLED),
    ("OMIT_RAISE", "LIMITS", SETTLED),
    ("OMIT_REFUSAL", "LIMITS", SETTLED),
    ("OMIT_STAY", "REFILL", SETTLED),
    ("OMIT_MOVE", "TWO", SETTLED),
    ("OMIT_RELEASE", "REQUEST", SETTLED),
    ("OMIT_ABANDON", "REQUEST", SETTLED),
    ("OMIT_OWN_SLOT", "REQUEST", REASON),
    ("OMIT_BATCHES", "CLOSE", STUCK),
    ("OMIT_KICK", "BYTES", STUCK),
    ("OMIT_RECHECK", "BYTES", STUCK),
    ("OMIT_LOOK_ONCE", "BYTES", SETTLED),
    ("OMIT_CLEAR_FIRST", "BYTES", STUCK),
    ("OMIT_STARVING_LATER", "BYTES", STUCK),
    ("OMIT_STARVING_KEPT", "BYTES", SETTLED),
    ("OMIT_SERIAL", "TASKS", OWN),
    ("OMIT_NO_SLEEPERS", "TASKS", OWN),
    ("OMIT_TARDY_MOVE", "TURN", STUCK),
    ("OMIT_TARDY_LOOK", "TURN", ORDER),
    ("OMIT_TARDY_AGAIN", "TURN", ORDER),
    ("OMIT_SECOND", "TURN", SETTLED),
    ("OMIT_TURN_SETTLE", "TURN", STUCK),
    ("OMIT_TURNS", "TURN", STUCK),
    ("OMIT_TURNS_SETTLE", "TURN", SETTLED),
    ("OMIT_FORGIVE", "TURN", ORDER),
]


def search(directory: Path, scenario: str, *rules: str) -> str:
    """What Spin says of all states of a scenario, without these rules."""
    defines = [f"-D{scenario}", *SCENARIOS[scenario].split(), *(f"-D{rule}" for rule in rules)]
    made = subprocess.run(["spin", *defines, "-a", MODEL], cwd=directory, capture_output=True, text=True)
    assert made.returncode == 0 and "Error" not in made.stdout, made.stdout + made.stderr
    # An error is found early: it takes longer to compile for speed than to search slowly.
    compiler = ["cc", "-O0" if rules else "-O1", "-w", "-DSAFETY", "-DMEMLIM=2000", "-o", "pan", "pan.c"]
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
@pytest.mark.parametrize(("rule", "scenario", "found"), RULES, ids=[rule for rule, _, _ in RULES])
def test_a_rule_taken_out_is_noticed(rule: str, scenario: str, found: str, tmp_path: Path) -> None:
    output = search(tmp_path, scenario, rule)
    assert re.search(r"errors: [1-9]", output), output
    assert found in output, output


def test_each_rule_that_can_be_taken_out_is() -> None:
    known = {rule for rule, _, _ in RULES}
    assert set(re.findall(r"\bOMIT_[A-Z_]+", MODEL.read_text())) - {"OMIT_"} == known
