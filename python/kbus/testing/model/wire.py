# SPDX-License-Identifier: MIT
"""A message as bytes, and what `write` refuses about them (rule 13, and 'Writing' in the decisions)."""

from __future__ import annotations

import errno
import sys
from dataclasses import dataclass
from functools import cached_property

from ... import _abi as abi
from ..._stand_in import MsgId as MsgId

HEADER_LEN = abi.MESSAGE_HEADER.size
EXTENSION_LEN = 2 * abi.ORIG_FROM.size
GUARD_LEN = abi.U32.size
END_GUARD = abi.U32.pack(abi.MSG_END_GUARD)

NO_ID = MsgId(0, 0)


@dataclass(frozen=True)
class WireMessage:
    """One message; `data` is whole words, `extension` the 16 bytes of orig_from and final_to or nothing."""

    name: bytes
    flags: int = 0
    id: MsgId = NO_ID
    in_reply_to: MsgId = NO_ID
    to: int = 0
    sender: int = 0
    data: bytes = b""
    extension: bytes = b""

    def to_bytes(self) -> bytes:
        """The message as it is written and read."""
        header = abi.MESSAGE_HEADER.pack(
            abi.MSG_START_GUARD,
            *self.id,
            *self.in_reply_to,
            self.to,
            self.sender,
            self.flags,
            len(self.name),
            len(self.data) // 4,
        )
        return header + self.extension + padded(self.name) + self.data + END_GUARD

    @cached_property
    def length(self) -> int:
        """Bytes of the whole message, guards included."""
        return HEADER_LEN + len(self.extension) + len(padded(self.name)) + len(self.data) + GUARD_LEN

    @property
    def is_reply(self) -> bool:
        """Whether this answers a Request."""
        return self.in_reply_to != NO_ID

    @property
    def is_request(self) -> bool:
        """Whether a replier must answer this."""
        return bool(self.flags & abi.BIT_WANT_A_REPLY)

    @property
    def is_urgent(self) -> bool:
        """Whether this goes to the front of queues."""
        return bool(self.flags & abi.BIT_URGENT)


def padded(name: bytes) -> bytes:
    """`name` with zero bytes up to a multiple of four."""
    return name + bytes(-len(name) % 4)


def word(raw: bytes, index: int) -> int:
    """The 32-bit word with this index."""
    return int.from_bytes(raw[4 * index : 4 * index + 4], sys.byteorder)


def in_reply_to(raw: bytes) -> MsgId:
    """What a header says its message answers."""
    return MsgId(word(raw, 3), word(raw, 4))


def name_span(raw: bytes) -> tuple[int, int]:
    """Where the name begins and ends, padding left out, by what a header promises."""
    begin = HEADER_LEN + (EXTENSION_LEN if word(raw, 7) & abi.BIT_EXTENDED else 0)
    return begin, begin + word(raw, 8)


def whole_length(raw: bytes) -> int:
    """The length in bytes that a complete header promises for its message."""
    _, name_end = name_span(raw)
    return name_end + -name_end % 4 + word(raw, 9) * 4 + GUARD_LEN


def is_complete(raw: bytes) -> bool:
    """Whether these bytes, which `check` has passed, are a whole message."""
    return len(raw) >= HEADER_LEN and len(raw) == whole_length(raw)


def parse(raw: bytes) -> WireMessage:
    """The message in the bytes of a whole one, which `check` has passed."""
    name_at, name_end = name_span(raw)
    return WireMessage(
        name=raw[name_at:name_end],
        flags=word(raw, 7),
        id=MsgId(word(raw, 1), word(raw, 2)),
        in_reply_to=in_reply_to(raw),
        to=word(raw, 5),
        sender=word(raw, 6),
        data=raw[name_end + -name_end % 4 : -GUARD_LEN],
        extension=raw[HEADER_LEN:name_at],
    )


def check(raw: bytes, checked: int, max_size: int) -> None:
    """Refuse what is known to be wrong about the bytes written so far, `checked` of which came earlier."""
    if len(raw) >= 4 and word(raw, 0) != abi.MSG_START_GUARD:
        raise OSError(errno.EINVAL, "rule 13: start guard")
    if len(raw) >= 32:
        check_flags(raw)
    if len(raw) >= 36 and word(raw, 8) > abi.MAX_NAME_LEN:
        raise OSError(errno.ENAMETOOLONG, "rule 13: name over 1000 bytes")
    if len(raw) < HEADER_LEN:
        return
    length = whole_length(raw)
    if checked < HEADER_LEN and length > max_size:  # rule 34: the limit of the moment the length is known
        raise OSError(errno.EMSGSIZE, "rule 13: longer than MAXMSGSIZE")
    _, name_end = name_span(raw)
    if any(raw[name_end : name_end + -name_end % 4]):
        raise OSError(errno.EINVAL, "rule 13: the name's padding is not zero")
    if len(raw) >= length and raw[length - GUARD_LEN : length] != END_GUARD:
        raise OSError(errno.EINVAL, "rule 13: end guard")
    if len(raw) > length:
        raise OSError(errno.EMSGSIZE, "rule 13: bytes beyond the end guard")


def check_flags(raw: bytes) -> None:
    """Refuse flags without a meaning and flags that exclude each other (rules 21 and 26)."""
    flags = word(raw, 7)
    is_reply = in_reply_to(raw) != NO_ID
    both = abi.BIT_ALL_OR_WAIT | abi.BIT_ALL_OR_FAIL
    if flags & abi.BITS_RESERVED:
        raise OSError(errno.EINVAL, "decisions: a flag without a meaning")
    if flags & both == both and not is_reply:
        raise OSError(errno.EINVAL, "rule 21: ALL_OR_WAIT with ALL_OR_FAIL")
    if flags & abi.BIT_WANT_A_REPLY and is_reply:
        raise OSError(errno.EINVAL, "rule 26: a reply that is a Request")
