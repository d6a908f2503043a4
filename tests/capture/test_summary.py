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


@pytest.mark.parametrize("which", range(5))
def test_a_message_that_is_hidden_is_missing(which: int, tmp_path: Path) -> None:
    """As a block of a kind that means nothing; of the first and the last one, the statistics tell."""
    data = bytearray(capture(numbered(5)))
    at = read(bytes(data))[0][which].facts.offset
    data[at : at + 4] = struct.pack("=I", pcapng.ENHANCED_PACKET ^ 1)
    path = tmp_path / "a.pcapng"
    path.write_bytes(data)
    summary = summarize(path)
    assert (summary.messages, summary.missing, summary.damage) == (4, 1, [])
