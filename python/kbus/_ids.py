# SPDX-License-Identifier: MIT
"""The two kinds of number pair that messages carry: MessageId and OrigFrom."""

from __future__ import annotations

from dataclasses import dataclass

from . import _abi as abi


@dataclass(frozen=True, order=True)
class MessageId:
    """The id of a message: two unsigned 32-bit numbers.

    Ids are ordered by network id, then by serial number; on one device, later messages have
    higher ids until the serial numbers wrap. Immutable and hashable.

    Raises ValueError if a number is not in the range of 32 bits. Source: semantics, rule 16.
    """

    network_id: int
    serial_num: int

    def __post_init__(self) -> None:
        abi.check_u32("network_id", self.network_id)
        abi.check_u32("serial_num", self.serial_num)

    def __add__(self, count: int) -> MessageId:
        """Return the id ``count`` serial numbers later. Raises ValueError if that is out of range."""
        if not isinstance(count, int):
            return NotImplemented
        return MessageId(self.network_id, self.serial_num + count)

    def __repr__(self) -> str:
        return f"MessageId({self.network_id}, {self.serial_num})"

    def __str__(self) -> str:
        return f"[{self.network_id}:{self.serial_num}]"


def trusted_id(network_id: int, serial_num: int) -> MessageId:
    """Return the MessageId of two numbers that come from the kernel.

    There is one for each message sent and most of those read, and checking them took longer than
    the rest of sending.
    """
    message_id = object.__new__(MessageId)
    numbers = message_id.__dict__
    numbers["network_id"] = network_id
    numbers["serial_num"] = serial_num
    return message_id


@dataclass(frozen=True, order=True)
class OrigFrom:
    """An end point on another network: two unsigned 32-bit numbers.

    Raises ValueError if a number is not in the range of 32 bits.
    """

    network_id: int
    local_id: int

    def __post_init__(self) -> None:
        abi.check_u32("network_id", self.network_id)
        abi.check_u32("local_id", self.local_id)

    def __repr__(self) -> str:
        return f"OrigFrom({self.network_id}, {self.local_id})"

    def __str__(self) -> str:
        return f"[{self.network_id}:{self.local_id}]"
