# SPDX-License-Identifier: MIT
"""`Ksock.receive_bytes`: messages as they are, for whoever passes them on."""

from __future__ import annotations

import threading

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
    raw, lost = listener.receive_bytes()
    assert lost == 0
    assert [Message.from_bytes(each) for each in raw] == [
        Message.from_message(message, id=id, from_=sender.ksock_id()) for message, id in zip(sent, ids)
    ]
    assert listener.receive_bytes() == ([], 0)


def test_what_does_not_fit_comes_later_and_what_is_large_alone(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.*")
    sizes = (1000, 2000, 300_000, 500)
    for size in sizes:
        sender.send_msg(Announcement("$.A", bytes(size)))
    got: list[list[int]] = []
    while batch := listener.receive_bytes(20_000)[0]:
        got.append([len(Message.from_bytes(each).data or b"") for each in batch])
    assert sum(got, []) == list(sizes)  # noqa: RUF017
    assert got[0] == [1000, 2000]


def test_losses_are_told(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.set_max_messages(2)
    listener.bind("$.A")
    for _ in range(5):
        sender.send_msg(Announcement("$.A"))
    raw, lost = listener.receive_bytes()
    assert (len(raw), lost) == (2, 3)


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
    raw, _ = asker.receive_bytes()
    assert [Message.from_bytes(each).data for each in raw] == [b"aside"]
