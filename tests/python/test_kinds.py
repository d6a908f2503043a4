# SPDX-License-Identifier: MIT
"""The kinds of message: what makes a message one of them, and what changes are allowed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus import Announcement, Message, MessageId, Reply, Request, Status

from .strategies import announcements, kinds, messages, replies, requests, statuses


def make(kind: type[Message], **parts: Any) -> Message:
    """A small message of this class."""
    if kind is Reply:
        parts.setdefault("in_reply_to", MessageId(0, 9))
    return kind("$.Fred", **parts)


@given(announcements)
def test_cast_to_announcement(message: Message) -> None:
    assert type(Message.from_message(message).cast()) is Announcement


@given(requests)
def test_cast_to_request(message: Message) -> None:
    assert type(Message.from_message(message).cast()) is Request


@given(replies)
def test_cast_to_reply(message: Message) -> None:
    assert type(Message.from_message(message).cast()) is Reply


@given(statuses)
def test_cast_to_status(message: Message) -> None:
    assert type(Message.from_message(message).cast()) is Status


@given(messages)
def test_cast_gives_an_equal_copy(message: Message) -> None:
    cast = message.cast()
    assert cast == message
    cast.set_urgent(not cast.is_urgent())
    assert cast != message


@pytest.mark.parametrize("also", [{"in_reply_to": MessageId(0, 1)}, {"flags": 1 | Message.SYNTHETIC}])
def test_a_mixture_of_kinds_cannot_be_cast(also: dict[str, Any]) -> None:
    mixture = Message("$.Fred", **{"flags": 1, **also})
    with pytest.raises(ValueError, match="cannot want a reply"):
        mixture.cast()


@pytest.mark.parametrize(
    ("kind", "flags"), [(Message, 0), (Announcement, 0), (Request, 1), (Reply, 0), (Status, 4)]
)
def test_flags_of_each_kind(kind: type[Message], flags: int) -> None:
    assert make(kind).flags == flags
    assert make(kind, flags=Message.URGENT).flags == flags | Message.URGENT


@pytest.mark.parametrize(
    ("kind", "parts", "why"),
    [
        (Announcement, {"flags": Message.WANT_A_REPLY}, "an Announcement cannot want a reply"),
        (Announcement, {"in_reply_to": MessageId(0, 1)}, "an Announcement cannot be a reply"),
        (Request, {"in_reply_to": MessageId(0, 1)}, "a Request cannot be a reply"),
        (Reply, {"flags": Message.WANT_A_REPLY}, "a Reply cannot want a reply"),
        (Reply, {"in_reply_to": MessageId(0, 0)}, "a Reply needs in_reply_to"),
        (Status, {"flags": Message.WANT_A_REPLY}, "a Status cannot want a reply"),
    ],
)
def test_what_is_not_of_its_kind(kind: type[Message], parts: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        kind.from_message(make(kind), **parts)


@pytest.mark.parametrize(
    ("method", "true_for"),
    [
        ("is_reply", {"reply", "status"}),
        ("is_request", {"request", "stateful", "ours"}),
        ("is_stateful_request", {"stateful"}),
        ("is_synthetic", {"status", "event"}),
        ("is_urgent", {"urgent"}),
        ("wants_us_to_reply", {"ours"}),
    ],
)
def test_questions(method: str, true_for: set[str]) -> None:
    asked = {
        "plain": Message("$.Fred", to=3),
        "urgent": Announcement("$.Fred", flags=Message.URGENT),
        "request": Request("$.Fred"),
        "stateful": Request("$.Fred", to=3),
        "ours": Request("$.Fred", flags=Message.WANT_YOU_TO_REPLY),
        "reply": Reply("$.Fred", in_reply_to=MessageId(0, 1)),
        "status": Status("$.KBUS.Replier.GoneAway", in_reply_to=MessageId(0, 1)),
        "event": Status("$.KBUS.ReplierBindEvent"),
    }
    answers = {name: getattr(message, method)() for name, message in asked.items()}
    assert answers == {name: name in true_for for name in asked}


# What can be changed.


@given(kinds, st.booleans())
def test_set_urgent(message: Message, yes: bool) -> None:
    before = message.flags
    message.set_urgent(yes)
    assert message.is_urgent() is yes
    assert message.flags & ~Message.URGENT == before & ~Message.URGENT


def test_urgent_and_wanted_by_default() -> None:
    message = Message("$.Fred")
    message.set_urgent()
    message.set_want_reply()
    assert message.flags == Message.URGENT | Message.WANT_A_REPLY
    message.set_want_reply(False)
    assert message.flags == Message.URGENT


@pytest.mark.parametrize("kind", [Announcement, Reply, Status])
def test_other_kinds_cannot_become_requests(kind: type[Message]) -> None:
    message = make(kind)
    before = message.flags
    with pytest.raises(ValueError, match="cannot want a reply"):
        message.set_want_reply()
    assert message.flags == before


def test_a_request_stays_one() -> None:
    request = Request("$.Fred")
    request.set_want_reply()
    with pytest.raises(ValueError, match="must want a reply"):
        request.set_want_reply(False)
    assert request.is_request()
