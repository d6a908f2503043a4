# SPDX-License-Identifier: MIT
"""Whether a capture was sealed, and what `kbus recover` adds to one that was not."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from kbus import Announcement
from kbus.capture import Frame, Writer, pcapng
from kbus.capture.recover import recover
from kbus.capture.summary import summarize

from .captures import INFO, START, statistics_in
from .test_cli_files import run


def two_devices(*statistics: int) -> bytes:
    """Messages of two devices, of which these have statistics; kbus5 has lost 3 of them, and kbus2 none."""
    file = io.BytesIO()
    writer = Writer(file, {**INFO, "bus": [2, 5], "lost_before": [0, 1]}, [2, 5])
    for index, lost in ((0, 0), (1, 1), (0, 0), (1, 4)):
        sequence = writer.received[0] + writer.received[1] + 1
        writer.write(index, START, Frame(sequence, sequence, lost), [Announcement("$.A").to_bytes()])
    for index in statistics:
        file.write(pcapng.interface_statistics(pcapng.NATIVE, index, START, 2, 3 * index))
    return file.getvalue()


@pytest.mark.parametrize("statistics", [(0,), (1,), ()])
def test_a_file_without_all_statistics_is_not_sealed(
    statistics: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(two_devices(*statistics))
    summary = summarize(path)
    assert (summary.is_sealed, summary.lost) == (False, 3)
    assert run(capsys, "info", str(path))[1].startswith(f"{path}: whole, but it was not sealed, ")
    recover(path, tmp_path / "b.pcapng")
    summary = summarize(tmp_path / "b.pcapng")
    assert (summary.is_sealed, summary.lost) == (True, 3)
    found = statistics_in(tmp_path / "b.pcapng")
    assert sorted((each.bus, each.received, each.dropped) for each in found) == [(2, 2, 0), (5, 2, 3)]


def test_a_file_with_all_statistics_is_sealed(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(two_devices(0, 1))
    summary = summarize(path)
    assert (summary.is_sealed, summary.lost) == (True, 3)
