# SPDX-License-Identifier: MIT
"""What is measured, and with which transports."""

from __future__ import annotations

from typing import NamedTuple

KBUS = ("kbus", "transfer", "transfer32")
KERNEL = (*KBUS, "seqpacket", "mmsg", "pipe", "mqueue")
BROKERS = ("dbus-daemon", "dbus-broker", "zeromq", "nats", "mosquitto")
BATCHED = ("transfer32", "mmsg")
ALL = (*KERNEL, *BROKERS)
ONE_A_CALL = tuple(name for name in ALL if name not in BATCHED)

TITLES = {
    "kbus": "KBUS: write, SEND; NEXTMSG, read",
    "transfer": "KBUS: TRANSFER",
    "transfer32": "KBUS: TRANSFER, 32 a call",
    "seqpacket": "SEQPACKET: send, recv",
    "mmsg": "SEQPACKET: sendmmsg, recvmmsg, 32 a call",
    "pipe": "pipe",
    "mqueue": "POSIX message queue",
    "dbus-daemon": "dbus-daemon, sd-bus",
    "dbus-broker": "dbus-broker, sd-bus",
    "zeromq": "ZeroMQ, ipc",
    "nats": "NATS, loopback",
    "mosquitto": "mosquitto, loopback",
    "sbus": "sbus, through the bridge",
}
"""Of the transports."""


class Case(NamedTuple):
    """Something to measure, with each of its transports."""

    title: str
    program: str
    """Which of the cases of c/main.c; "python" is stream.py, "recording" recording.py."""
    options: str
    transports: tuple[str, ...]
    figure: str
    """Which of the figures that the program prints is the result."""
    unit: str
    seconds: float = 0.4
    """How long it is measured, each time."""


def _stream(title: str, options: str, transports: tuple[str, ...], figure: str = "rate") -> Case:
    return Case(title, "stream", options, transports, figure, "1/s")


SIZES = {"64 B": 64, "4 KiB": 4096, "64 KiB": 65536, "1 MiB": 1 << 20}
FANS = (8, 100)
BINDINGS = (10, 1000, 10000)
SENDERS = (2, 4, 8)

ROUND_TRIP = "round trip"
OTHERS = {"nobody": "round-trip", "8 compute": "busy --others 8", "8 flood the bus": "flood --others 8"}
"""What others do during a round trip, and how c/main.c is told."""
SCHEDULERS = {"one": "", "one, SCHED_FIFO": "--first", "two": "--others-cpu 1"}
"""On how many processors, how the two who are measured are scheduled, and how c/main.c is told."""
PYTHON = "one to one, 64 B, Python"
NOT_IN_C = ("python", "recording")
"""Programs that are not cases of c/main.c."""
IN_PYTHON = {
    "kbus": "Ksock: send_msg, iteration",
    "kbus-many": "Ksock: send_msg, receive_many",
    "kbus-batch": "Ksock: send_many of 32, receive_many",
    "seqpacket": "socket, SEQPACKET: send, recv",
}
"""The transports of stream.py, and their titles."""
READ, SEND, STEADY = "recording: reading", "recording: sending", "recording: 1,000 messages a second"
SEND_UNDISTURBED = "recording: sending, SCHED_BATCH"
DAMAGE = "captures: reading what is none"
RECORDER = ("recorder",)
UNDISTURBED = "one to one, 64 B, SCHED_BATCH"


def one_to_one(size: str) -> str:
    """The title of the case with messages of this size, one of SIZES."""
    return f"one to one, {size}"


def one_to_many(listeners: int) -> str:
    """The title of the case with so many listeners."""
    return f"one to {listeners} listeners, 64 B"


def bound(count: int) -> str:
    """The title of the case with so many unrelated bindings."""
    return f"a send with {count:,} unrelated bindings"


def among(others: str, where: str) -> str:
    """The title of a round trip during which others do that, keys of OTHERS and SCHEDULERS."""
    return f"round trip, processors: {where}, others: {others}"


def _among_others(where: str) -> tuple[Case, ...]:
    cases = []
    for others, how in OTHERS.items():
        program, *options = how.split()
        arguments = " ".join([*options, SCHEDULERS[where]])
        cases.append(Case(among(others, where), program, arguments, KBUS[:2], "p99", "ns", 0.5))
    return tuple(cases)


def bridge_to(listeners: int) -> str:
    """The title of the case of the bridge with so many listeners."""
    return f"bridge: one to {listeners}, 64 B"


def bridge_among(subscriptions: int) -> str:
    """The title of a round trip to oneself through the bridge, with so many subscriptions of others."""
    return f"bridge: round trip, {subscriptions:,} unrelated subscriptions"


def many_to_one(senders: int) -> str:
    """The title of the case with so many senders."""
    return f"{senders} senders at once, 64 B"


BRIDGE_FANS = (1, 8, 100)
SUBSCRIPTIONS = (10, 1000, 100_000)
BRIDGE_ROUND_TRIP = "bridge: round trip to oneself"
BRIDGE_STUCK = "bridge: round trip, somebody does not read"
_AGAINST = ("seqpacket", *BROKERS)

BRIDGE = (
    *(
        _stream(bridge_to(count), f"--listeners {count}", ("sbus", *_AGAINST), "deliveries")
        for count in BRIDGE_FANS
    ),
    Case(BRIDGE_ROUND_TRIP, "round-trip", "", ("sbus", *_AGAINST), "p50", "ns", 1),
    Case(BRIDGE_STUCK, "round-trip", "--stuck", ("sbus",), "p99", "ns", 1),
    *(
        Case(bridge_among(count), "round-trip", f"--subscriptions {count}", ("sbus",), "p50", "ns", 1)
        for count in SUBSCRIPTIONS
    ),
)
"""Clients of the sbus bridge, against raw sockets and the brokers."""

ONE_CPU = (
    *BRIDGE,
    *(
        # Nobody puts 32 messages of a megabyte into one call.
        _stream(one_to_one(title), f"--size {size}", ONE_A_CALL if size == 1 << 20 else ALL)
        for title, size in SIZES.items()
    ),
    *(_stream(one_to_many(count), f"--listeners {count}", ALL, "deliveries") for count in FANS),
    _stream(UNDISTURBED, "--undisturbed", KERNEL),
    Case(ROUND_TRIP, "round-trip", "", ONE_A_CALL, "p50", "ns"),
    *(Case(bound(count), "bindings", f"--others {count}", KBUS[:2], "p50", "ns") for count in BINDINGS),
    *_among_others("one"),
    *_among_others("one, SCHED_FIFO"),
    Case(PYTHON, "python", "", tuple(IN_PYTHON), "rate", "1/s", 1),
    Case(READ, "recording", "read", RECORDER, "recorder", "1/s", 2),
    Case(SEND, "recording", "send", RECORDER, "recorded", "ns", 2),
    Case(SEND_UNDISTURBED, "recording", "send --undisturbed", RECORDER, "recorded", "ns", 2),
    Case(STEADY, "recording", "steady", RECORDER, "cpu", "%", 5),
    Case(DAMAGE, "recording", "damage", RECORDER, "rate", "MiB/s", 1),
)
"""For a machine with one processor."""

TWO_CPUS = (
    *(_stream(many_to_one(count), f"--senders {count} --others-cpu 1", KERNEL) for count in SENDERS),
    *_among_others("two"),
)
"""For one with two: those who send at once, and the others of a round trip, are on the second one."""

MACHINES = {1: ONE_CPU, 2: TWO_CPUS}
"""The cases by the number of processors."""
