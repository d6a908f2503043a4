# SPDX-License-Identifier: MIT
"""What the beginning of a section says about all messages that follow."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from kbus.capture import assumed, frame, header, pcapng
from kbus.capture.pcapng import Block

#: Of an interface: ``bus`` is N of /dev/kbusN, -1 if the name is another; ``ticks`` are units of time a
#: second; ``is_kbus`` tells whether its packets are of the link type of KBUS.
_INTERFACE = np.dtype([("bus", "i4"), ("ticks", "i8"), ("is_kbus", "?")])


class Interfaces:
    """The interfaces of a section, as far as its beginning is read: ``table`` has a row for each.

    It does not change. Those that ``plus`` gives, one of the other, share memory.
    """

    def __init__(self, table: Optional[NDArray[np.void]] = None) -> None:
        self.table = np.empty(0, _INTERFACE) if table is None else table
        self._room = self.table
        self._is_last = True

    def __len__(self) -> int:
        return len(self.table)

    def __reduce__(self) -> tuple[type[Interfaces], tuple[NDArray[np.void]]]:
        return Interfaces, (self.table,)

    def plus(self, rows: list[tuple[int, int, bool]]) -> Interfaces:
        """Return these and more: ``bus``, ``ticks`` and ``is_kbus`` of each."""
        count = len(self.table)
        end = count + len(rows)
        room = self._room
        if end > len(room) or not self._is_last:
            room = np.empty(count + end, _INTERFACE)
            room[:count] = self.table
        room[count:end] = rows
        more = Interfaces(room[:end])
        more._room, self._is_last = room, False
        return more


class Section(NamedTuple):
    """A section, as far as its beginning is read.

    ``order`` is its byte order, ``begin`` where it begins in the file, ``capture`` the SHA-256 of its header
    and its first packet, empty before that is read. Texts that the header does not have are empty. ``buses``
    are the devices that it says there are, in the order of the interfaces; ``recording`` is the number by
    which packets tell that they are of this section, None if no recorder tells it.
    """

    order: str
    begin: int
    header: bytes
    device: str
    boot: str
    load: str
    recorder: str
    catches_all: bool
    interfaces: Interfaces
    capture: str
    buses: tuple[int, ...]
    recording: Optional[int]

    def with_interfaces(self, more: Sequence[assumed.Interface]) -> Section:
        """Return the section with these interfaces, too."""
        return self._replace(interfaces=self.interfaces.plus([_row(each) for each in more])) if more else self

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known of what it is a recording of."""
        return not (self.device or self.boot or self.load)

    def session(self, bus: int, recording: int = -1) -> int:
        """Return the number for (device, boot, load, bus) of messages that say they are of this recording.

        If nothing is known of the section, it is the number for (recording, bus), or, if they do not say that
        either (-1), for (capture, bus). So unknown machines are not taken for one.
        """
        if self.is_unknown:
            return session_number("", "", self.capture if recording < 0 else str(recording), bus)
        return session_number(self.device, self.boot, self.load, bus)

    def with_first_packet(self, packet: bytes) -> Section:
        """Return the section with its ``capture``, given the bytes of its first packet's block."""
        return self._replace(header=b"", capture=hashlib.sha256(self.header + packet).hexdigest())


def section(block: Block, info: dict[str, Any]) -> Section:
    """Return the section that begins with ``block``, whose recorder says ``info``."""
    keys = ("device", "boot_id", "load_id", "recorder")
    device, boot, load, recorder = ("" if info.get(key) is None else str(info[key]) for key in keys)
    catches_all, buses = "$.*" in _names(info), tuple(assumed.buses_of(info))
    return Section(
        block.order,
        block.offset,
        block.raw,
        device,
        boot,
        load,
        recorder,
        catches_all,
        Interfaces(),
        "",
        buses,
        header.recording_of(info) if "recorder" in info else None,
    )


def _row(interface: assumed.Interface) -> tuple[int, int, bool]:
    # A header may tell numbers that no device has.
    bus = -1 if interface.bus is None or interface.bus > frame.MOST_BUS else interface.bus
    return bus, interface.ticks, interface.linktype == pcapng.LINKTYPE_KBUS


def _names(info: dict[str, Any]) -> list[str]:
    bindings = info.get("bindings", [])
    return [str(each) for each in bindings] if isinstance(bindings, list) else []


def session_number(device: str, boot: str, load: str, bus: int) -> int:
    """Return the number for these: 64 bits, signed, so that it is the same wherever it is made."""
    digest = _begun(device, boot, load).copy()
    digest.update(str(bus).encode())
    return int.from_bytes(digest.digest()[:8], "big", signed=True)


@lru_cache(maxsize=16)
def _begun(*texts: str) -> hashlib._Hash:
    """Return the SHA-256 of these, each with a zero behind it, to go on from. They may be long."""
    return hashlib.sha256("".join(f"{each}\0" for each in texts).encode())
