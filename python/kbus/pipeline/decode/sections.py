# SPDX-License-Identifier: MIT
"""What the beginning of a section says about all messages that follow."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Optional

import numpy as np

from kbus.capture import frame, sections
from kbus.capture.pcapng import Block
from kbus.capture.sections import Interface

#: Of an interface: ``bus`` is N of /dev/kbusN, -1 if the name is another; ``ticks`` are parts of a second.
_INTERFACE = np.dtype([("bus", "i4"), ("ticks", "i8")])


class Interfaces:
    """The interfaces of a section, as far as its beginning is read: ``table`` has a row for each."""

    def __init__(self, interfaces: Sequence[Interface] = ()) -> None:
        self.table = np.array([_row(each) for each in interfaces], _INTERFACE)

    def __len__(self) -> int:
        return len(self.table)

    def plus(self, interface: Interface) -> Interfaces:
        """Return these and another one."""
        more = Interfaces([interface])
        more.table = np.concatenate([self.table, more.table])
        return more


class SectionHead(NamedTuple):
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

    def with_interface(self, interface: Interface) -> SectionHead:
        """Return the section with this interface, too."""
        return self._replace(interfaces=self.interfaces.plus(interface))

    def known(self) -> sections.Section:
        """Return what whoever reads on in this section has to know of it."""
        interfaces = [Interface("", bus, ticks) for bus, ticks in self.interfaces.table.tolist()]
        return sections.Section(self.order, self.begin, {}, interfaces, list(self.buses), self.recording)

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

    def with_packet(self, data: bytes, begin: int = 0, end: Optional[int] = None) -> SectionHead:
        """Return the section with its ``capture``, if this is the first packet: ``data`` has its block."""
        if self.capture:
            return self
        capture = hashlib.sha256(self.header + data[begin:end]).hexdigest()
        return self._replace(header=b"", capture=capture)


def section(block: Block, said: sections.Section) -> SectionHead:
    """Return the section that begins with ``block``, of which ``said`` tells what its header says."""
    keys = ("device", "boot_id", "load_id", "recorder")
    device, boot, load, recorder = ("" if said.info.get(key) is None else str(said.info[key]) for key in keys)
    return SectionHead(
        block.order,
        block.offset,
        block.raw,
        device,
        boot,
        load,
        recorder,
        "$.*" in said.info.get("bindings", ()),
        Interfaces(),
        "",
        tuple(said.buses),
        said.recording,
    )


def _row(interface: Interface) -> tuple[int, int]:
    # A header may tell numbers that no device has.
    bus = -1 if interface.bus is None or interface.bus > frame.MOST_BUS else interface.bus
    return bus, interface.ticks


def session_number(device: str, boot: str, load: str, bus: int) -> int:
    """Return the number for these: 64 bits, signed, so that it is the same wherever it is made."""
    digest = _begun(device, boot, load).copy()
    digest.update(str(bus).encode())
    return int.from_bytes(digest.digest()[:8], "big", signed=True)


@lru_cache(maxsize=16)
def _begun(*texts: str) -> hashlib._Hash:
    """Return the SHA-256 of these, each with a zero behind it, to go on from. They may be long."""
    return hashlib.sha256("".join(f"{each}\0" for each in texts).encode())
