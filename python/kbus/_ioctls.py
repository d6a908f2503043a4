# SPDX-License-Identifier: MIT
"""The ioctls of a KSock, by the shape of their argument.

Each function raises OSError with the errno that the kernel gave, and ValueError for a number
that does not fit 32 bits or a file that is closed.
"""

from __future__ import annotations

from array import array
from typing import Optional

from . import _abi as abi
from ._device import DeviceFile
from ._ids import MessageId


def plain(file: DeviceFile, number: int) -> None:
    """Call an ioctl that has no argument."""
    file.ioctl(file, number)


def u32(file: DeviceFile, number: int, value: int = 0) -> int:
    """Call an ioctl on a u32, which is ``value`` before, and return what it is after."""
    argument = bytearray(abi.U32.pack(abi.check_u32("argument", value)))
    file.ioctl(file, number, argument)
    return int(abi.U32.unpack(argument)[0])


def switch(file: DeviceFile, number: int, on: bool, just_ask: bool) -> bool:
    """Set a switch, or only ask, and return what it was before."""
    wanted = abi.SWITCH_ON if on else abi.SWITCH_OFF
    return bool(u32(file, number, abi.SWITCH_ASK if just_ask else wanted))


def message_id(file: DeviceFile, number: int, given: Optional[MessageId] = None) -> MessageId:
    """Call an ioctl on a message id, which is ``given`` before, and return what it is after."""
    pair = (given.network_id, given.serial_num) if given else (0, 0)
    argument = bytearray(abi.MSG_ID.pack(*pair))
    file.ioctl(file, number, argument)
    return MessageId(*abi.MSG_ID.unpack(argument))


def name_query(file: DeviceFile, number: int, name: str, first: int = 0) -> int:
    """Call an ioctl on a u32, which is ``first`` before, and a name; return what the u32 is after."""
    try:
        encoded = name.encode()
    except AttributeError:
        raise TypeError(f"a message name is a str, not {type(name).__name__}") from None
    # The NUL is not part of the name. It gives even an empty one an address.
    buffer = array("B", encoded + b"\0")
    argument = bytearray(abi.NAME_QUERY.pack(first, len(encoded), buffer.buffer_info()[0]))
    file.ioctl(file, number, argument)
    return int(abi.NAME_QUERY.unpack(argument)[0])


def peer_info(file: DeviceFile, ksock_id: int) -> tuple[int, int, int, int]:
    """Return ksock_id, and pid, uid and gid of the process that opened the KSock with this id."""
    argument = bytearray(abi.PEER_INFO.pack(abi.check_u32("ksock_id", ksock_id), 0, 0, 0))
    file.ioctl(file, abi.IOC_PEERINFO, argument)
    ksock_id, pid, uid, gid = abi.PEER_INFO.unpack(argument)
    return ksock_id, pid, uid, gid


def lost_messages(file: DeviceFile) -> int:
    """Return how many messages this KSock has missed."""
    argument = bytearray(abi.LOST_MSGS.size)
    file.ioctl(file, abi.IOC_LOSTMSGS, argument)
    return int(abi.LOST_MSGS.unpack(argument)[0])
