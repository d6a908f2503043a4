# SPDX-License-Identifier: MIT
"""Captures that are damaged at random, read in all ways there are: ``python3 -m tests.capture.fuzz --help``.

Of each it is checked that

* no byte is left out: blocks and damage, one behind the other, are the file;
* no message is there that was not sent, nor is one given to another machine or device;
* the pipeline finds what the reader finds;
* what ``recover`` makes is whole, and has the same messages;
* it takes 3 times as long as a healthy file of its size, at most.
"""

from __future__ import annotations

import argparse
import gzip
import io
import random
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from kbus import Announcement, Message
from kbus.capture import CaptureError, Reader, pcapng
from kbus.capture.blocks import Damage
from kbus.capture.header import comment_of
from kbus.capture.input import MaybeGzip, Window
from kbus.capture.recover import recover
from kbus.capture.sections import Blocks
from kbus.capture.writer import origins_of, packets
from tests.pipeline.test_scan import by_reader, by_scan

from .captures import INFO, START, as_recorded
from .rubbish import MIB, healthy

#: Larger ones are not given to the pipeline and ``recover``, as that would be most of the time.
_ALL_WAYS = 2 * MIB
#: Seconds beside what a healthy file takes, for a machine that does something else meanwhile
_SLACK = 1.0
#: Bytes that this process may take in all, whatever it reads
_MOST_MEMORY = 1 << 30

Digest = bytes


class Place(NamedTuple):
    """Where a message is from."""

    machine: str
    bus: int


class Base(NamedTuple):
    """A healthy capture, where its blocks begin, and where each of its messages is from."""

    data: bytes
    begins: list[int]
    known: dict[Digest, Place]


def _digest(sequence: int, message: Message) -> Digest:
    return blake2b(message.to_bytes(), digest_size=12, salt=sequence.to_bytes(8, "little")).digest()


