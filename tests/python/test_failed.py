# SPDX-License-Identifier: MIT
"""Errors as answers: their data, and how they are told from others."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus import Message, MessageId, ReplierError, Reply, Request, Status, StatusError
from kbus import _abi as abi
from kbus._failed import FAILED, decode, encode, error_of, failed_reply, is_failed, is_good, kind_and_text

kinds = st.text(string.ascii_letters + string.digits + "._", min_size=1, max_size=100)
texts = st.text(st.characters(codec="utf-8"))


@given(kinds, texts)
def test_there_and_back(kind: str, text: str) -> None:
    data = encode(kind, text)
    assert len(data) <= 4096
    if len(f"{kind}\n{text}".encode()) <= 4096:
        assert decode(data) == (kind, text)


@given(st.text(), st.text(), st.integers(1, 5000))
def test_whatever_is_told_has_the_form(kind: str, text: str, most: int) -> None:
    data = encode(kind, text, most)
    assert len(data) <= most
    found, cut = decode(data)
    assert "�" not in found
    assert len(found) <= 100
    assert set(found) <= set(string.ascii_letters + string.digits + "._")
    assert text.encode(errors="replace").decode().startswith(cut)


@given(st.one_of(st.none(), st.binary()))
def test_any_data_can_be_read(data: bytes | None) -> None:
    kind, text = decode(data)
    assert "\n" not in kind
    assert isinstance(text, str)


def test_a_kind_has_no_odd_characters() -> None:
    assert encode("no such door!", "") == b"no_such_door_\n"
    assert encode("", "text") == b"Error\ntext"


@given(st.integers(120, 5000), st.one_of(texts, texts.map(lambda text: 5000 * (text or "x"))))
def test_a_reply_is_no_longer_than_a_message_can_be(longest: int, text: str) -> None:
    request = Request("$.A", from_=4, id=MessageId(0, 7), flags=Message.WANT_YOU_TO_REPLY)
    reply = failed_reply(request, "ValueError", text, longest)
    assert reply.total_length() <= longest
    assert (reply.name, reply.to, reply.in_reply_to) == (FAILED, 4, MessageId(0, 7))
    assert is_failed(reply)


class Mute(Exception):
    """It has no text that can be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("no number"), ("ValueError", "no number")),
        (ReplierError("Door.Jammed", "text"), ("Door.Jammed", "text")),
        (ReplierError(5, None), ("5", "None")),  # type: ignore[arg-type]
        (Mute(), ("Mute", "<exception str() failed>")),
    ],
)
def test_what_is_told_of_an_exception(error: Exception, told: tuple[str, str]) -> None:
    assert kind_and_text(error) == told


def test_which_answers_are_good() -> None:
    good = Reply("$.A", in_reply_to=MessageId(0, 7))
    failed = Reply(FAILED, "Door.Jammed\ntext", in_reply_to=MessageId(0, 7))
    status = Status(abi.NAME_REPLIER_GONEAWAY, in_reply_to=MessageId(0, 7))
    assert [is_good(each) for each in (good, failed, status)] == [True, False, False]
    assert [is_failed(each) for each in (good, failed, status)] == [False, True, False]
    assert isinstance(error_of(status), StatusError)
    error = error_of(failed)
    assert isinstance(error, ReplierError)
    assert (error.kind, error.text, error.message) == ("Door.Jammed", "text", failed)


def test_an_event_or_a_status_of_that_name_is_no_error() -> None:
    assert not is_failed(Status(FAILED, in_reply_to=MessageId(0, 7)))
    assert not is_failed(Message(FAILED))


@pytest.mark.parametrize(("text", "shown"), [("", "Kind"), ("text", "Kind: text")])
def test_how_an_error_is_shown(text: str, shown: str) -> None:
    assert str(ReplierError("Kind", text)) == shown
