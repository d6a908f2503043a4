# SPDX-License-Identifier: MIT
"""Recordings to measure with: any number of messages, of which two fifths are requests and replies."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from kbus import _abi as abi
from kbus.capture import Frame, Writer
from tests.pipeline.captures import NOON, info

DEVICES = 16
#: Messages a second on a device
RATE = 1000
#: Messages in a file, some 64 MiB
IN_A_FILE = 400_000
_STEP = 1_000_000_000 // RATE
#: Messages that are written at once
_TOGETHER = 1000


def _packer(name: bytes, data_len: int) -> struct.Struct:
    return struct.Struct(f"=10I{(len(name) + 3) & ~3}s{data_len}sI")


def messages(device: int) -> Iterator[bytes]:
    """Messages of a device without an end: per ten, six readings, two requests, and the replies to earlier
    ones.
    """
    readings = [f"$.Sensor.Room{room}.Temperature".encode() for room in range(20)]
    asked = [f"$.Actor.Valve{valve}.State".encode() for valve in range(10)]
    packers = {name: _packer(name, 32) for name in (*readings, *asked)}
    data = bytes(range(32))
    start, end = abi.MSG_START_GUARD, abi.MSG_END_GUARD
    serial = 1 + device
    waiting: list[tuple[int, bytes]] = []
    number = 0
    while True:
        kind = number % 10
        number += 1
        if kind < 6:
            name = readings[(number * 7) % len(readings)]
            yield packers[name].pack(start, 0, serial, 0, 0, 0, 5, 0, len(name), 8, name, data, end)
        elif kind < 8:
            name = asked[(number // 10) % len(asked)]
            waiting.append((serial, name))
            yield packers[name].pack(
                start, 0, serial, 0, 0, 0, 20, abi.BIT_WANT_A_REPLY, len(name), 8, name, data, end
            )
        else:
            of, name = waiting.pop(0)
            yield packers[name].pack(start, 0, serial, 0, of, 20, 11, 0, len(name), 8, name, data, end)
        serial += 1


def write(where: Path, count: int) -> int:
    """Write captures with ``count`` messages to a directory; return their bytes."""
    where.mkdir(parents=True)
    total = 0
    for device in range(DEVICES):
        left = count // DEVICES
        source = messages(device)
        number = 0
        files = 0
        while left:
            files += 1
            path = where / f"device{device:02d}-0-20260301T120000Z-{files:04d}.pcapng"
            with path.open("wb") as file:
                writer = Writer(file, info(f"device{device:02d}", f"boot{device}", f"load{device}"), [0])
                for _ in range(0, min(left, IN_A_FILE), _TOGETHER):
                    some = list(islice(source, min(_TOGETHER, left)))
                    # They are told apart by their numbers, and read at the same time, as a busy recorder does
                    # it.
                    frame = Frame(number + 1, 10**9 + number * _STEP, 0)
                    writer.write(0, NOON + number * _STEP, frame, some)
                    number += len(some)
                    left -= len(some)
                writer.write_statistics(NOON + number * _STEP, [0])
            total += path.stat().st_size
    return total


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), int(sys.argv[2])))
