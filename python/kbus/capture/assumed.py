# SPDX-License-Identifier: MIT
"""The interfaces of a section, and what is assumed where their descriptions are damaged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Optional

from . import frame, pcapng
from .blocks import has_frame
from .pcapng import Block

#: Interfaces of a section. The description of another one is damage.
MOST_INTERFACES = 4096
#: Interfaces that may be missing in a section whose header does not tell the devices, before a packet that
#: does not tell its own, and before one that does.
_MOST, _MOST_TOLD = 16, 256
#: Said of the first packet behind a section header that is damaged
HEADER_IS_LOST = "a packet of another recording: the section header before it is damaged"
#: Values of if_tsresol: those of a recorder, and of tools that know no more than microseconds
_TICKS = {b"\x06": 1_000_000, b"\x09": 1_000_000_000}
#: Bytes of an interface's name that are kept; a device of KBUS's has far fewer.
_MOST_NAME = 64
_NAME = re.compile("kbus([0-9]{1,9})")


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
    return _damaged(buses[index] if index < len(buses) else None)


# There may be thousands of them in each section, and there is memory for one.
@lru_cache(maxsize=MOST_INTERFACES)
def _damaged(bus: Optional[int]) -> Interface:
    return Interface("" if bus is None else f"kbus{bus}", bus, pcapng.LINKTYPE_KBUS, 1_000_000_000)


class Described(NamedTuple):
    """The interface that a block describes, and those ``missing`` before it.

    If something is ``wrong`` with the block, its interface is assumed: the messages need not be lost with it.
    """

    missing: list[Interface]
    interface: Interface
    wrong: str = ""


def described(block: Block, buses: Sequence[int], count: int) -> Described:
    """Return what a block says in a section of these devices, of which ``count`` interfaces are known.

    Raises ValueError if the section may have no more.
    """
    if count >= MOST_INTERFACES:
        raise ValueError(f"more than {MOST_INTERFACES} interfaces in a section")
    try:
        interface = interface_from(block)
    except ValueError as error:
        return Described([], damaged(buses, count), str(error))
    if not buses or interface.bus is None:
        return Described([], interface)
    wrong = ""
    if interface.ticks != _TICKS[b"\x09"]:
        wrong = f"{interface.name} without if_tsresol 09, which recorders write"
        interface = interface._replace(ticks=_TICKS[b"\x09"])
    if count >= len(buses) and interface.bus in buses:
        # A tool has made one section of several of this recorder.
        return Described([], interface, wrong)
    if interface.bus not in buses[count:]:
        # Which of the two is damaged, nothing tells.
        wrong = f"{interface.name} as interface {count}, where the section's header tells another device"
        return Described([], damaged([], 0), wrong)
    missing = range(count, buses.index(interface.bus, count))
    return Described([damaged(buses, index) for index in missing], interface, wrong)


def interface_from(block: Block) -> Interface:
    """Return the interface that a block describes. Raises ValueError if that is damaged."""
    linktype, _, _ = pcapng.INTERFACE[block.order].unpack_from(block.body)
    name, ticks = "", _TICKS[b"\x06"]
    for code, value in pcapng.options_of(block, pcapng.INTERFACE[block.order].size):
        if code == pcapng.IF_NAME:
            name = value[:_MOST_NAME].decode("utf-8", "backslashreplace")
        elif code == pcapng.IF_TSRESOL:
            if value not in _TICKS:
                raise ValueError(f"an interface with if_tsresol {value[:4].hex()}, and not 06 or 09")
            ticks = _TICKS[value]
    number = _NAME.fullmatch(name)
    if number and linktype != pcapng.LINKTYPE_KBUS:
        raise ValueError(f"{name} with link type {linktype}, and KBUS has {pcapng.LINKTYPE_KBUS}")
    return Interface(name, int(number[1]) if number else None, linktype, ticks)


def for_packet(block: Block, buses: Sequence[int], count: int) -> list[Interface]:
    """Return the interfaces that are missing after ``count`` of them, if a packet is of one of those.

    A packet that no recorder has made, or of an interface that there can't have been, is of none.
    """
    index = pcapng.interface_of(block)
    tells = frame.origin_in(block.raw, 8 + pcapng.PACKET[block.order].size) is not None
    if not count <= index < (len(buses) or (_MOST_TOLD if tells else _MOST)) or not has_frame(block):
        return []
    if not buses:
        return [damaged(buses, index)] * (index + 1 - count)
    return [damaged(buses, each) for each in range(count, index + 1)]


def reason(first: int, missing: Sequence[Interface]) -> str:
    """Return what is said of interfaces that are missing, from the number ``first`` on: one, or several."""
    if len(missing) == 1:
        device = "a device" if missing[0].bus is None else missing[0].name
        return f"nothing describes interface {first}, which is taken for {device} with times in ns"
    last = first + len(missing) - 1
    is_known = missing[0].bus is not None
    taken = f"{missing[0].name} to {missing[-1].name}" if is_known else f"{len(missing)} devices"
    return f"nothing describes interfaces {first} to {last}, which are taken for {taken} with times in ns"
