# SPDX-License-Identifier: MIT
"""What is measured, and with which transports."""

from __future__ import annotations

from typing import NamedTuple

KBUS = ("kbus", "transfer", "transfer32")
KERNEL = (*KBUS, "seqpacket", "mmsg", "pipe", "mqueue")
ONE_A_CALL = tuple(name for name in KERNEL if name not in ("transfer32", "mmsg"))


class Case(NamedTuple):
    """A case of c/main.c."""

    title: str
    program: str
    """Which of the cases of c/main.c."""
    options: str
    transports: tuple[str, ...]
    figure: str
    """Which of the figures that the program prints is the result."""
    unit: str
    seconds: float = 0.4
    """How long it is measured, each time."""


def _stream(title: str, options: str, transports: tuple[str, ...], figure: str = "rate") -> Case:
    return Case(title, "stream", options, transports, figure, "1/s")


ONE_CPU = (
    _stream("one to one, 64 B", "--size 64", KERNEL),
    _stream("one to one, 4 KiB", "--size 4096", KERNEL),
    _stream("one to one, 64 KiB", "--size 65536", KERNEL),
    _stream("one to one, 1 MiB", "--size 1048576", ONE_A_CALL),
    _stream("one to 8 listeners, 64 B", "--listeners 8", KERNEL, "deliveries"),
    _stream("one to 100 listeners, 64 B", "--listeners 100", KERNEL, "deliveries"),
    Case("round trip, 64 B", "round-trip", "", ONE_A_CALL, "p50", "ns"),
    *(
        Case(f"a send with {count:,} unrelated bindings", "bindings", f"--others {count}", KBUS[:2], "p50", "ns")
        for count in (10, 1000, 10000)
    ),
)
"""For a machine with one processor."""

TWO_CPUS = (
    *(
        _stream(f"{count} senders at once, 64 B", f"--senders {count}", KERNEL)
        for count in (2, 4, 8)
    ),
    Case("round trip, 64 B, idle", "round-trip", "", KBUS[:2], "p99", "ns", 2),
    Case("round trip, 64 B, 8 flood the bus", "flood", "--others 8 --others-cpu 1", KBUS[:2], "p99", "ns", 2),
)
"""For one with two. Only those who flood the bus use the second one."""

MACHINES = {1: ONE_CPU, 2: TWO_CPUS}
"""The cases by the number of processors."""
