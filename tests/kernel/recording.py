# SPDX-License-Identifier: MIT
"""`kbus record` as a process, and what it has written."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kbus.capture import Reader, Record
from tests.kernel.command import Command, bound


@contextmanager
def recording(directory: Path, *arguments: str, count: int = 1, device: int = 0) -> Iterator[Command]:
    """`kbus record`, from when it listens."""
    with bound(
        "record", "-o", str(directory), "--name", "lathe", *arguments, count=count, device=device
    ) as it:
        yield it


def ended(recorder: Command, number: signal.Signals = signal.SIGTERM) -> str:
    """End it, and give what it said; it must have ended well."""
    recorder.send_signal(number)
    status, out, err = recorder.end()
    assert (status, out) == (0, "")
    return err


def captures(directory: Path, pattern: str = "lathe-*.pcapng") -> list[Path]:
    """The files there, in order."""
    return sorted(directory.glob(pattern))


def records(*paths: Path) -> list[Record]:
    """All that was recorded; each file must be whole."""
    found: list[Record] = []
    for path in paths:
        with Reader(path) as reader:
            found += reader
    return found


def flushed(directory: Path) -> int:
    """How many messages can be read now."""
    count = 0
    for path in sorted(directory.iterdir()):
        with Reader(path, strict=False) as reader:
            count += len(list(reader))
    return count
