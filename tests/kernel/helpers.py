# SPDX-License-Identifier: MIT
"""What the tests of the semantics share: exact errors, what /proc/kbus says, and waiting for conditions."""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kbus import Ksock, Message
from kbus._device import proc_text
from tests.kernel import raw, stand_in

PROC = Path("/proc/kbus")
IOCTL, POLL = {"x86_64": (16, 7), "aarch64": (29, 73), "armv7l": (54, 168)}[os.uname().machine]
"""Numbers of system calls."""
_BITS_32 = pytest.param(32, marks=pytest.mark.qemu("programs of 32 bits"))
BITS: Any = {"armv7l": [32]}.get(os.uname().machine, [64, _BITS_32])
"""Parameters of a test: the user spaces that the kernel has."""
PATIENCE = 20.0 if stand_in.IS_WANTED else 120.0
"""Seconds after which a condition that has not come true is a failure; emulated machines are slow."""


def wait_until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Come back as soon as `condition` holds; AssertionError naming `what` if it takes over `patience`."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"still waiting until {what}"
        time.sleep(0.002)


@contextmanager
def fails(number: int) -> Iterator[None]:
    """Assert that the block raises OSError with exactly this errno."""
    with pytest.raises(OSError) as caught:
        yield
    assert caught.value.errno is not None
    assert errno.errorcode[caught.value.errno] == errno.errorcode[number]


@contextmanager
def refused(number: int, serials: int = 0) -> Iterator[None]:
    """Assert that the block fails with this errno, and that /proc/kbus shows nothing else changed.

    `serials` is how many serial numbers device 0 may use up in the block.
    """
    before, bindings = stats_text(), bindings_text()
    serial = device_stats()["last_serial"]
    with fails(number):
        yield
    assert device_stats()["last_serial"] == serial + serials
    assert stats_text().replace(f"last_serial={serial + serials} ", f"last_serial={serial} ", 1) == before
    assert bindings_text() == bindings


def stats_text() -> str:
    """All of /proc/kbus/stats."""
    return proc_text(PROC / "stats")


def bindings_text() -> str:
    """All of /proc/kbus/bindings."""
    return proc_text(PROC / "bindings")


class StatsLine(NamedTuple):
    """A line of /proc/kbus/stats: ("device", N) or ("ksock", N, id), and its numbers by name."""

    key: tuple[str | int, ...]
    numbers: dict[str, int]


def stats_lines() -> list[StatsLine]:
    """/proc/kbus/stats, taken apart."""
    lines = []
    for line in stats_text().splitlines():
        kind, *words = line.split()
        ids = [int(word) for word in words if "=" not in word]
        pairs = (word.split("=") for word in words if "=" in word)
        lines.append(StatsLine((kind, *ids), {name: int(value) for name, value in pairs}))
    return lines


def device_stats(device: int = 0) -> dict[str, int]:
    """The device's line of /proc/kbus/stats."""
    return dict(stats_lines())[("device", device)]


def ksock_stats(ksock: Ksock, device: int = 0) -> dict[str, int]:
    """The KSock's line of /proc/kbus/stats."""
    return dict(stats_lines())[("ksock", device, ksock.ksock_id())]


def has_left(pid: int) -> bool:
    """True when the KSocks of a process that has ended are closed; the stand-in learns of its end later."""
    return not stand_in.IS_WANTED or all(line.numbers.get("pid") != pid for line in stats_lines())


class BindingLine(NamedTuple):
    """A line of /proc/kbus/bindings; `kind` is R or L."""

    device: int
    ksock_id: int
    pid: int
    kind: str
    name: str


_BINDING = re.compile(r"([ \d]{2}\d): ([ \d]{7}\d) ([ \d]{7}\d)  ([RL])  (\S+)")


def bindings(device: int | None = None) -> list[BindingLine]:
    """The bindings in /proc/kbus/bindings, in its order, without headers; each line must have its form."""
    found = []
    for line in bindings_text().splitlines():
        if line.startswith("#"):
            continue
        match = _BINDING.fullmatch(line)
        assert match, line
        found.append(BindingLine(int(match[1]), int(match[2]), int(match[3]), match[4], match[5]))
    return [binding for binding in found if device in (None, binding.device)]


def names(ksock: Ksock) -> list[str]:
    """Take every message that is queued; their names."""
    return [message.name for message in ksock]


def texts(ksock: Ksock) -> list[bytes | None]:
    """Take every message that is queued; their data."""
    return [message.data for message in ksock]


def take(ksock: Ksock) -> Message:
    """Take the next message; there must be one."""
    message = ksock.read_next_msg()
    assert message is not None
    return message


def packets(ksock: Ksock) -> list[raw.Packet]:
    """Take every message that is queued, as it is byte for byte."""
    return raw.receive_all(ksock)


def fill(ksock: Ksock, name: str = "$.Filler") -> None:
    """Make the KSock's queue exactly full, at one message, by a listener's binding to `name` that stays."""
    ksock.set_max_messages(1)
    ksock.bind(name)
    raw.send(ksock, raw.message(name.encode()))
    assert ksock.num_messages() == 1


_times_slept: dict[int, str] = {}
"""By thread, how often it had gone to sleep at the last look."""


def blocked_in(thread: int, *system_call: int) -> bool:
    """True when this thread, by its native id, sleeps in the system call with this number and arguments.

    User Mode Linux does not tell of system calls. There a thread counts that has slept since the last look:
    the caller sleeps between two looks, so one that waited for the interpreter's lock was awake meanwhile.
    """
    task = Path(f"/proc/self/task/{thread}")
    with suppress(FileNotFoundError):
        words = (task / "syscall").read_text().split()[: len(system_call)]
        return [int(word, 0) for word in words if word != "running"] == list(system_call)
    with suppress(FileNotFoundError):
        status = (task / "status").read_text()
        times = status.split("\nvoluntary_ctxt_switches:")[1].split()[0]
        before = _times_slept.get(thread)
        _times_slept[thread] = times
        return "\nState:\tS" in status and times == before
    return False


@contextmanager
def handler(number: signal.Signals, restart: bool) -> Iterator[list[int]]:
    """Handle a signal, with SA_RESTART or without; the list that is given grows by one for each that came."""
    came: list[int] = []
    previous = signal.signal(number, lambda got, _: came.append(got))
    signal.siginterrupt(number, not restart)
    try:
        yield came
    finally:
        signal.signal(number, previous)
