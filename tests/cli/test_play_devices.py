# SPDX-License-Identifier: MIT
"""`kbus play` of messages of which nothing tells the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbus.cli import main
from tests.capture.captures import capture, numbered, without_origins


def test_what_is_of_no_known_device_is_left_out(
    bus_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It must not go to another one."""
    monkeypatch.setenv("KBUS_TEST_BUS", bus_path)
    path = tmp_path / "a.pcapng"
    data = without_origins(capture(numbered(3)))
    path.write_bytes(data.replace(b'{"device"', b'!"device"').replace(b"kbus0", b"ether"))
    assert main(["play", "--rate", "0", str(path)]) == 0
    assert capsys.readouterr().err == "kbus play: 0 messages sent, 3 left out\n"
