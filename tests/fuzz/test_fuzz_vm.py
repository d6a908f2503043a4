# SPDX-License-Identifier: MIT
"""A short run of the fuzzer, and what it has found before.

KBUS_FUZZ_SEED sets the seed, KBUS_FUZZ_SECONDS how long 64-bit and 32-bit programs run each.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from kbus import Ksock
from tests.kernel.helpers import bindings, stats_lines

HERE = Path(__file__).parent
SEED = os.environ.get("KBUS_FUZZ_SEED", "1")
SECONDS = os.environ.get("KBUS_FUZZ_SECONDS", "20")
BITS = {"armv7l": [32]}.get(os.uname().machine, [64, 32])
"""The user spaces that the kernel has."""
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
"""How operations end even in a short run on a slow machine, where there are some 3000 of them."""

PLACES = 1200
"""Places in the module that even such a run reaches; it was 1401 with 2865 operations, and 1505 at most."""


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


@pytest.mark.axiom("answer", "lifetime")
@pytest.mark.parametrize("bits", BITS)
def test_a_short_run(bits: int, results: Path) -> None:
    done = fuzz(bits, "--seed", SEED, "--seconds", SECONDS, "--results", results)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(": all well\n")
    seen = outcomes(results)
    assert {name: wanted - seen[name] for name, wanted in OUTCOMES.items() if wanted - seen[name]} == {}
    counted = {name: int(number) for name, number in re.findall(r"(\w+) (\d+)", done.stdout)}
    assert counted["witnessed"] > 0
    if KCOV.exists():
        assert counted["reached"] >= PLACES
        # Programs that reached what none before them had.
        assert counted["corpus"] > 10
    else:
        assert counted["reached"] == counted["corpus"] == 0


@pytest.mark.parametrize("bits", BITS)
def test_one_worker_does_the_same_each_time(bits: int, results: Path) -> None:
    texts = []
    for _ in range(2):
        done = fuzz(bits, "--seed", SEED, "--workers", "1", "--operations", "3000", "--results", results)
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
