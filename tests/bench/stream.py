# SPDX-License-Identifier: MIT
"""How many messages come through from one Python process to another.

`python3 -m tests.bench.stream TRANSPORT` does what the case "stream" of c/main.c does, with the package
`kbus` or with `socket`, and prints the same.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Protocol

from kbus import Announcement, Ksock, Message

from .cases import IN_PYTHON

NAME = "$.Bench.Python"
DEPTH = 256
"""Messages that may be under way, as for the programs in C."""
CHUNK = 16
"""How often the clock is looked at, in messages."""
LAST = 1
"""The first byte of the last message; that of all others is 0."""


class Transport(Protocol):
    """A way to send data, from one process to another."""

    def open_sender(self) -> None:
        """Be the sender, in a process of its own."""

    def open_receiver(self) -> None:
        """Be the receiver."""

    def send(self, data: bytes) -> None:
        """Wait until there is room."""

    def received(self) -> Iterator[bytes]:
        """Wait for data, for ever."""


class Bus:
    """An announcement for each message, made anew as programs do it."""

    ksock: Ksock

    def open_sender(self) -> None:
        self.ksock = Ksock()

    def open_receiver(self) -> None:
        self.ksock = Ksock()
        self.ksock.set_max_messages(DEPTH)
        self.ksock.bind(NAME)

    def send(self, data: bytes) -> None:
        self.ksock.send_msg(Announcement(NAME, data, flags=Message.ALL_OR_WAIT))

    def received(self) -> Iterator[bytes]:
        while message := self.ksock.wait_for_msg():
            yield message.data or b""
            for queued in self.ksock:
                yield queued.data or b""


class Many(Bus):
    """Whatever is queued is received with one call."""

    def received(self) -> Iterator[bytes]:
        while True:
            for message in self.ksock.receive_many():
                yield message.data or b""


class Batch(Many):
    """And so many messages are sent with one."""

    AT_ONCE = 32

    def __init__(self) -> None:
        self._waiting: list[Message] = []

    def send(self, data: bytes) -> None:
        self._waiting.append(Announcement(NAME, data, flags=Message.ALL_OR_WAIT))
        if len(self._waiting) == self.AT_ONCE or data[0] == LAST:
            self.ksock.send_many(self._waiting)
            self._waiting.clear()


class SeqPacket:
    """A pair of sockets, with as much room as c/by_seqpacket.c gives them."""

    def __init__(self, size: int) -> None:
        self.sender, self.receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, DEPTH * (size + 1024) // 2)
        self.size = size

    def open_sender(self) -> None:
        pass

    def open_receiver(self) -> None:
        pass

    def send(self, data: bytes) -> None:
        self.sender.send(data)

    def received(self) -> Iterator[bytes]:
        while True:
            yield self.receiver.recv(self.size)


def main() -> int:
    """Print a line of JSON; 1 if a message was lost."""
    parser = argparse.ArgumentParser(prog="tests.bench.stream")
    parser.add_argument("transport", choices=list(IN_PYTHON))
    parser.add_argument("--size", type=int, default=64, help="bytes of data in a message")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--patient", action="store_true", help="nobody takes the processor from anybody")
    options = parser.parse_args()
    os.sched_setaffinity(0, {0})
    if options.patient:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    transports = {"kbus": Bus, "kbus-many": Many, "kbus-batch": Batch}
    make = transports.get(options.transport)
    by: Transport = make() if make else SeqPacket(options.size)
    from_child, to_parent = os.pipe()
    if (child := os.fork()) == 0:
        signal.alarm(60)
        _receive(by, to_parent)
    by.open_sender()
    os.read(from_child, 1)
    began = time.monotonic()
    sent = _send(by, options.size, began + options.seconds)
    received = int(os.read(from_child, 100))
    took = time.monotonic() - began
    os.waitpid(child, 0)
    if received != sent:
        print(f"stream: {received} messages of {sent} came", file=sys.stderr)
        return 1
    print(json.dumps({"messages": sent, "seconds": took, "rate": sent / took}))
    return 0


def _receive(by: Transport, tell: int) -> None:
    """In the child: say when it is ready, and how many messages came, and exit."""
    by.open_receiver()
    os.write(tell, b"r")
    count = 0
    for data in by.received():
        count += 1
        if data[0] == LAST:
            break
    os.write(tell, b"%d" % count)
    os._exit(0)


def _send(by: Transport, size: int, until: float) -> int:
    """Send until then, in seconds of the monotonic clock; how many."""
    data = bytes(size)
    count = 0
    while time.monotonic() < until:
        for _ in range(CHUNK):
            by.send(data)
        count += CHUNK
    by.send(bytes([LAST]) + data[1:])
    return count + 1


if __name__ == "__main__":
    sys.exit(main())
