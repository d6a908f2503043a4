# SPDX-License-Identifier: MIT
"""Messages that are made from messages: replies, stateful Requests, and what events carry."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus import (
    Announcement,
    Message,
    MessageId,
    OrigFrom,
    Reply,
    Request,
    Status,
    StatusError,
    StopServing,
    reply_to,
    split_replier_bind_event_data,
    stateful_request,
)

from .strategies import bindable_names, u32


def received_request(**parts: object) -> Message:
    """A Request as its replier reads it."""
    flags = Message.WANT_A_REPLY | Message.WANT_YOU_TO_REPLY
    return Message("$.Fred", b"question", to=7, from_=5, flags=flags, id=MessageId(0, 9), **parts)  # type: ignore[arg-type]


def test_reply() -> None:
    reply = reply_to(received_request(), "answer")
    assert type(reply) is Reply
    assert reply == Reply("$.Fred", b"answer", to=5, in_reply_to=MessageId(0, 9))


def test_reply_with_flags_and_no_data() -> None:
    reply = reply_to(received_request(), flags=Message.URGENT)
    assert reply == Reply("$.Fred", to=5, in_reply_to=MessageId(0, 9), flags=Message.URGENT)


def test_reply_goes_back_to_the_other_network() -> None:
    reply = reply_to(received_request(orig_from=OrigFrom(3, 4)))
    assert reply.final_to == OrigFrom(3, 4)
    assert reply.orig_from is None


@pytest.mark.parametrize(
    "message",
    [
        Message("$.Fred", from_=5, id=MessageId(0, 9)),
        Request("$.Fred", from_=5, id=MessageId(0, 9)),
        Reply("$.Fred", in_reply_to=MessageId(0, 9)),
        Status("$.KBUS.Replier.GoneAway", in_reply_to=MessageId(0, 9)),
    ],
)
def test_only_what_is_ours_to_answer(message: Message) -> None:
    with pytest.raises(ValueError, match="not for us to reply to"):
        reply_to(message, "answer")


def test_stateful_request_after_a_reply() -> None:
    request = stateful_request(Reply("$.Fred", from_=7, in_reply_to=MessageId(0, 9)), "$.Jim", "more")
    assert type(request) is Request
    assert request == Request("$.Jim", b"more", to=7)
    assert request.is_stateful_request()


def test_stateful_request_after_a_reply_from_elsewhere() -> None:
    earlier = Message("$.Fred", from_=7, orig_from=OrigFrom(1, 2), in_reply_to=MessageId(0, 9))
    assert stateful_request(earlier, "$.Jim") == Request("$.Jim", to=7, final_to=OrigFrom(1, 2))


def test_stateful_request_after_another() -> None:
    earlier = Request("$.Fred", to=7, final_to=OrigFrom(1, 2))
    assert stateful_request(earlier, "$.Jim") == Request("$.Jim", to=7, final_to=OrigFrom(1, 2))


@pytest.mark.parametrize("earlier", [Announcement("$.Fred", from_=7), Request("$.Fred", from_=7)])
def test_no_stateful_request_after_anything_else(earlier: Message) -> None:
    with pytest.raises(ValueError, match="neither a reply nor a stateful request"):
        stateful_request(earlier, "$.Jim")


def test_no_stateful_request_to_kbus() -> None:
    status = Status("$.KBUS.Replier.GoneAway", from_=0, in_reply_to=MessageId(0, 9))
    with pytest.raises(ValueError, match="comes from no replier"):
        stateful_request(status, "$.Jim")


@given(st.booleans(), u32, bindable_names)
def test_bind_events(is_bind: bool, binder: int, name: str) -> None:
    header = struct.pack("=3I", is_bind, binder, len(name))
    data = header + name.encode().ljust((len(name) + 3) & ~3, b"\0")
    assert split_replier_bind_event_data(data) == (is_bind, binder, name)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "0 bytes of data"),
        (b"\0" * 11, "11 bytes of data"),
        (struct.pack("=3I", 1, 2, 3), "0 bytes for a name of 3"),
        (struct.pack("=3I", 1, 2, 3) + b"$.a", "3 bytes for a name of 3"),
        (struct.pack("=3I", 1, 2, 3) + b"$.a\0\0\0\0\0", "8 bytes for a name of 3"),
    ],
)
def test_what_is_no_bind_event(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        split_replier_bind_event_data(data)


def test_status_error_carries_the_status() -> None:
    status = Status("$.KBUS.Replier.GoneAway", in_reply_to=MessageId(0, 9))
    error = StatusError(status)
    assert error.status is status
    assert str(error) == "no answer to request [0:9], but the status $.KBUS.Replier.GoneAway"


def test_stop_serving_carries_data() -> None:
    assert StopServing().data is None
    assert StopServing("last").data == "last"
