# SPDX-License-Identifier: MIT
"""What the beginning of a section says about all messages that follow."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from kbus.capture import assumed, pcapng
from kbus.capture.pcapng import Block


class Interface(NamedTuple):
    """An interface of a section: a KBUS device.

    ``bus`` is N of /dev/kbusN, -1 if the name is another; ``ticks`` are units of time a second; ``is_kbus``
    tells whether its packets are of the link type of KBUS; ``session`` is the number for (device, boot, load,
    bus).
    """

    bus: int
    ticks: int
    is_kbus: bool
    session: int


class Section(NamedTuple):
    """A section, as far as its beginning is read.

    ``order`` is its byte order, ``begin`` where it begins in the file, ``capture`` the SHA-256 of its header
    and its first packet, empty before that is read. Texts that the header does not have are empty. ``buses``
    are the devices that it says there are, in the order of the interfaces.
    """

    order: str
    begin: int
    header: bytes
    device: str
    boot: str
    load: str
    recorder: str
    catches_all: bool
    interfaces: tuple[Interface, ...]
    capture: str
    buses: tuple[int, ...]

    def with_interface(self, interface: assumed.Interface) -> Section:
        """Return the section with one more interface."""
        bus = -1 if interface.bus is None else interface.bus
        added = Interface(
            bus,
            interface.ticks,
            interface.linktype == pcapng.LINKTYPE_KBUS,
            session_number(self.device, self.boot, self.load, bus),
        )
        return self._replace(interfaces=(*self.interfaces, added))

    def with_first_packet(self, packet: bytes) -> Section:
        """Return the section with its ``capture``, given the bytes of its first packet's block."""
        return self._replace(header=b"", capture=hashlib.sha256(self.header + packet).hexdigest())


def section(block: Block, info: dict[str, Any]) -> Section:
    """Return the section that begins with ``block``, whose recorder says ``info``."""
    keys = ("device", "boot_id", "load_id", "recorder")
    device, boot, load, recorder = ("" if info.get(key) is None else str(info[key]) for key in keys)
    catches_all, buses = "$.*" in _names(info), tuple(assumed.buses_of(info))
    return Section(
        block.order, block.offset, block.raw, device, boot, load, recorder, catches_all, (), "", buses
    )


def _names(info: dict[str, Any]) -> list[str]:
    bindings = info.get("bindings", [])
    return [str(each) for each in bindings] if isinstance(bindings, list) else []


def session_number(device: str, boot: str, load: str, bus: int) -> int:
    """Return the number for these: 64 bits, signed, so that it is the same wherever it is made."""
    text = "\0".join((device, boot, load, str(bus)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)
