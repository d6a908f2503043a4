# SPDX-License-Identifier: MIT
"""What is assumed of interfaces whose descriptions are damaged, while their messages are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from . import pcapng
from .blocks import has_frame
from .pcapng import Block

#: Interfaces of a section. The description of another one is damage.
MOST_INTERFACES = 4096
#: Interfaces that may be missing in a section whose header does not tell the devices.
_MOST = 16
#: Said of a description where a section has messages
HEADER_IS_LOST = "a description that follows messages: the section header before it is damaged"


class Interface(NamedTuple):
    """A KBUS device of a section: its name there, its number if that tells one, units of time a second."""

    name: str
    bus: Optional[int]
    linktype: int
    ticks: int


def buses_of(info: Mapping[str, Any]) -> list[int]:
    """Return the numbers of a section's devices in the order of its interfaces.

    None if it does not tell, or tells more than there may be.
    """
    bus = info.get("bus")
    buses: list[Any] = bus if isinstance(bus, list) else [bus]
    is_right = len(buses) <= MOST_INTERFACES and all(type(each) is int for each in buses)
    return buses if is_right else []


def damaged(buses: Sequence[int], index: int) -> Interface:
    """Return the interface ``index`` of a section of these devices, whose description is damaged."""
    bus = buses[index] if index < len(buses) else None
    return Interface("" if bus is None else f"kbus{bus}", bus, pcapng.LINKTYPE_KBUS, 1_000_000_000)


def before(buses: Sequence[int], count: int, bus: Optional[int]) -> list[Interface]:
    """Return the interfaces that are missing between ``count`` of them and that of device ``bus``."""
    end = buses.index(bus) if bus in buses else count
    return [damaged(buses, index) for index in range(count, end)]


def is_of_another_section(buses: Sequence[int], count: int, bus: Optional[int]) -> bool:
    """Return whether a description that follows the messages of a recorder is that of another recording.

    It describes device ``bus``. The device that is missing next, after ``count`` interfaces, may follow:
    recovering puts it where it is needed. What is no KBUS device is no recorder's.
    """
    return bus is not None and not (count < len(buses) and buses[count] == bus)


def for_packet(block: Block, buses: Sequence[int], count: int) -> list[Interface]:
    """Return the interfaces that are missing after ``count`` of them, if a packet is of one of those.

    A packet that no recorder has made, or of an interface that there can't have been, is of none.
    """
    index = pcapng.interface_of(block)
    if not count <= index < (len(buses) or _MOST):
        return []
    if not has_frame(block):
        return []
    return [damaged(buses, each) for each in range(count, index + 1)]


def check_room(count: int) -> None:
    """Raise ValueError if a section of ``count`` interfaces may have no more."""
    if count >= MOST_INTERFACES:
        raise ValueError(f"more than {MOST_INTERFACES} interfaces in a section")


def reason(index: int, interface: Interface) -> str:
    """Return what is said of an interface that is missing."""
    device = "a device" if interface.bus is None else interface.name
    return f"nothing describes interface {index}, which is taken for {device} with times in ns"
