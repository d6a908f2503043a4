# SPDX-License-Identifier: MIT
"""SEND that says EAGAIN instead of sleeping, and poll that says when to repeat it: rule 22."""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable

import pytest

from kbus import Announcement, Ksock, Message, Request
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import (
    device_stats,
    fails,
    fill,
    names,
    refused,
    take,
    texts,
    wait_until,
)
from tests.kernel.processes import Polling, blocked_send
from tests.kernel.room import MAKES_ROOM, told_to_try_again, waiting

pytestmark = [pytest.mark.rule(22), pytest.mark.abi("ALL_OR_WAIT")]


def writable(ksock: Ksock) -> bool:
    """Whether poll says POLLOUT now."""
    poll = select.poll()
    poll.register(ksock.fileno(), select.POLLOUT)
    return poll.poll(0) == [(ksock.fileno(), select.POLLOUT)]


@pytest.mark.abi("SEND")
def test_eagain_keeps_the_message(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock(nonblocking=True)
    fill(full, "$.A")
    last, serial = sender.last_msg_id(), device_stats()["last_serial"]
    os.write(sender.fileno(), waiting(b"kept"))
    for _ in range(2):
        with fails(errno.EAGAIN):
            raw.msg_id(sender, "SEND")
    assert (sender.last_msg_id(), device_stats()["last_serial"]) == (last, serial)
    assert full.lost_messages() == 0
    with refused(errno.EALREADY):
        os.write(sender.fileno(), waiting(b"more"))
    take(full)
    assert raw.msg_id(sender, "SEND") == (0, serial + 1)
    assert texts(full) == [b"kept"]
    with refused(errno.ENOMSG):
        raw.msg_id(sender, "SEND")


@pytest.mark.rule(30)
@pytest.mark.parametrize("event", MAKES_ROOM)
def test_pollout_says_when_to_try_again(ksock: OpenKsock, event: Callable[[Ksock], None]) -> None:
    full, roomy, sender = ksock(), ksock(), ksock(nonblocking=True)
    fill(full, "$.A")
    roomy.bind("$.A")
    assert writable(sender)
    told_to_try_again(sender, waiting(b"kept"))
    assert not writable(sender)
    event(full)
    assert writable(sender)
    assert roomy.num_messages() == 0
    sender.send()
    assert texts(roomy) == [b"kept"]
    assert writable(sender)


def test_pollout_when_the_replier_leaves(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock(nonblocking=True)
    fill(full)
    full.bind("$.A", replier=True)
    told_to_try_again(sender, waiting(flags=raw.WANT_A_REPLY))
    assert not writable(sender)
    full.unbind("$.A", replier=True)
    assert writable(sender)
    with fails(errno.EADDRNOTAVAIL):
        sender.send()


@pytest.mark.rule(30)
def test_a_sleeping_poll_is_woken(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock(nonblocking=True)
    fill(full, "$.A")
    told_to_try_again(sender, waiting())
    polling = Polling(sender, select.POLLOUT)
    take(full)
    assert polling.result() == select.POLLOUT


@pytest.mark.rule(14)
@pytest.mark.abi("DISCARD")
def test_discard_gives_up(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock(nonblocking=True)
    fill(full, "$.A")
    told_to_try_again(sender, waiting(b"gone"))
    sender.discard()
    assert writable(sender)
    with refused(errno.ENOMSG):
        sender.send()
    names(full)
    sender.send_msg(Announcement("$.A", b"next"))
    assert texts(full) == [b"next"]


@pytest.mark.axiom("isolation")
def test_who_was_told_eagain_holds_up_nobody(ksock: OpenKsock) -> None:
    full, nonblocking, blocking = ksock(), ksock(nonblocking=True), ksock()
    fill(full, "$.A")
    told_to_try_again(nonblocking, waiting(b"1111"))
    sending = blocked_send(blocking, waiting(b"2222"))
    take(full)
    sending.result()
    assert take(full).data == b"2222"
    nonblocking.send()
    assert take(full).data == b"1111"


def test_who_was_told_eagain_comes_before_later_ones(ksock: OpenKsock) -> None:
    full, first, second = ksock(), ksock(nonblocking=True), ksock(nonblocking=True)
    fill(full, "$.A")
    for sender, data in ((first, b"1111"), (second, b"2222")):
        told_to_try_again(sender, waiting(data))
    take(full)
    first.send()
    with fails(errno.EAGAIN):
        second.send()
    assert take(full).data == b"1111"


@pytest.mark.axiom("lifetime")
def test_close_drops_what_waits(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock(nonblocking=True)
    fill(full, "$.A")
    told_to_try_again(sender, waiting(b"gone"))
    sender.close()
    assert (device_stats()["waiting"], len(names(full))) == (0, 1)


def test_others_can_take_the_room_first(ksock: OpenKsock) -> None:
    full, sender, other = ksock(), ksock(nonblocking=True), ksock()
    fill(full, "$.A")
    told_to_try_again(sender, waiting(b"late"))
    take(full)
    other.send_msg(Announcement("$.A", b"first"))
    with fails(errno.EAGAIN):
        sender.send()
    assert not writable(sender)
    assert texts(full) == [b"first"]
    sender.send()
    assert texts(full) == [b"late"]


def test_with_room_nobody_waits(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    sender.send_msg(Message("$.A", flags=Message.ALL_OR_WAIT))
    assert names(listener) == ["$.A"]
    with refused(errno.EADDRNOTAVAIL, serials=1):
        sender.send_msg(Request("$.A", flags=Message.ALL_OR_WAIT))


# Many messages, or others, are kept in front of one that could go on.


@pytest.mark.rule(15, 41)
@pytest.mark.parametrize("count", [15, 16, 40])
def test_messages_that_need_more_do_not_hide_one_that_fits(ksock: OpenKsock, count: int) -> None:
    """The reader waits for an answer, so there is never room for two copies."""
    reader, sender = ksock(), ksock(nonblocking=True)
    reader.set_max_messages(3)
    ksock().bind("$.Asked", replier=True)
    for name in ("$.A", "$.A", "$.B"):
        reader.bind(name)
    raw.send(reader, raw.message(b"$.Asked", flags=raw.WANT_A_REPLY))
    for _ in range(2):
        raw.send(reader, raw.message(b"$.B"))
    for _ in range(count):
        told_to_try_again(ksock(nonblocking=True), waiting())
    told_to_try_again(sender, raw.message(b"$.B", flags=raw.ALL_OR_WAIT))
    take(reader)
    wait_until(lambda: writable(sender), "one that fits is told")
    sender.send()


@pytest.mark.rule(41)
def test_a_message_behind_the_line_is_told_when_that_has_gone(ksock: OpenKsock) -> None:
    """It would fit, but whoever sleeps comes first: a try would be in vain."""
    reader, sender = ksock(), ksock(nonblocking=True)
    for name in ("$.A", "$.A", "$.B"):
        reader.bind(name)
    reader.set_max_messages(3)
    for _ in range(3):
        raw.send(reader, raw.message(b"$.B"))
    sleeping = blocked_send(ksock(), waiting())
    told_to_try_again(sender, raw.message(b"$.B", flags=raw.ALL_OR_WAIT))
    take(reader)
    assert not writable(sender)
    take(reader)
    sleeping.result()
    assert not writable(sender)
    take(reader)
    assert writable(sender)
    sender.send()


@pytest.mark.rule(22, 42)
@pytest.mark.parametrize("is_last", [False, True], ids=["that listens longest", "that came last"])
def test_what_one_can_never_take_is_refused_though_another_is_full(ksock: OpenKsock, is_last: bool) -> None:
    """Whoever is looked at first."""
    full, small, sender = ksock(), ksock(), ksock(nonblocking=True)
    for each in (full, small, small) if is_last else (small, small, full):
        each.bind("$.A")
    small.set_max_messages(1)
    full.set_max_messages(1)
    raw.send(sender, raw.message(b"$.A"))
    os.write(sender.fileno(), waiting())
    with refused(errno.EBUSY, serials=1):
        sender.send()
