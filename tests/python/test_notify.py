# SPDX-License-Identifier: MIT
"""Telling systemd."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kbus.terminal.monitoring import notify


def test_who_does_not_listen_need_not_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(address)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        with pytest.raises(BlockingIOError):
            for _ in range(10_000):
                notify("STATUS=recording", wait=False)
        assert server.recv(100) == b"STATUS=recording"
        notify("READY=1")
