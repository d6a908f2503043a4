# SPDX-License-Identifier: MIT
"""A message as bytes: from fields to bytes and back. Source: the ABI, 'A message, as bytes'."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Optional, Union

from . import _abi as abi
from ._ids import MessageId, OrigFrom, trusted_id

if TYPE_CHECKING:
    from .messages import Message


class Fields(NamedTuple):
    """What a message consists of, in the order of its bytes.

    A pair of zeros, which means 'none', is None here, and so is data of no bytes. ``flags``
    are without the count of padding bytes (bits 30 and 31).
    """

    id: Optional[MessageId]
    in_reply_to: Optional[MessageId]
    to: int
    from_: int
    orig_from: Optional[OrigFrom]
    final_to: Optional[OrigFrom]
    flags: int
    name: str
    data: Optional[bytes]


_EXTENSION_SIZE = 2 * abi.ORIG_FROM.size
_MIN_LENGTH = abi.MESSAGE_HEADER.size + abi.U32.size
# For encode and decode_into: looking these up in abi for each message would take much of their time.
_unpack_header = abi.MESSAGE_HEADER.unpack_from
_HEADER_SIZE = abi.MESSAGE_HEADER.size
_EXTENDED, _DATA_PAD, _DATA_PAD_SHIFT = abi.BIT_EXTENDED, abi.BITS_DATA_PAD, abi.DATA_PAD_SHIFT
_START_GUARD, _END_GUARD = abi.MSG_START_GUARD, abi.MSG_END_GUARD


def length(parts: Union[Fields, Message]) -> int:
    """Return how many bytes ``encode`` makes of ``parts``."""
    extension = _EXTENSION_SIZE if parts.flags & abi.BIT_EXTENDED else 0
    name_and_data = abi.padded(len(parts.name.encode())) + abi.padded(len(parts.data or b""))
    return _MIN_LENGTH + extension + name_and_data


# Finding out what a format means takes longer than packing with it.
@lru_cache(maxsize=256)
def _packer(extension_words: int, name_words: int, data_words: int) -> Callable[..., bytes]:
    """Return what packs a whole message; it pads name and data with zeros."""
    return struct.Struct(f"=10I{extension_words}I{4 * name_words}s{4 * data_words}sI").pack


def encode(parts: Union[Fields, Message]) -> bytes:
    """Return the bytes of a message.

    ``orig_from`` and ``final_to`` are left out unless ``flags`` has BIT_EXTENDED.
    """
    name = parts.name.encode()
    name_len = len(name)
    data = parts.data or b""
    data_words = (len(data) + 3) >> 2
    flags = parts.flags
    flags_and_pad = flags | (-len(data) & 3) << _DATA_PAD_SHIFT
    id, in_reply_to = parts.id, parts.in_reply_to
    if id is None and in_reply_to is None and not flags & _EXTENDED:
        # Nearly all messages that are sent are like this.
        return _packer(0, (name_len + 3) >> 2, data_words)(
            _START_GUARD, 0, 0, 0, 0, parts.to, parts.from_, flags_and_pad,
            name_len, data_words, name, data, _END_GUARD,
        )  # fmt: skip
    extension: tuple[int, ...] = ()
    if flags & _EXTENDED:
        extension = (*_end_point_pair(parts.orig_from), *_end_point_pair(parts.final_to))
    return _packer(len(extension), (name_len + 3) >> 2, data_words)(
        _START_GUARD, *_id_pair(id), *_id_pair(in_reply_to), parts.to, parts.from_, flags_and_pad,
        name_len, data_words, *extension, name, data, _END_GUARD,
    )  # fmt: skip


def check(buffer: bytes) -> None:
    """Raise ValueError, which names the cause, if ``buffer`` is anything else than one whole message.

    All that KBUS delivers is accepted.
    """
    if len(buffer) < _MIN_LENGTH:
        raise ValueError(f"not a message: {len(buffer)} bytes, the shortest has {_MIN_LENGTH}")
    start_guard, *_, flags, name_len, data_len = abi.MESSAGE_HEADER.unpack_from(buffer)
    if start_guard != abi.MSG_START_GUARD:
        raise ValueError(
            f"not a message: begins with {start_guard:#010x} and not with {abi.MSG_START_GUARD:#010x}"
        )
    name_at = abi.MESSAGE_HEADER.size + (_EXTENSION_SIZE if flags & abi.BIT_EXTENDED else 0)
    end_at = name_at + abi.padded(name_len) + 4 * data_len
    promised = end_at + abi.U32.size
    if len(buffer) != promised:
        raise ValueError(f"not one message: {len(buffer)} bytes, but the header says {promised}")
    (end_guard,) = abi.U32.unpack_from(buffer, end_at)
    if end_guard != abi.MSG_END_GUARD:
        raise ValueError(f"not a message: ends with {end_guard:#010x} and not with {abi.MSG_END_GUARD:#010x}")
    name_end = name_at + name_len
    if any(buffer[name_end : name_at + abi.padded(name_len)]):
        raise ValueError("not a message: the padding of its name is not zero")
    name = buffer[name_at:name_end]
    try:
        name.decode()
    except UnicodeDecodeError as error:
        # In a capture it may be as long as a block.
        begin = bytes(name[:40])
        raise ValueError(f"not a message: its name, which begins {begin!r}, is not text") from error


def decode_into(message: Message, buffer: bytes, begin: int) -> int:
    """Set the parts of ``message``, which may have none yet, to those of the one that begins at ``begin``.

    Returns where it ends. Nothing is checked. It must be quick, as every message read goes this way.
    """
    (
        _, id_network, id_serial, reply_network, reply_serial,
        message.to, message.from_, flags, name_len, data_len,
    ) = _unpack_header(buffer, begin)  # fmt: skip
    message.id = trusted_id(id_network, id_serial) if id_network or id_serial else None
    message.in_reply_to = trusted_id(reply_network, reply_serial) if reply_network or reply_serial else None
    message.flags = flags & ~_DATA_PAD
    name_at = begin + _HEADER_SIZE
    if flags & _EXTENDED:
        message.orig_from = _unpack_orig_from(buffer, name_at)
        message.final_to = _unpack_orig_from(buffer, name_at + abi.ORIG_FROM.size)
        name_at += _EXTENSION_SIZE
    else:
        message.orig_from = message.final_to = None
    message.name = buffer[name_at : name_at + name_len].decode()
    data_at = name_at + ((name_len + 3) & ~3)
    end_at: int = data_at + 4 * data_len
    # A sender may claim padding where there is no data, and KBUS does not check that.
    message.data = buffer[data_at : end_at - (flags >> _DATA_PAD_SHIFT)] if data_len else None
    return end_at + 4


_FLAGS_AND_LENGTHS = struct.Struct("=3I")
_FLAGS_AT = 28


def length_at(buffer: Union[bytes, memoryview], begin: int) -> int:
    """Return the length in bytes of the message that begins at ``begin``. Nothing is checked."""
    flags: int
    name_len: int
    data_len: int
    flags, name_len, data_len = _FLAGS_AND_LENGTHS.unpack_from(buffer, begin + _FLAGS_AT)
    extension = _EXTENSION_SIZE if flags & _EXTENDED else 0
    return _MIN_LENGTH + extension + ((name_len + 3) & ~3) + 4 * data_len


def name_of(message: bytes) -> str:
    """Return the name of a message that KBUS has delivered."""
    flags, name_len, _ = _FLAGS_AND_LENGTHS.unpack_from(message, _FLAGS_AT)
    begin = _HEADER_SIZE + (_EXTENSION_SIZE if flags & _EXTENDED else 0)
    return message[begin : begin + name_len].decode()


def split(buffer: bytes, count: int) -> list[bytes]:
    """Return the ``count`` messages that TRANSFER has put one after the other into ``buffer``."""
    messages = []
    begin = 0
    for _ in range(count):
        end = begin + length_at(buffer, begin)
        messages.append(buffer[begin:end])
        begin = (end + abi.TRANSFER_ALIGN - 1) & -abi.TRANSFER_ALIGN
    return messages


def _id_pair(message_id: Optional[MessageId]) -> tuple[int, int]:
    return (message_id.network_id, message_id.serial_num) if message_id else (0, 0)


def _end_point_pair(end_point: Optional[OrigFrom]) -> tuple[int, int]:
    return (end_point.network_id, end_point.local_id) if end_point else (0, 0)


def _unpack_orig_from(buffer: bytes, offset: int) -> Optional[OrigFrom]:
    network_id, local_id = abi.ORIG_FROM.unpack_from(buffer, offset)
    return OrigFrom(network_id, local_id) if network_id or local_id else None
