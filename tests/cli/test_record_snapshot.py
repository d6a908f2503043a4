# SPDX-License-Identifier: MIT
"""`kbus record --snapshot` with a time, as a process on the stand-in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from kbus import Announcement, Ksock, inspect
from tests.capture.captures import read
from tests.kernel import helpers

wait_until = partial(helpers.wait_until, patience=30)


@contextmanager
def recording(path: str, directory: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """It, once it has bound."""
    with subprocess.Popen(
        [sys.executable, "-m", "kbus.cli", "record", "-o", directory, "--snapshot", "1M", *options],
        env={**os.environ, "KBUS_TEST_BUS": path},
        stderr=subprocess.PIPE,
    ) as process:
        try:
            wait_until(lambda: bool(inspect.bindings()), "it has bound")
            yield process
        finally:
            process.kill()


def captures(directory: Path) -> list[list[str]]:
    """The names of the messages in each capture, the oldest first."""
    return [[each.message.name for each in read(path)[0]] for path in sorted(directory.glob("*.pcapng"))]


@pytest.mark.parametrize("on_message", [False, True])
def test_a_recorder_that_ends_makes_the_snapshot_at_once(
    on_message: bool, bus_path: str, tmp_path: Path
) -> None:
    options = ("--after", "3600", *(["--on", "$.Alarm"] if on_message else []))
    with Ksock() as sender, recording(bus_path, tmp_path, *options) as process:
        sender.send_msg(Announcement("$.Alarm"))
        wait_until(lambda: inspect.stats()[0].ksocks[-1].received == 1, "it has read that")
        if not on_message:
            process.send_signal(signal.SIGUSR1)
        assert process.stderr
        assert process.stderr.readline().startswith(b"kbus record: listening to kbus0, keeping ")
        assert process.stderr.readline() == b"kbus record: a snapshot follows in 3600 s\n"
        sender.send_msg(Announcement("$.After"))
        wait_until(lambda: inspect.stats()[0].ksocks[-1].received == 2, "it has read that")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert captures(tmp_path) == [["$.Alarm", "$.After"]]


def test_the_device_of_the_environment(
    bus_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ksock() as ksock:
        ksock.new_device()
    monkeypatch.setenv("KBUS_DEVICE", "1")
    with recording(bus_path, tmp_path):
        assert [each.device for each in inspect.bindings()] == [1]
    with recording(bus_path, tmp_path, "-d", "0"):
        wait_until(lambda: [each.device for each in inspect.bindings()] == [0], "it has bound there")
