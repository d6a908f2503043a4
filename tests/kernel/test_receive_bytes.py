# SPDX-License-Identifier: MIT
"""`Ksock.receive_bytes`: messages as they are, for whoever passes them on."""

from __future__ import annotations

import threading
import time

import pytest

from kbus import Announcement, Ksock, Message, OrigFrom, reply_to
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PATIENCE

pytestmark = [pytest.mark.abi("TRANSFER")]


def test_messages_of_all_forms(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.*")
    sent = [
        Announcement("$.A"),
        Announcement("$.A.Bc", b"12345"),
        Announcement("$.Abcd", b"1", orig_from=OrigFrom(1, 2), final_to=OrigFrom(3, 4)),
    ]
    ids = [sender.send_msg(message) for message in sent]
    raw, _, lost, queued = listener.receive_bytes()
    assert (lost, queued) == (0, 0)
    assert [Message.from_bytes(each) for each in raw] == [
        Message.from_message(message, id=id, from_=sender.ksock_id()) for message, id in zip(sent, ids)
    ]
    assert listener.receive_bytes() == ([], [], 0, 0)


def test_what_does_not_fit_comes_later_and_what_is_large_alone(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.*")
    sizes = (1000, 2000, 300_000, 500)
    for size in sizes:
        sender.send_msg(Announcement("$.A", bytes(size)))
    got: list[list[int]] = []
    left: list[int] = []
    while (batch := listener.receive_bytes(20_000)).messages:
        got.append([len(Message.from_bytes(each).data or b"") for each in batch.messages])
        left.append(batch.queued)
    assert sum(got, []) == list(sizes)  # noqa: RUF017
    assert got[0] == [1000, 2000]
    assert left == [4 - sum(map(len, got[: count + 1])) for count in range(len(got))]


def test_losses_are_told(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.set_max_messages(2)
    listener.bind("$.A")
    for _ in range(5):
        sender.send_msg(Announcement("$.A"))
    batch = listener.receive_bytes()
    assert (len(batch.messages), batch.lost) == (2, 3)


def _answer(replier: Ksock) -> None:
    request = replier.wait_for_msg(PATIENCE)
    assert request is not None
    replier.send_msg(reply_to(request))


def test_what_was_put_aside_comes_first(ksock: OpenKsock) -> None:
    asker, replier = ksock(), ksock()
    asker.bind("$.A")
    replier.bind("$.B", replier=True)
    asker.send_msg(Announcement("$.A", "aside"))
    thread = threading.Thread(target=_answer, args=(replier,))
    thread.start()
    asker.call("$.B", timeout=PATIENCE)
    thread.join()
    batch = asker.receive_bytes()
    assert [Message.from_bytes(each).data for each in batch.messages] == [b"aside"]
    assert batch.times == [0]


def test_times_are_those_of_sending(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    sender.send_msg(Announcement("$.A", "before the first call"))
    assert listener.receive_bytes().times == [0]
    bounds = [time.monotonic_ns()]
    for count in range(50):
        sender.send_msg(Announcement("$.A", str(count)))
        bounds.append(time.monotonic_ns())
    times = listener.receive_bytes().times
    assert len(times) == 50
    assert all(begin <= at <= end for begin, at, end in zip(bounds, times, bounds[1:]))
