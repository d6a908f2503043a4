# SPDX-License-Identifier: MIT
"""`python3 -m tests.bench.parts`: what a message from Python to Python takes, by parts, as an rst table.

One process sends and receives each message itself, so that nobody is woken and no switch is counted.
"""

from __future__ import annotations

import os
import socket
import statistics
import sys
import time
from array import array
from collections.abc import Callable
from fcntl import ioctl

from kbus import Announcement, Ksock
from kbus import _abi as abi
from kbus.messages import received
from tests.kernel.transfer import ARGUMENT, NOW

NAME = "$.Bench.Python"
DATA = bytes(64)
ROUNDS = 41
LOOPS = 200
"""Messages between two looks at the clock."""

Part = Callable[[], object]


def sockets() -> Part:
    """send and recv."""
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def part() -> None:
        sender.send(DATA)
        receiver.recv(64)

    return part


def system_calls() -> Part:
    """TRANSFER out and TRANSFER in, with arguments that are there already, and no objects."""
    sender, receiver = Ksock(), Ksock()
    receiver.bind(NAME)
    packet, room, ids = (
        array("B", Announcement(NAME, DATA).to_bytes()),
        array("B", bytes(4096)),
        array("Q", [0]),
    )
    (out_at, length), (room_at, size), (ids_at, _) = (x.buffer_info() for x in (packet, room, ids))
    send = ARGUMENT.pack(out_at, ids_at, 0, NOW, 0, length, *(0,) * 8, 1, 0)
    receive = ARGUMENT.pack(0, 0, room_at, NOW, 0, 0, size, *(0,) * 7, 1, 0)
    argument = bytearray(send)

    # The memory must be there for as long as the function is.
    def part(_memory: object = (packet, room, ids)) -> None:
        argument[:] = send
        ioctl(sender, abi.IOC_TRANSFER, argument)
        argument[:] = receive
        ioctl(receiver, abi.IOC_TRANSFER, argument)

    part()
    assert room[:length] != array("B", bytes(length)), "nothing came"
    return part


def ksocks() -> Part:
    """All of it."""
    sender, receiver = Ksock(), Ksock()
    receiver.bind(NAME)

    def part() -> None:
        sender.send_msg(Announcement(NAME, DATA))
        assert receiver.read_next_msg()

    return part


def making() -> Part:
    """The object that is sent, and its bytes."""
    return lambda: Announcement(NAME, DATA).to_bytes()


def taking_apart() -> Part:
    """The object that is received."""
    packet = Announcement(NAME, DATA).to_bytes()
    return lambda: received(packet, 1)


PARTS: dict[str, Callable[[], Part]] = {
    "socket: ``send`` and ``recv``": sockets,
    "Ksock: ``send_msg(Announcement(...))`` and ``read_next_msg()``": ksocks,
    "of that, two TRANSFERs with arguments that are kept": system_calls,
    "of that, ``Announcement(...)`` and its bytes": making,
    "of that, a ``Message`` of the bytes": taking_apart,
}


def main() -> int:
    """Print the table, in microseconds of one processor."""
    os.sched_setaffinity(0, {0})
    parts = {what: make() for what, make in PARTS.items()}
    times: dict[str, list[float]] = {what: [] for what in parts}
    # In turn, so that what disturbs the machine meets all of them.
    for _ in range(ROUNDS):
        for what, part in parts.items():
            began = time.perf_counter_ns()
            for _ in range(LOOPS):
                part()
            times[what].append((time.perf_counter_ns() - began) / LOOPS / 1000)
    medians = {what: statistics.median(each) for what, each in times.items()}
    whole = medians["socket: ``send`` and ``recv``"]
    print(".. SPDX-License-Identifier: MIT\n.. Made by `make bench`.\n")
    print(".. list-table::\n   :header-rows: 1\n   :widths: 60 20 20\n")
    print("   * - 64 bytes, sent and received by one process\n     - microseconds\n     - of a socket's")
    for what, median in medians.items():
        print(f"   * - {what}\n     - {median:.1f}\n     - {median / whole:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
