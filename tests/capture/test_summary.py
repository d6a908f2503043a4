# SPDX-License-Identifier: MIT
"""What `kbus info` counts, and how long that takes."""

from __future__ import annotations

import io
import struct
import time
from pathlib import Path

import pytest

from kbus import Announcement
from kbus.capture import pcapng
from kbus.capture.summary import summarize
from kbus.capture.writer import origins_of, packets, section_start

from .captures import INFO, START, capture, numbered, read
from .effort import instructions, peak_memory
from .rubbish import MIB, healthy


def seconds_of(path: Path, count: int) -> float:
    """How long a capture of so many sections takes."""
    path.write_bytes(capture(numbered(1)) * count)
    begin = time.process_time()
    summary = summarize(path)
    assert (summary.messages, summary.is_sealed, summary.damage) == (count, True, [])
    return time.process_time() - begin


@pytest.mark.long("measures time")
def test_the_time_grows_with_the_number_of_sections_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    assert seconds_of(path, 6000) < 20 * seconds_of(path, 600)


@pytest.mark.long("measures time")
def test_the_time_grows_with_the_number_of_devices_alone(tmp_path: Path) -> None:
    """A message of each, in one section that has no statistics."""

    def seconds(count: int) -> float:
        file, buses = io.BytesIO(), list(range(count))
        info = {**INFO, "bus": buses, "lost_before": [0] * count}
        file.write(section_start(pcapng.NATIVE, info, buses))
        origins = origins_of(info, buses)
        message = Announcement("$.A").to_bytes()
        file.write(
            b"".join(packets(pcapng.NATIVE, origins, 1, START, ((0, each, 0, message) for each in buses)))
        )
        path = tmp_path / f"{count}.pcapng"
        path.write_bytes(file.getvalue())
        taken = []
        for _ in range(3):
            begin = time.process_time()
            assert summarize(path).messages == count
            taken.append(time.process_time() - begin)
        return min(taken)

    assert seconds(4000) < 50 * seconds(200)


ONE = capture(numbered(1))
STATISTICS = len(pcapng.interface_statistics(pcapng.NATIVE, 0, 0, 0, 0))
SECTIONS = {"sealed": ONE, "not sealed": ONE[:-STATISTICS], "no messages": capture([])}


@pytest.mark.parametrize("kind", SECTIONS)
def test_a_section_takes_as_much_work_however_many_there_are_before_it(kind: str, tmp_path: Path) -> None:
    """And five times as much as that many bytes of messages take, at most."""

    def work(data: bytes) -> int:
        path = tmp_path / "a.pcapng"
        path.write_bytes(data)
        return instructions(lambda: summarize(path))

    one = SECTIONS[kind]
    hundred, thousand = (work(one * (count + 100)) - work(one * count) for count in (100, 1000))
    assert thousand < 1.5 * hundred
    assert hundred < 5 * work(healthy(100 * len(one)))


def test_the_memory_does_not_grow_with_the_number_of_recordings(tmp_path: Path) -> None:
    """Whatever is kept of each of them, its messages are not."""
    long = Announcement("$.Long", bytes(MIB))
    path = tmp_path / "a.pcapng"
    with path.open("wb") as file:
        for number in range(30):
            file.write(capture([long], info={**INFO, "load_id": number}))
    assert peak_memory(lambda: summarize(path)) < 12 * MIB


@pytest.mark.parametrize("which", range(5))
def test_a_message_that_is_hidden_is_missing(which: int, tmp_path: Path) -> None:
    """As in a block of a wrong kind; of the first and the last one, the statistics tell."""
    data = bytearray(capture(numbered(5)))
    at = read(bytes(data))[0][which].facts.offset
    data[at : at + 4] = struct.pack("=I", pcapng.ENHANCED_PACKET ^ 1)
    path = tmp_path / "a.pcapng"
    path.write_bytes(data)
    summary = summarize(path)
    assert (summary.messages, summary.missing) == (4, 1)
    assert [each.reason for each in summary.damage] == ["a packet of kind 7"]
