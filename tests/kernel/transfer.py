# SPDX-License-Identifier: MIT
"""TRANSFER by hand: the argument, its buffers, and what comes back."""

from __future__ import annotations

import ctypes
import fcntl
import struct
import time
from dataclasses import dataclass, field

from tests.kernel import raw, stand_in

ARGUMENT = struct.Struct("=5Q10IQ24x")
RESERVED = struct.Struct("=88x6I")
"""What the argument ends with: `flags` and `reserved`."""
NOW, NEVER = 0, (1 << 64) - 1
"""Values of a deadline."""


def pack(*packets: bytes) -> bytes:
    """Messages as TRANSFER wants them, without padding after the last one."""
    padded = [packet + b"\xaa" * (-len(packet) % 8) for packet in packets[:-1]]
    return b"".join([*padded, *packets[-1:]])


def unpack(count: int, content: bytes) -> list[bytes]:
    """The `count` messages in a buffer that TRANSFER has filled; it must be full of them."""
    packets = []
    for _ in range(count):
        name_len, data_len = struct.unpack_from("=2I", content, 32)
        length = 40 + (16 if content[29] & 4 else 0) + (name_len + 3 & ~3) + 4 * data_len + 4
        packets.append(content[:length])
        content = content[length + 7 & ~7 :]
    assert content == b""
    return packets


def soon(seconds: float) -> int:
    """A deadline so long from now."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(seconds * 1e9)


@dataclass
class Transfer:
    """The argument of TRANSFER, with memory for what it points to."""

    to_send: bytes = b""
    room: int = 1 << 16
    deadline: int = NOW
    kept: int = 0
    receive_max: int = 0
    timed: bool = False
    reserved: tuple[int, ...] = (0,) * 6
    sent: int = 0
    error: int = 0
    received: int = 0
    received_len: int = 0
    queued: int = 0
    next_len: int = 0
    lost: int = 0
    ids: list[raw.Pair] = field(default_factory=list)
    packets: list[bytes] = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def call(self, ksock: raw.HasFileno, addresses: dict[str, int] | None = None) -> Transfer:
        """Make the call. `addresses` are used in place of those of good memory: send, ids, receive, times."""
        if any((addresses or {}).values()):
            stand_in.cannot(stand_in.Lacks.ADDRESSES)
        send = ctypes.create_string_buffer(self.to_send, max(len(self.to_send), 1))
        receive = ctypes.create_string_buffer(max(self.room, 1))
        ids = (ctypes.c_uint32 * 2000)()
        times = (ctypes.c_uint64 * (self.room // 48 + 1))()
        where = {
            "send": ctypes.addressof(send),
            "ids": ctypes.addressof(ids),
            "receive": ctypes.addressof(receive),
            "times": ctypes.addressof(times) if self.timed else 0,
            **(addresses or {}),
        }
        argument = bytearray(
            ARGUMENT.pack(
                *(where["send"], where["ids"], where["receive"], self.deadline, 99),
                *(len(self.to_send), self.room, 99, 99, self.kept, 99, 99, 99, 99, self.receive_max),
                where["times"],
            )
        )
        struct.pack_into("=6I", argument, RESERVED.size - 24, *self.reserved)
        fcntl.ioctl(ksock.fileno(), raw.IOCTLS["TRANSFER"], argument)
        assert RESERVED.unpack(argument) == self.reserved
        words = ARGUMENT.unpack(argument)
        assert words[1:4] == (where["ids"], where["receive"], self.deadline)
        left = words[5]
        assert words[0] - where["send"] == len(self.to_send) - left
        assert (words[6], *words[14:]) == (self.room, self.receive_max, where["times"])
        self.to_send = self.to_send[len(self.to_send) - left :]
        self.lost = words[4]
        self.sent, self.error, self.kept = words[7:10]
        self.received, self.received_len, self.queued, self.next_len = words[10:14]
        self.ids = [(ids[2 * i], ids[2 * i + 1]) for i in range(self.sent)] if where["ids"] else []
        self.packets = unpack(self.received, receive.raw[: self.received_len])
        self.times = times[: self.received]
        return self


def send(ksock: raw.HasFileno, *packets: bytes, deadline: int = NOW) -> Transfer:
    """TRANSFER with messages to send only."""
    return Transfer(pack(*packets), room=0, deadline=deadline).call(ksock)


def receive(ksock: raw.HasFileno, room: int = 1 << 16, deadline: int = NOW) -> Transfer:
    """TRANSFER with room for messages only."""
    return Transfer(room=room, deadline=deadline).call(ksock)