def base(of: random.Random, size: int) -> Base:
    """A capture of about so many bytes, of messages of all lengths, from one machine or two."""
    whole = Base(b"", [], {})
    machines = ["lathe", "press"][: of.choice((1, 2, 2))]
    for machine in machines:
        whole = _with_section(of, whole, size // len(machines), machine)
    return whole


def _with_section(of: random.Random, whole: Base, size: int, machine: str) -> Base:
    order = of.choice((pcapng.LITTLE, pcapng.BIG))
    buses = of.choice(([0], [0, 3], [0, 3], [0, 3, 5], [2, 3]))
    info = {**INFO, "device": machine, "bus": buses}
    origins = origins_of(info, buses)
    begins, known, length, parts = list(whole.begins), dict(whole.known), len(whole.data), [whole.data]

    def add(block: bytes) -> None:
        nonlocal length
        begins.append(length)
        parts.append(block)
        length += len(block)

    add(pcapng.section_header(order, comment_of(info)))
    for bus in buses:
        add(pcapng.interface_description(order, f"kbus{bus}"))
    sequence = 1
    longest = of.choice((100, 10_000, 300_000, 10 * MIB))
    while length < len(whole.data) + size:
        data = of.randbytes(8) * (_between(of, 1, min(longest, size)) // 8)
        interface = sequence % len(buses)
        name = f"$.Fuzz.{machine}.On{buses[interface]}.N{sequence % 7}"
        message = Message.from_message(Announcement(name, data))
        arrival = (1000 * sequence, interface, 0, as_recorded(message, order))
        known[_digest(sequence, message)] = Place(machine, buses[interface])
        add(b"".join(packets(order, origins, sequence, START, [arrival])))
        sequence += 1
    if of.random() < 0.5:
        for index in range(len(buses)):
            add(pcapng.interface_statistics(order, index, START, sequence, 0))
    return Base(b"".join(parts), begins, known)


def _between(of: random.Random, least: int, most: int) -> int:
    """A number of this range, each length of numbers as often."""
    return int(least * (max(most, least) / least) ** of.random())


_KINDS = (
    *(pcapng.SECTION_HEADER, pcapng.INTERFACE_DESCRIPTION, pcapng.INTERFACE_STATISTICS),
    *(pcapng.ENHANCED_PACKET, pcapng.REST_OF_PACKET),
)

# Each changes the capture somewhere.

Change = Callable[[random.Random, bytearray, Base], None]


def _flip_bit(of: random.Random, data: bytearray, whole: Base) -> None:
    data[of.randrange(len(data))] ^= 1 << of.randrange(8)


def _flip_bit_in_head(of: random.Random, data: bytearray, whole: Base) -> None:
    at = of.choice(whole.begins) + of.randrange(48)
    if at < len(data):
        data[at] ^= 1 << of.randrange(8)


def _word(of: random.Random, data: bytearray, whole: Base) -> None:
    """A word that means something, where a block has one."""
    at = of.choice(whole.begins) + 4 * of.randrange(12)
    lengths = (
        0,
        4,
        12,
        32,
        len(data),
        len(data) - at,
        1 << 24,
        pcapng.MAX_LENGTH,
        pcapng.MAX_PACKET,
        1 << 31,
    )
    value = of.choice((*lengths, *_KINDS, pcapng.BYTE_ORDER_MAGIC))
    data[at : at + 4] = struct.pack(of.choice("<>") + "I", value & 0xFFFFFFFF)


def _overwrite(of: random.Random, data: bytearray, whole: Base) -> None:
    at = of.randrange(len(data))
    what = of.randbytes(of.randrange(1, 64))
    data[at : at + len(what)] = what


def _take_out(of: random.Random, data: bytearray, whole: Base) -> None:
    at = of.randrange(len(data))
    del data[at : at + _between(of, 1, len(data))]


def _put_in(of: random.Random, data: bytearray, whole: Base) -> None:
    at = of.randrange(len(data) + 1)
    data[at:at] = of.randbytes(of.randrange(1, 64))


def _end_early(of: random.Random, data: bytearray, whole: Base) -> None:
    del data[of.randrange(1, len(data) + 1) :]


def _copy(of: random.Random, data: bytearray, whole: Base) -> None:
    """A part of the whole capture somewhere else, from the beginning of a block or not."""
    begin = of.choice((of.choice(whole.begins), of.randrange(len(whole.data))))
    at = of.randrange(len(data) + 1)
    data[at:at] = whole.data[begin : begin + _between(of, 4, len(whole.data))]


def _claims(of: random.Random, data: bytearray, whole: Base) -> None:
    """Many beginnings of blocks that are not there, in place of what was."""
    length = _between(of, 4, len(data))
    claimed = of.choice((16, length // 2 & ~3, length & ~3, 8 * MIB, pcapng.MAX_LENGTH))
    order = of.choice("<>")
    kind = of.choice((pcapng.ENHANCED_PACKET, pcapng.SECTION_HEADER, pcapng.INTERFACE_DESCRIPTION))
    claim = struct.pack(order + "2I", kind, claimed) + bytes(4 * of.randrange(6))
    at = of.randrange(len(data))
    data[at : at + length] = (claim * (length // len(claim) + 1))[:length]


def _nested(of: random.Random, data: bytearray, whole: Base) -> None:
    """Blocks of packets, each of which begins inside the one before it, and ends where that says."""
    half = min(len(data), 16 * MIB) // 2 & ~3
    step = 36 * _between(of, 1, 1000)
    lengths = range(half, half // 2, -step)
    begins = bytearray(half)
    ends = bytearray(half)
    for index, length in enumerate(lengths):
        at = index * 36
        if at + 36 > half or length < 36:
            break
        begins[at : at + 28] = struct.pack("<2I5I", pcapng.ENHANCED_PACKET, length, 0, 0, 0, 8, 8)
        end = at + length - 4 - half
        if 0 <= end <= half - 4:
            ends[end : end + 4] = struct.pack("<I", length)
    at = of.randrange(len(data) + 1)
    data[at:at] = begins + ends


_CHANGES: tuple[Change, ...] = (
    *(_flip_bit, _flip_bit, _flip_bit_in_head, _flip_bit_in_head, _word, _word),
    *(_overwrite, _take_out, _put_in, _end_early, _copy, _claims, _nested),
)


def damaged(of: random.Random, whole: Base) -> bytes:
    """A capture of which something is wrong; in some cases compressed, and that is wrong."""
    data = bytearray(whole.data)
    for _ in range(of.choice((1, 1, 2, 4, 8))):
        if data:
            of.choice(_CHANGES)(of, data, whole)
    if of.random() > 0.1:
        return bytes(data)
    zipped = bytearray(gzip.compress(bytes(data), 1))
    for _ in range(of.randrange(3)):
        zipped[of.randrange(10, len(zipped))] ^= 1 << of.randrange(8)
    return bytes(zipped)


class Wrong(Exception):
    """A check has failed. The text says which."""


def healthy_seconds() -> float:
    """Return the processor time that a healthy MiB takes."""
    data = healthy(MIB)
    began = time.process_time()
    with Reader(io.BytesIO(data)) as reader:
        for _ in reader:
            pass
    return time.process_time() - began


def check(data: bytes, known: Mapping[Digest, Place], per_mib: float) -> None:
    """Read a capture in all ways. Raises Wrong, and whatever else should not come."""
    plain = len(data)
    if data[:2] != b"\x1f\x8b":
        _check_cover(data)
    else:
        plain = sum(len(each.raw) if not isinstance(each, Damage) else each.length for each in _blocks(data))
    began = time.process_time()
    found = []
    places = []
    with Reader(io.BytesIO(data), strict=False) as reader:
        for _, message, facts in reader:
            found.append(_digest(facts.sequence, message))
            places.append((facts.section.info.get("device"), facts.bus))
    took = time.process_time() - began
    if not known.keys() >= set(found):
        raise Wrong("a message that was never sent")
    for digest, (machine, bus) in zip(found, places):
        if machine not in (None, known[digest].machine) or bus != known[digest].bus:
            raise Wrong(f"a message of {known[digest]} is given to {machine}, {bus}")
    if took > 3 * per_mib * plain / MIB + _SLACK:
        raise Wrong(f"{took:.1f} s for {plain / MIB:.1f} MiB, and a healthy MiB takes {per_mib:.3f} s")
    if plain <= _ALL_WAYS:
        (rows, damage), (other_rows, other_damage) = by_scan(data), by_reader(data)
        # Of damage a Reader has the first places.
        if rows != other_rows or (damage != other_damage and not reader.more_damage):
            raise Wrong("the pipeline finds something else")
        _check_recovered(data, found)
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > _MOST_MEMORY:
        raise Wrong(f"more than {_MOST_MEMORY} bytes of memory were in use")


def _blocks(data: bytes) -> list[pcapng.Block | Damage]:
    return list(Blocks(Window(MaybeGzip(io.BytesIO(data)))))


def _check_cover(data: bytes) -> None:
    at = 0
    for each in Blocks(Window(MaybeGzip(io.BytesIO(data)))):
        if isinstance(each, Damage):
            length = each.length
        elif data[each.offset : each.offset + len(each.raw)] != each.raw:
            # It is in place of one that is damaged, and was told.
            continue
        else:
            length = len(each.raw)
        if each.offset != at:
            raise Wrong(f"bytes {at} to {each.offset} are neither a block nor damage")
        at += length
    if at != len(data):
        raise Wrong(f"nothing is said of what follows byte {at}")


def _check_recovered(data: bytes, found: list[Digest]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory, "damaged"), Path(directory, "whole")
        source.write_bytes(data)
        try:
            recover(source, target)
        except CaptureError:
            if found:
                raise
            return
        with Reader(target) as reader:
            made = [_digest(each.facts.sequence, each.message) for each in reader]
        if made != found:
            raise Wrong(f"recover has made {len(made)} messages of {len(found)}")


def run(seed: int, seconds: float, most: int, say: Callable[[str], None]) -> Path | None:
    """Fuzz for so long, with files of up to ``most`` bytes; the file at which a check fails, if one does."""
    # What this process has needed most is told from here on, whatever it has done before.
    Path("/proc/self/clear_refs").write_text("5")
    end = time.monotonic() + seconds
    count, length, told = 0, 0, time.monotonic()
    while time.monotonic() < end:
        of = random.Random(f"{seed} {count}")
        whole = base(of, _between(of, 512, most // 2))
        per_mib = healthy_seconds()
        for _ in range(20):
            data = damaged(of, whole)[:most]
            try:
                check(data, whole.known, per_mib)
            except Exception as error:
                path = Path(f"fuzz-{seed}-{count}.pcapng")
                path.write_bytes(data)
                say(f"seed {seed}, case {count}: {type(error).__name__}: {error}: see {path}")
                return path
            length += len(data)
            count += 1
            if time.monotonic() > end:
                break
        if time.monotonic() > told + 10:
            told = time.monotonic()
            say(f"{count} captures, {length / MIB:.0f} MiB, {end - told:.0f} s left")
    say(f"{count} captures, {length / MIB:.0f} MiB: all well")
    return None


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Damage captures at random, and read them.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=64 * MIB, help="bytes of the largest file")
    args = parser.parse_args()
    return 1 if run(args.seed, args.seconds, args.most, lambda text: print(text, flush=True)) else 0


if __name__ == "__main__":
    sys.exit(main())
