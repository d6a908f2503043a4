# SPDX-License-Identifier: MIT
"""The KSock of a bridge, and what it sends with one call."""

from __future__ import annotations

import signal

import pytest

from kbus.sbus.bus import BridgeKsock, announcement
from tests.kernel.helpers import handler

COUNT = 20_000


@pytest.mark.usefixtures("nothing_left")
def test_a_signal_refuses_no_message() -> None:
    """What has not been sent when it comes is sent by the next call."""
    frame = announcement(b"$.A", b"", 0)
    bus = BridgeKsock(0)
    with handler(signal.SIGALRM, restart=True):
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            sent, error, _ = bus.exchange(frame * COUNT)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    assert error == 0
    assert 0 < sent < COUNT
    assert bus.exchange(frame * (COUNT - sent)) == (COUNT - sent, 0, b"")
    bus.close()
