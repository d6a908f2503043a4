# SPDX-License-Identifier: MIT
"""The kernel ABI as Python sees it: what ``linux/kbus.h`` defines, under the same names.

Every struct is in the machine's byte order without padding of its own, so a
``struct.Struct`` with ``=`` has its layout for 32-bit and 64-bit processes alike.
"""

from __future__ import annotations

import platform
import struct

MSG_START_GUARD = 0x7375626B
MSG_END_GUARD = 0x6B627573

MIN_NAME_LEN = 3
MAX_NAME_LEN = 1000
MIN_MAX_MSG_SIZE = 100

BIT_WANT_A_REPLY = 1 << 0
BIT_WANT_YOU_TO_REPLY = 1 << 1
BIT_SYNTHETIC = 1 << 2
BIT_URGENT = 1 << 3
BIT_ALL_OR_WAIT = 1 << 8
BIT_ALL_OR_FAIL = 1 << 9
BIT_EXTENDED = 1 << 10
BITS_RESERVED = 0x0000F8F0
BITS_USER = 0x3FFF0000
BITS_DATA_PAD = 0xC0000000
DATA_PAD_SHIFT = 30

NAME_REPLIER_GONEAWAY = "$.KBUS.Replier.GoneAway"
NAME_REPLIER_IGNORED = "$.KBUS.Replier.Ignored"
NAME_REPLIER_UNBOUND = "$.KBUS.Replier.Unbound"
NAME_REPLIER_NOROOM = "$.KBUS.Replier.NoRoom"
NAME_REPLIER_BIND_EVENT = "$.KBUS.ReplierBindEvent"
NAME_UNBIND_EVENTS_LOST = "$.KBUS.UnbindEventsLost"
NAME_MESSAGES_LOST = "$.KBUS.MessagesLost"

BIND_LISTENER = 0
BIND_REPLIER = 1
BIND_OBSERVER = 2

SWITCH_OFF = 0
SWITCH_ON = 1
SWITCH_ASK = 0xFFFFFFFF

TRANSFER_NOW = 0
TRANSFER_NEVER = 0xFFFFFFFFFFFFFFFF
TRANSFER_ALIGN = 8

U32_MAX = 0xFFFFFFFF

U32 = struct.Struct("=I")
#: network_id, serial_num
MSG_ID = struct.Struct("=2I")
#: network_id, local_id
ORIG_FROM = struct.Struct("=2I")
#: start_guard, id (2), in_reply_to (2), to, from, flags, name_len, data_len
MESSAGE_HEADER = struct.Struct("=10I")
#: is_bind, binder, name_len
BIND_EVENT = struct.Struct("=3I")
#: kbus_bind_request and kbus_replier_query: is_replier or ksock_id, name_len, name (address)
NAME_QUERY = struct.Struct("=2IQ")
#: count
LOST_MSGS = struct.Struct("=Q")
#: send, ids, receive (addresses), deadline, lost; send_len, receive_len, sent, error, kept, received,
#: received_len, queued, next_len, receive_max; times (address); flags, reserved (5), all of them 0
TRANSFER = struct.Struct("=5Q10IQ6I")
#: ksock_id, pid, uid, gid
PEER_INFO = struct.Struct("=4I")

# How an ioctl's number encodes the size of its argument and its direction.
if platform.machine().startswith(("alpha", "mips", "ppc", "sparc")):
    _SIZE_BITS, _NONE, _READ, _WRITE = 13, 1, 2, 4
elif platform.machine().startswith("parisc"):
    _SIZE_BITS, _NONE, _READ, _WRITE = 14, 0, 1, 2
else:
    _SIZE_BITS, _NONE, _READ, _WRITE = 14, 0, 2, 1

IOC_MAGIC = "k"


def _ioc(direction: int, number: int, size: int) -> int:
    return direction << (16 + _SIZE_BITS) | size << 16 | ord(IOC_MAGIC) << 8 | number


def _io(number: int) -> int:
    return _ioc(_NONE, number, 0)


def _ior(number: int, argument: struct.Struct) -> int:
    return _ioc(_READ, number, argument.size)


def _iow(number: int, argument: struct.Struct) -> int:
    return _ioc(_WRITE, number, argument.size)


def _iowr(number: int, argument: struct.Struct) -> int:
    return _ioc(_READ | _WRITE, number, argument.size)


IOC_RESET = _io(1)
IOC_BIND = _iow(2, NAME_QUERY)
IOC_UNBIND = _iow(3, NAME_QUERY)
IOC_KSOCKID = _ior(4, U32)
IOC_REPLIER = _iowr(5, NAME_QUERY)
IOC_NEXTMSG = _ior(6, U32)
IOC_LENLEFT = _ior(7, U32)
IOC_SEND = _ior(8, MSG_ID)
IOC_DISCARD = _io(9)
IOC_LASTSENT = _ior(10, MSG_ID)
IOC_MAXMSGS = _iowr(11, U32)
IOC_NUMMSGS = _ior(12, U32)
IOC_UNREPLIEDTO = _ior(13, U32)
IOC_MSGONLYONCE = _iowr(14, U32)
IOC_VERBOSE = _iowr(15, U32)
IOC_NEWDEVICE = _ior(16, U32)
IOC_REPORTREPLIERBINDS = _iowr(17, U32)
IOC_MAXMSGSIZE = _iowr(18, U32)
IOC_TRANSFER = _iowr(32, TRANSFER)
IOC_LOSTMSGS = _ior(33, LOST_MSGS)
IOC_REPORTLOST = _iowr(34, U32)
IOC_RESOLVE = _iowr(35, NAME_QUERY)
IOC_ABANDON = _iow(36, MSG_ID)
IOC_PEERINFO = _iowr(37, PEER_INFO)


def check_u32(what: str, value: int) -> int:
    """Return ``value``, which must be an int and fit an unsigned 32-bit field.

    Raises TypeError or ValueError, which call it ``what``.
    """
    if not isinstance(value, int):
        raise TypeError(f"{what} is an int, not {type(value).__name__}")
    if not 0 <= value <= U32_MAX:
        raise ValueError(f"{what} is {value}, which is not between 0 and {U32_MAX}")
    return value


def padded(length: int) -> int:
    """Return ``length``, in bytes, rounded up to whole 32-bit words."""
    return (length + 3) & ~3
