# SPDX-License-Identifier: MIT
"""A message as bytes: from fields to bytes and back. Source: the ABI, 'A message, as bytes'."""

from __future__ import annotations

from typing import NamedTuple, Optional

from . import abi
from .ids import MessageId, OrigFrom


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


def length(fields: Fields) -> int:
    """Return how many bytes ``encode`` makes of ``fields``."""
    extension = _EXTENSION_SIZE if fields.flags & abi.BIT_EXTENDED else 0
    name_and_data = abi.padded(len(fields.name.encode())) + abi.padded(len(fields.data or b""))
    return _MIN_LENGTH + extension + name_and_data


def encode(fields: Fields) -> bytes:
    """Return the bytes of a message.

    ``orig_from`` and ``final_to`` are left out unless ``flags`` has BIT_EXTENDED.
    """
    name = fields.name.encode()
    data = fields.data or b""
    data_pad = abi.padded(len(data)) - len(data)
    parts = [
        abi.MESSAGE_HEADER.pack(
            abi.MSG_START_GUARD,
            *_id_pair(fields.id),
            *_id_pair(fields.in_reply_to),
            fields.to,
            fields.from_,
            fields.flags | data_pad << abi.DATA_PAD_SHIFT,
            len(name),
            abi.padded(len(data)) // 4,
        )
    ]
    if fields.flags & abi.BIT_EXTENDED:
        parts += [abi.ORIG_FROM.pack(*_end_point_pair(each)) for each in (fields.orig_from, fields.final_to)]
    parts += [name.ljust(abi.padded(len(name)), b"\0"), data, bytes(data_pad)]
    parts.append(abi.U32.pack(abi.MSG_END_GUARD))
    return b"".join(parts)


def decode(buffer: bytes) -> Fields:
    """Return the fields of one whole message; whatever KBUS delivers is accepted.

    Raises ValueError, which names the cause, if ``buffer`` is anything else than one message.
    """
    if len(buffer) < _MIN_LENGTH:
        raise ValueError(f"not a message: {len(buffer)} bytes, the shortest has {_MIN_LENGTH}")
    (
        start_guard, id_network, id_serial, reply_network, reply_serial,
        to, from_, flags, name_len, data_len,
    ) = abi.MESSAGE_HEADER.unpack_from(buffer)  # fmt: skip
    if start_guard != abi.MSG_START_GUARD:
        raise ValueError(
            f"not a message: begins with {start_guard:#010x} and not with {abi.MSG_START_GUARD:#010x}"
        )
    extension_at = abi.MESSAGE_HEADER.size
    name_at = extension_at + (_EXTENSION_SIZE if flags & abi.BIT_EXTENDED else 0)
    data_at = name_at + abi.padded(name_len)
    end_at = data_at + 4 * data_len
    promised = end_at + abi.U32.size
    if len(buffer) != promised:
        raise ValueError(f"not one message: {len(buffer)} bytes, but the header says {promised}")
    (end_guard,) = abi.U32.unpack_from(buffer, end_at)
    if end_guard != abi.MSG_END_GUARD:
        raise ValueError(f"not a message: ends with {end_guard:#010x} and not with {abi.MSG_END_GUARD:#010x}")
    if any(buffer[name_at + name_len : data_at]):
        raise ValueError("not a message: the padding of its name is not zero")
    orig_from = final_to = None
    if flags & abi.BIT_EXTENDED:
        orig_from = _unpack_orig_from(buffer, extension_at)
        final_to = _unpack_orig_from(buffer, extension_at + abi.ORIG_FROM.size)
    # A careless sender may claim padding where there is no data, and KBUS does not look.
    data_end = max(data_at, end_at - (flags >> abi.DATA_PAD_SHIFT))
    return Fields(
        id=_message_id(id_network, id_serial),
        in_reply_to=_message_id(reply_network, reply_serial),
        to=to,
        from_=from_,
        orig_from=orig_from,
        final_to=final_to,
        flags=flags & ~abi.BITS_DATA_PAD,
        name=_decode_name(buffer[name_at : name_at + name_len]),
        data=buffer[data_at:data_end] or None,
    )


def _id_pair(message_id: Optional[MessageId]) -> tuple[int, int]:
    return (message_id.network_id, message_id.serial_num) if message_id else (0, 0)


def _message_id(network_id: int, serial_num: int) -> Optional[MessageId]:
    return MessageId(network_id, serial_num) if network_id or serial_num else None


def _end_point_pair(end_point: Optional[OrigFrom]) -> tuple[int, int]:
    return (end_point.network_id, end_point.local_id) if end_point else (0, 0)


def _unpack_orig_from(buffer: bytes, offset: int) -> Optional[OrigFrom]:
    network_id, local_id = abi.ORIG_FROM.unpack_from(buffer, offset)
    return OrigFrom(network_id, local_id) if network_id or local_id else None


def _decode_name(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not a message: its name {name!r} is not text") from error
