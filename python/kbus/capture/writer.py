# SPDX-License-Identifier: MIT
"""Writing captures: the bytes of packets, and one section with what belongs to it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from . import frame, pcapng
from .frame import Frame, Origin
from .header import comment_of, recording_of

#: A block with a packet, up to the message: block, packet, frame
_PACKET_HEADS = {order: struct.Struct(order + "7I HHI") for order in (pcapng.LITTLE, pcapng.BIG)}
#: What there is of it besides the packet
_BESIDES_PACKET = pcapng.PACKET[pcapng.NATIVE].size + pcapng.OVERHEAD

#: When a message was queued (CLOCK_MONOTONIC, ns), its interface, what that had lost by then, and the message
Arrival = tuple[int, int, int, bytes]


def origins_of(info: Mapping[str, Any], buses: Sequence[int]) -> list[Origin]:
    """Return what the packets of each interface say of their origin; ``info`` are facts of the header."""
    recording = recording_of(info)
    return [Origin(bus, recording) for bus in buses]


def packets(
    order: str, origins: Sequence[Origin], sequence: int, offset: int, arrivals: Iterable[Arrival]
) -> list[bytes]:
    """Return the blocks of messages, each in pieces to be joined.

    ``origins`` are those of the interfaces. ``sequence`` is the number of the first message; those of the
    others follow on. ``offset`` is CLOCK_REALTIME less CLOCK_MONOTONIC, in ns. A message is whole words in
    the byte order of ``order``, as it was read.
    """
    pack_head, pack_facts = _PACKET_HEADS[order].pack, frame.FACTS[order].pack
    pack_length = pcapng.U32[order].pack
    packed = [frame.ORIGIN[order].pack(*each) for each in origins]
    pieces: list[bytes] = []
    for mono_ns, interface, lost, message in arrivals:
        high, low = divmod(mono_ns + offset, 1 << 32)
        original = len(message) + frame.LENGTH
        captured = min(original, pcapng.MAX_PACKET)
        length = captured + _BESIDES_PACKET
        facts = pack_facts(sequence, mono_ns, lost) + packed[interface]
        head = pack_head(
            pcapng.ENHANCED_PACKET, length, interface, high, low, captured, original,
            frame.VERSION, frame.LENGTH, zlib.crc32(message, zlib.crc32(facts)),
        )  # fmt: skip
        if captured == original:
            pieces += head, facts, message, pack_length(length)
        else:
            cut = captured - frame.LENGTH
            pieces += head, facts, message[:cut], pack_length(length)
            pieces += pcapng.rests_of_packet(order, message[cut:])
        sequence += 1
    return pieces


def section_start(order: str, info: Mapping[str, Any], buses: Sequence[int]) -> bytes:
    """Return what a section begins with: its header, and the descriptions of the interfaces.

    ``info`` becomes the comment, see ``header``; ``buses`` are the numbers of the devices, one an interface.
    """
    interfaces = [pcapng.interface_description(order, f"kbus{bus}") for bus in buses]
    return pcapng.section_header(order, comment_of(info)) + b"".join(interfaces)


class Writer:
    """One section of a capture, written to ``file`` in whole blocks, a ``file.write`` for each call.

    ``info`` are the facts of the section's header, ``buses`` the numbers of the devices. ``order`` is the
    byte order, ``<`` or ``>``. ``received`` counts messages, an entry for each device.
    """

    def __init__(
        self, file: BinaryIO, info: Mapping[str, Any], buses: Sequence[int], order: str = pcapng.NATIVE
    ) -> None:
        self._file = file
        self._order = order
        self._origins = origins_of(info, buses)
        self.received = [0] * len(buses)
        file.write(section_start(order, info, buses))

    def write(self, interface: int, time_ns: int, first: Frame, messages: Sequence[bytes]) -> None:
        """Write messages of ``buses[interface]`` that came at the same time, CLOCK_REALTIME in ns.

        ``first`` is what is said of the first of them; the sequence numbers of the others follow on.
        """
        arrivals = [(first.mono_ns, interface, first.lost, message) for message in messages]
        blocks = packets(self._order, self._origins, first.sequence, time_ns - first.mono_ns, arrivals)
        self._file.write(b"".join(blocks))
        self.received[interface] += len(messages)

    def write_statistics(self, time_ns: int, dropped: Sequence[int]) -> None:
        """Write how many messages this section has, and how many of each device were lost meanwhile."""
        for interface, (received, lost) in enumerate(zip(self.received, dropped)):
            self._file.write(pcapng.interface_statistics(self._order, interface, time_ns, received, lost))
