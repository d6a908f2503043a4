# SPDX-License-Identifier: MIT
"""A short run of the fuzzer, and what it has found before."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from kbus import Ksock
from tests.kernel.helpers import BITS, bindings, stats_lines

HERE = Path(__file__).parent
SECONDS = "5"
RUNS = 40
"""As many as a slow machine may need until all has happened; most need one."""
KCOV = Path("/sys/kernel/debug/kcov")
CORPUS = sorted((HERE / "corpus").glob("*.ops"))

OUTCOMES = {
    **{name: {"0"} for name in ("open", "close", "dup", "kick", "poll", "discard", "next", "read", "get")},
    **{name: {"0"} for name in ("take", "switch", "maxmsgs")},
    "bind": {"0", "EADDRINUSE", "EAGAIN", "EFAULT"},
    "unbind": {"0", "EINVAL"},
    "message": {
        "0",
        "EADDRNOTAVAIL",
        "EALREADY",
        "EBADMSG",
        "EBUSY",
        "EINTR",
        "EINVAL",
        "EMSGSIZE",
        "ENOLCK",
    },
    "send": {"EFAULT", "ENOMSG"},
    "transfer": {"0"},
    "ioctl": {"ENOTTY"},
}
"""How operations end sooner or later: all of it was seen in one run of some 3000."""

PLACES = 1200
"""Places in the module that such a run reaches; it was 1401 with 2865 operations, and 1505 at most."""


@pytest.fixture
def results(request: pytest.FixtureRequest) -> Path:
    """A directory of the test's own, which outlives the machine."""
    directory = Path(os.environ["RESULTS"], re.sub(r"\W+", "-", request.node.name))
    directory.mkdir(exist_ok=True)
    return directory


def fuzz(bits: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer to its end."""
    command = [HERE / "bin" / f"kbus-fuzz{bits}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def outcomes(results: Path) -> dict[str, set[str]]:
    """How each kind of operation has ended: errors, and "0" for success."""
    lines = [line.split() for line in (results / "results.txt").read_text().splitlines()]
    return {name: {word.split("=")[0] for word in words} for name, *words in lines}


@pytest.mark.smp("its processes are to race")
@pytest.mark.axiom("answer", "lifetime")
@pytest.mark.parametrize("bits", BITS)
def test_a_short_run(bits: int, results: Path) -> None:
    seen: dict[str, set[str]] = {}
    missing, reached, corpus = OUTCOMES, 0, 0
    for seed in range(1, 1 + RUNS):
        done = fuzz(bits, "--seed", str(seed), "--seconds", SECONDS, "--results", results)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith(": all well\n")
        counted = {name: int(number) for name, number in re.findall(r"(\w+) (\d+)", done.stdout)}
        assert counted["witnessed"] > 0
        for name, words in outcomes(results).items():
            seen.setdefault(name, set()).update(words)
        missing = {name: wanted - seen[name] for name, wanted in OUTCOMES.items() if wanted - seen[name]}
        reached, corpus = max(reached, counted["reached"]), max(corpus, counted["corpus"])
        if not missing and (reached >= PLACES or not KCOV.exists()):
            break
    assert missing == {}
    if KCOV.exists():
        assert reached >= PLACES
        # Programs that reached what none before them had. How many there are is chance.
        assert corpus > 1
    else:
        assert reached == corpus == 0


@pytest.mark.parametrize("bits", BITS)
def test_one_worker_does_the_same_each_time(bits: int, results: Path) -> None:
    texts = []
    for _ in range(2):
        done = fuzz(bits, "--seed", "1", "--workers", "1", "--operations", "3000", "--results", results)
        assert done.returncode == 0, done.stderr
        texts.append([(results / f"worker00-{file}.ops").read_text() for file in range(2)])
    assert texts[0] == texts[1]
    assert sum(map(len, texts[0])) > 10000


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.stem)
@pytest.mark.parametrize("bits", BITS)
def test_what_was_found_once(bits: int, case: Path) -> None:
    done = fuzz(bits, "--replay", case, "--repeat", "10")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("bits", BITS)
def test_what_is_left_behind_is_noticed(bits: int) -> None:
    with Ksock() as ksock:
        ksock.bind("$.Left")
        done = fuzz(bits, "--workers", "1", "--operations", "10")
        assert done.returncode == 1
        assert "still in /proc/kbus/bindings:" in done.stderr
        assert "still in /proc/kbus/stats:" in done.stderr
        assert done.stdout.endswith(": FAILED\n")
    assert bindings() == []
    assert [line for line in stats_lines() if line.key[0] == "ksock"] == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0 close 0\n", "not of a worker"),
        ("worker 0 threads 9\n", "no such worker"),
        ("worker 0 threads 3\n0 close 0\n", "not an operation"),
        ("worker 0 threads 3\nprogram 0\n0 clase 0\n", "not an operation: 0 clase 0"),
        ("worker 0 threads 3\nprogram 0\n0 close\n", "not an operation: 0 close"),
    ],
)
def test_a_bad_case_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    case = tmp_path / "case.ops"
    case.write_text(text)
    done = fuzz(BITS[0], "--replay", case)
    assert done.returncode == 2
    assert complaint in done.stderr
