# SPDX-License-Identifier: MIT
"""What becomes of a reply that SEND refuses."""

from __future__ import annotations

import errno
import os

import pytest

from kbus import Message, MessageId, Reply
from kbus.answering import settle

REPLY = Reply("$.A", "data", to=4, in_reply_to=MessageId(0, 5))


def failed(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class Bus:
    """In the place of SEND: how it ends, call by call; 0 is success."""

    def __init__(self, *ends: int) -> None:
        self.ends = list(ends)

    def send(self, message: Message) -> None:
        assert message is REPLY
        end = self.ends.pop(0)
        if end:
            raise failed(end)


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.ECONNREFUSED])
def test_nobody_waits(number: int) -> None:
    assert settle(Bus().send, REPLY, failed(number)) == number


@pytest.mark.parametrize("again", [errno.ECONNREFUSED, errno.EADDRNOTAVAIL])
def test_the_requester_has_no_room(again: int) -> None:
    """The Request is over: that shows in a second reply being refused."""
    bus = Bus(again)
    assert settle(bus.send, REPLY, failed(errno.ENOBUFS)) == errno.ENOBUFS
    assert bus.ends == []


def test_the_second_try_delivers_it() -> None:
    """It was about the replier's own memory, and there is some now."""
    assert settle(Bus(0).send, REPLY, failed(errno.ENOBUFS)) == 0


@pytest.mark.parametrize("again", [errno.ENOBUFS, errno.ENOMEM])
def test_the_replier_has_no_memory(again: int) -> None:
    with pytest.raises(OSError) as caught:
        settle(Bus(again).send, REPLY, failed(errno.ENOBUFS))
    assert caught.value.errno == again


@pytest.mark.parametrize("number", [errno.EMSGSIZE, errno.EACCES, errno.ENOMEM])
def test_another_error_is_raised_again(number: int) -> None:
    error = failed(number)
    with pytest.raises(OSError) as caught:
        settle(Bus().send, REPLY, error)
    assert caught.value is error
