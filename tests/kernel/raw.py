# SPDX-License-Identifier: MIT
"""The ABI by hand: bytes of messages and numbers of ioctls, without help from the package `kbus`.

The numbers are spelled out here a second time, so that the tests have a witness of their own. `test_c.py`
compares them with what a C program and the package see.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from tests.kernel import stand_in

START_GUARD = 0x7375626B
END_GUARD = 0x6B627573

WANT_A_REPLY = 1 << 0
WANT_YOU_TO_REPLY = 1 << 1
SYNTHETIC = 1 << 2
URGENT = 1 << 3
ALL_OR_WAIT = 1 << 8
ALL_OR_FAIL = 1 << 9
EXTENDED = 1 << 10
RESERVED_BITS = (4, 5, 6, 7, 11, 12, 13, 14, 15)

LISTENER, REPLIER, OBSERVER = 0, 1, 2
"""Kinds of bindings."""

ON, OFF, ASK = 1, 0, 0xFFFFFFFF
"""Values of the switches MSGONLYONCE, VERBOSE, REPORTREPLIERBINDS and REPORTLOST."""

MAX_NAME_LEN = 1000

_SIZES_AND_DIRECTIONS = {
    "RESET": (1, 0, 0),
    "BIND": (2, 1, 16),
    "UNBIND": (3, 1, 16),
    "KSOCKID": (4, 2, 4),
    "REPLIER": (5, 3, 16),
    "NEXTMSG": (6, 2, 4),
    "LENLEFT": (7, 2, 4),
    "SEND": (8, 2, 8),
    "DISCARD": (9, 0, 0),
    "LASTSENT": (10, 2, 8),
    "MAXMSGS": (11, 3, 4),
    "NUMMSGS": (12, 2, 4),
    "UNREPLIEDTO": (13, 2, 4),
    "MSGONLYONCE": (14, 3, 4),
    "VERBOSE": (15, 3, 4),
    "NEWDEVICE": (16, 2, 4),
    "REPORTREPLIERBINDS": (17, 3, 4),
    "MAXMSGSIZE": (18, 3, 4),
    "TRANSFER": (32, 3, 112),
    "LOSTMSGS": (33, 2, 8),
    "REPORTLOST": (34, 3, 4),
    "RESOLVE": (35, 3, 16),
    "ABANDON": (36, 1, 8),
    "PEERINFO": (37, 3, 16),
}

IOCTLS = {
    name: direction << 30 | size << 16 | ord("k") << 8 | number
    for name, (number, direction, size) in _SIZES_AND_DIRECTIONS.items()
}
"""Every ioctl by name. Direction 1 is _IOW, 2 _IOR, 3 _IOWR; sizes are bytes."""

Pair = tuple[int, int]


class HasFileno(Protocol):
    """An open KSock: a `kbus.Ksock`, a `Descriptor`."""

    def fileno(self) -> int: ...


class Descriptor(NamedTuple):
    """A bare file descriptor as a KSock."""

    fd: int

    def fileno(self) -> int:
        return self.fd


class Packet(NamedTuple):
    """A message as its bytes say, nothing interpreted."""

    id: Pair
    in_reply_to: Pair
    to: int
    from_: int
    flags: int
    extended: tuple[int, int, int, int] | None
    name: bytes
    data: bytes


def message(
    name: bytes,
    data: bytes = b"",
    *,
    flags: int = 0,
    to: int = 0,
    from_: int = 0,
    id: Pair = (0, 0),
    in_reply_to: Pair = (0, 0),
    extended: tuple[int, int, int, int] | None = None,
    start: int = START_GUARD,
    end: int = END_GUARD,
    name_len: int | None = None,
    data_len: int | None = None,
    padding: bytes = b"\0\0\0",
) -> bytes:
    """The bytes of a message. `data` is whole words; the last arguments are for messages that are wrong.

    `name_len` (bytes) and `data_len` (words) default to the truth; `padding` gives the bytes after the name.
    """
    assert len(data) % 4 == 0, "data is whole words"
    if extended is not None:
        flags |= EXTENDED
    words = (
        *(start, *id, *in_reply_to, to, from_, flags),
        len(name) if name_len is None else name_len,
        len(data) // 4 if data_len is None else data_len,
        *(extended or ()),
    )
    return (
        struct.pack(f"={len(words)}I", *words)
        + name
        + padding[: -len(name) % 4]
        + data
        + struct.pack("=I", end)
    )


def parse(packet: bytes) -> Packet:
    """Take a received message apart, and assert that its frame is right."""
    words = struct.unpack_from("=10I", packet)
    assert words[0] == START_GUARD
    flags, name_len, data_len = words[7:]
    offset = 40
    extended = None
    if flags & EXTENDED:
        extended = struct.unpack_from("=4I", packet, offset)
        offset += 16
    name = packet[offset : offset + name_len]
    offset += name_len
    padding = packet[offset : offset + -name_len % 4]
    assert not any(padding)
    offset += len(padding)
    data = packet[offset : offset + data_len * 4]
    assert packet[offset + data_len * 4 :] == struct.pack("=I", END_GUARD)
    return Packet(words[1:3], words[3:5], words[5], words[6], flags, extended, name, data)


def command(ksock: HasFileno, name: str, argument: int = 0) -> int:
    """Call the ioctl with a number, which to it is an address, as its argument. Gives what it returns."""
    return fcntl.ioctl(ksock.fileno(), IOCTLS[name], argument)


def number(ksock: HasFileno, name: str, value: int = 0) -> int:
    """Call an ioctl whose argument is one u32 (u64 for LOSTMSGS), and give what came back in it."""
    return returned_and_number(ksock, name, value)[1]


def returned_and_number(ksock: HasFileno, name: str, value: int = 0) -> tuple[int, int]:
    """Like `number`, with the return value of the ioctl first."""
    size = IOCTLS[name] >> 16 & 0x3FFF
    argument = bytearray(value.to_bytes(size, sys.byteorder))
    returned = fcntl.ioctl(ksock.fileno(), IOCTLS[name], argument)
    return returned, int.from_bytes(argument, sys.byteorder)


def bind_request(
    ksock: HasFileno,
    which: str,
    name: bytes,
    *,
    is_replier: int = 0,
    name_len: int | None = None,
    address: int | None = None,
) -> None:
    """BIND or UNBIND as `which` says; `name_len` and `address` (of the name) default to the truth."""
    if address:
        stand_in.cannot(stand_in.Lacks.ADDRESSES)
    buffer = ctypes.create_string_buffer(name, max(len(name), 1))
    length = len(name) if name_len is None else name_len
    where = ctypes.addressof(buffer) if address is None else address
    fcntl.ioctl(ksock.fileno(), IOCTLS[which], struct.pack("=IIQ", is_replier, length, where))


def replier_query(
    ksock: HasFileno,
    which: str,
    name: bytes,
    *,
    ksock_id: int = 0,
    name_len: int | None = None,
    address: int | None = None,
) -> tuple[int, int]:
    """REPLIER or RESOLVE as `which` says: what the ioctl returned, and the KSock id that came back."""
    if address:
        stand_in.cannot(stand_in.Lacks.ADDRESSES)
    buffer = ctypes.create_string_buffer(name, max(len(name), 1))
    length = len(name) if name_len is None else name_len
    where = ctypes.addressof(buffer) if address is None else address
    argument = bytearray(struct.pack("=IIQ", ksock_id, length, where))
    returned = fcntl.ioctl(ksock.fileno(), IOCTLS[which], argument)
    return returned, struct.unpack_from("=I", argument)[0]


def msg_id(ksock: HasFileno, name: str) -> Pair:
    """SEND or LASTSENT: the message id that comes back."""
    argument = bytearray(8)
    fcntl.ioctl(ksock.fileno(), IOCTLS[name], argument)
    network_id, serial = struct.unpack("=2I", argument)
    return network_id, serial


def abandon(ksock: HasFileno, id: Pair) -> None:
    """ABANDON the Request with this id."""
    fcntl.ioctl(ksock.fileno(), IOCTLS["ABANDON"], struct.pack("=2I", *id))


def peer_info(ksock: HasFileno, ksock_id: int) -> tuple[int, int, int, int]:
    """PEERINFO: KSock id, pid, uid and gid."""
    argument = bytearray(struct.pack("=4I", ksock_id, 0, 0, 0))
    fcntl.ioctl(ksock.fileno(), IOCTLS["PEERINFO"], argument)
    asked, pid, uid, gid = struct.unpack("=4I", argument)
    return asked, pid, uid, gid


def send(ksock: HasFileno, packet: bytes) -> Pair:
    """Write a whole message and SEND it. Gives its id."""
    assert os.write(ksock.fileno(), packet) == len(packet)
    return msg_id(ksock, "SEND")


def receive(ksock: HasFileno) -> bytes:
    """NEXTMSG and one `read`: the bytes of the next message, b"" if there is none."""
    returned, length = returned_and_number(ksock, "NEXTMSG")
    assert returned == (1 if length else 0)
    packet = os.read(ksock.fileno(), length + 1)
    assert len(packet) == length
    return packet


def receive_all(ksock: HasFileno) -> list[Packet]:
    """Take every message that is queued."""
    return [parse(packet) for packet in iter(lambda: receive(ksock), b"")]


class EdgeOfMemory:
    """Memory whose last byte is followed by a page that cannot be touched, until `close`."""

    def __init__(self) -> None:
        stand_in.cannot(stand_in.Lacks.ADDRESSES)
        self._map = mmap.mmap(-1, 2 * mmap.PAGESIZE)
        self._page = (ctypes.c_char * mmap.PAGESIZE).from_buffer(self._map)
        self._edge = ctypes.addressof(self._page) + mmap.PAGESIZE
        self._protect(0)

    def close(self) -> None:
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)
        del self._page
        self._map.close()

    def _protect(self, protection: int, pages_before: int = 0) -> None:
        page = self._edge - pages_before * mmap.PAGESIZE
        assert _libc.mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, protection) == 0

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """In the block, the memory cannot be written."""
        self._protect(mmap.PROT_READ, pages_before=1)
        try:
            yield
        finally:
            self._protect(mmap.PROT_READ | mmap.PROT_WRITE, pages_before=1)

    @contextmanager
    def readable_beyond(self) -> Iterator[None]:
        """In the block, the page that follows can be read, and is all zeros; it cannot be written."""
        self._protect(mmap.PROT_READ)
        try:
            yield
        finally:
            self._protect(0)

    def before_end(self, count: int) -> int:
        """The address `count` bytes before the end."""
        return self._edge - count

    def store(self, content: bytes) -> int:
        """Put bytes right before the end. Gives their address."""
        self._map[mmap.PAGESIZE - len(content) : mmap.PAGESIZE] = content
        return self.before_end(len(content))

    def last(self, count: int) -> bytes:
        """The last `count` bytes."""
        return self._map[mmap.PAGESIZE - count : mmap.PAGESIZE]


_libc = ctypes.CDLL(None, use_errno=True)


def read_to(ksock: HasFileno, address: int, count: int) -> int:
    """read(2) to an address; gives the number of bytes."""
    return _checked(_libc.read(ksock.fileno(), ctypes.c_void_p(address), ctypes.c_size_t(count)))


def write_from(ksock: HasFileno, address: int, count: int) -> int:
    """write(2) from an address; gives the number of bytes."""
    return _checked(_libc.write(ksock.fileno(), ctypes.c_void_p(address), ctypes.c_size_t(count)))


def ioctl_at(ksock: HasFileno, name: str, address: int) -> int:
    """Call the ioctl with its argument at an address of any width. Gives what it returns."""
    return _checked(_libc.ioctl(ksock.fileno(), ctypes.c_ulong(IOCTLS[name]), ctypes.c_void_p(address)))


def _checked(result: int) -> int:
    stand_in.cannot(stand_in.Lacks.CALLS)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
