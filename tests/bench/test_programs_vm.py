# SPDX-License-Identifier: MIT
"""The programs that measure, each of them for a moment: that nothing is lost, and figures come."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbus import Ksock
from tests.bench import daemons
from tests.bench.cases import BROKERS, IN_PYTHON, MACHINES, NOT_IN_C, ONE_CPU, Case, bridge_among
from tests.bench.parts import PARTS
from tests.kernel.conftest import nothing_left

pytestmark = pytest.mark.long("runs each program of the benchmark")

__all__ = ["nothing_left"]

PROGRAMS = Path(__file__).parent / "c" / "bin"
# So many subscriptions take a minute, and are one more case of a thousand.
TOO_LONG = bridge_among(100_000)
CASES = [
    case
    for cases in MACHINES.values()
    for case in cases
    if case.program not in NOT_IN_C and case.title != TOO_LONG
]
RECORDING = [(case.options, case.figure) for case in ONE_CPU if case.program == "recording"]
SECONDS = "0.02"


@pytest.fixture(autouse=True)
def messages_as_long_as_before(nothing_left: None) -> Iterator[None]:
    """The programs let messages be as long as possible."""
    with Ksock() as ksock:
        before = ksock.max_message_size()
    yield
    with Ksock() as ksock:
        ksock.set_max_message_size(before)


@pytest.fixture
def addresses() -> Iterator[dict[str, str]]:
    """Where the bridge is."""
    with daemons.bridge() as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_a_case(case: Case, request: pytest.FixtureRequest) -> None:
    for transport in case.transports:
        if transport not in BROKERS:
            where = ["--address", request.getfixturevalue("addresses")["sbus"]] if transport == "sbus" else []
            figures = _run(PROGRAMS / "bench", case.program, transport, *where, *case.options.split())
            assert figures["messages"] > 0
            assert figures[case.figure] > 0


@pytest.mark.parametrize("transport", IN_PYTHON)
def test_from_python(transport: str) -> None:
    assert _run(sys.executable, "-m", "tests.bench.stream", transport)["messages"] > 0


@pytest.mark.parametrize(("what", "figure"), RECORDING)
def test_recording(what: str, figure: str) -> None:
    figures = _run(sys.executable, "-m", "tests.bench.recording", *what.split())
    assert figures["messages"] > 0
    assert figures[figure] >= 0
    assert figures["lost"] == 0


def _run(*command: object) -> dict[str, float]:
    """What it prints."""
    arguments = [str(each) for each in (*command, "--seconds", SECONDS)]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, timeout=240, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def test_parts() -> None:
    command = [sys.executable, "-m", "tests.bench.parts"]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=480, check=True)
    microseconds = re.findall(rb"^ +- ([0-9.]+)\n +- [0-9.]+$", done.stdout, re.MULTILINE)
    assert len(microseconds) == len(PARTS)
    assert min(map(float, microseconds)) > 0


def test_scale() -> None:
    command = [str(PROGRAMS / "scale"), "100", "1000"]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=240, check=True)
    figures = json.loads(done.stdout)
    assert (figures["ksocks"], figures["bindings"]) == (100, 1000)
    assert min(figures[name] for name in ("open", "bind", "deliver", "unbind", "close")) > 0


@pytest.mark.parametrize(
    "arguments",
    [
        "stream",
        "stream nothing",
        "nothing kbus",
        "stream kbus --size 0",
        "round-trip mmsg",
        "solo kbus --no",
        "stream kbus --seconds -1",
    ],
)
def test_arguments_that_are_wrong(arguments: str) -> None:
    command = [str(PROGRAMS / "bench"), *arguments.split()]
    done = subprocess.run(command, stderr=subprocess.PIPE, timeout=240, check=False)
    assert done.returncode == 2
    assert done.stderr
