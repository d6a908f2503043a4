# SPDX-License-Identifier: MIT
"""Tests of the door, for pytest. They need no module."""

import pytest
from door import Door

from kbus import Announcement, Ksock, ReplierError


@pytest.fixture
def caller(kbus_bus):
    """A Ksock on a bus on which a door runs."""
    with Ksock() as server, Ksock(call_timeout=5) as caller, Door(server).service.running():
        yield caller


def test_it_opens_and_closes(caller):
    assert caller.call("$.Door.Open").data == b"open"
    assert caller.call("$.Door.Close").data == b"closed"


def test_it_does_not_open_in_a_storm(caller):
    caller.send_msg(Announcement("$.Weather.Wind", "storm"))
    with pytest.raises(ReplierError, match="the wind is too strong") as caught:
        caller.call("$.Door.Open")
    assert caught.value.kind == "Door.Jammed"
