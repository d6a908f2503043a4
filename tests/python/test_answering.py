# SPDX-License-Identifier: MIT
"""What becomes of a reply that SEND refuses."""

from __future__ import annotations

import errno
import gc
import os
import weakref
from contextlib import suppress

import pytest

from kbus import Message, MessageId, Reply, Request
from kbus._answering import deliver, settle

REPLY = Reply("$.A", "data", to=4, in_reply_to=MessageId(0, 5))


def failed(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class Bus:
    """In the place of a Ksock: how SEND ends, call by call; 0 is success. Each may end a Request."""

    def __init__(self, *ends: int, ends_requests: bool = False) -> None:
        self.ends = list(ends)
        self._ends_requests = ends_requests
        self._unreplied = 5

    def send_msg(self, message: Message) -> None:
        assert message is REPLY
        end = self.ends.pop(0)
        self._unreplied -= self._ends_requests
        if end:
            raise failed(end)

    def num_unreplied_to(self) -> int:
        return self._unreplied


class Small(Bus):
    """One whose messages have become too short for REPLY."""

    def send_msg(self, message: Message) -> None:
        assert message.name == "$.KBUS.Replier.Failed"
        end = self.ends.pop(0)
        if end:
            raise failed(end)

    def max_message_size(self) -> int:
        return 200


REQUEST = Request("$.A", from_=4, id=MessageId(0, 5), flags=Message.WANT_YOU_TO_REPLY)


@pytest.mark.parametrize("end", [0, errno.EADDRNOTAVAIL, errno.ECONNREFUSED])
def test_an_error_in_place_of_what_is_too_long(end: int) -> None:
    bus = Small(end)
    assert deliver(bus, REQUEST, REPLY, failed(errno.EMSGSIZE)) == end
    assert bus.ends == []


def test_an_error_that_is_refused_too() -> None:
    with pytest.raises(OSError) as caught:
        deliver(Small(errno.EACCES), REQUEST, REPLY, failed(errno.EMSGSIZE))
    assert caught.value.errno == errno.EACCES


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.ECONNREFUSED])
def test_nobody_waits(number: int) -> None:
    assert settle(Bus(), REPLY, failed(number)) == number


@pytest.mark.parametrize("again", [errno.ECONNREFUSED, errno.EADDRNOTAVAIL])
def test_the_requester_has_no_room(again: int) -> None:
    """The Request is over: that shows in a second reply being refused."""
    bus = Bus(again)
    assert settle(bus, REPLY, failed(errno.ENOBUFS)) == errno.ENOBUFS
    assert bus.ends == []


def test_no_room_for_another_request_of_the_same_id() -> None:
    """The second try was taken for an answer to that one."""
    bus = Bus(errno.ENOBUFS, ends_requests=True)
    assert settle(bus, REPLY, failed(errno.ENOBUFS)) == errno.ENOBUFS


def test_the_second_try_delivers_it() -> None:
    """It was about the replier's own memory, and there is some now."""
    assert settle(Bus(0), REPLY, failed(errno.ENOBUFS)) == 0


@pytest.mark.parametrize("again", [errno.ENOBUFS, errno.ENOMEM])
def test_the_replier_has_no_memory(again: int) -> None:
    with pytest.raises(OSError) as caught:
        settle(Bus(again), REPLY, failed(errno.ENOBUFS))
    assert caught.value.errno == again


@pytest.mark.parametrize("number", [errno.EMSGSIZE, errno.EACCES, errno.ENOMEM])
def test_another_error_is_raised_again(number: int) -> None:
    error = failed(number)
    with pytest.raises(OSError) as caught:
        settle(Bus(), REPLY, error)
    assert caught.value is error


def test_an_error_that_is_raised_again_is_in_no_cycle() -> None:
    """A program may do without a search for them, and the error knows frames, with what they were to send."""

    class Refused(OSError):
        """One that there can be a weak reference to."""

    gc.disable()
    try:
        error = Refused(errno.EMSGSIZE, "too long")
        left = weakref.ref(error)
        with suppress(Refused):
            settle(Bus(), REPLY, error)
        del error
        assert left() is None
    finally:
        gc.enable()
