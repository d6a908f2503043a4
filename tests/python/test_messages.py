# SPDX-License-Identifier: MIT
"""Message and its subclasses as values: what they are made of, compare as, and turn into."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given

import kbus
from kbus import (
    Announcement,
    Message,
    MessageId,
    OrigFrom,
    Reply,
    Request,
)

from .strategies import kinds, messages


def with_one(field: str, value: Any) -> Message:
    """A message with one part besides its name."""
    return Message("$.Fred", **{field: value})


# The parts.


def test_a_message_of_only_a_name() -> None:
    message = Message("$.Fred")
    assert message.name == "$.Fred"
    assert message.data is None
    assert (message.to, message.from_, message.flags) == (0, 0, 0)
    assert message.id is None
    assert message.in_reply_to is None
    assert message.orig_from is None
    assert message.final_to is None


def test_positional_arguments() -> None:
    message = Message(
        "$.Fred",
        b"data",
        1,
        2,
        OrigFrom(3, 4),
        OrigFrom(5, 6),
        MessageId(7, 8),
        Message.URGENT,
        MessageId(9, 10),
    )
    assert message.extract() == (
        MessageId(9, 10),
        MessageId(7, 8),
        1,
        2,
        OrigFrom(3, 4),
        OrigFrom(5, 6),
        Message.URGENT | Message.EXTENDED,
        "$.Fred",
        b"data",
    )


@pytest.mark.parametrize("data", ["1234", b"1234", bytearray(b"1234"), memoryview(b"1234")])
def test_data_reads_back_as_bytes(data: Any) -> None:
    read = Message("$.Fred", data).data
    assert read == b"1234"
    assert type(read) is bytes


def test_text_is_utf_8() -> None:
    assert Message("$.Fred", "Grüße").data == b"Gr\xc3\xbc\xc3\x9fe"


@pytest.mark.parametrize("data", [None, "", b""])
def test_no_data_is_none(data: Any) -> None:
    assert Message("$.Fred", data).data is None


def test_later_changes_of_the_data_given_do_not_change_the_message() -> None:
    data = bytearray(b"1234")
    message = Message("$.Fred", data)
    data[0] = 0
    assert message.data == b"1234"


@pytest.mark.parametrize("data", [5, 1.5, ["a"]])
def test_data_of_other_types(data: Any) -> None:
    with pytest.raises(TypeError):
        Message("$.Fred", data)


@pytest.mark.parametrize("name", ["", "Fred", "$", "$Fred", ".Fred"])
def test_a_name_must_start_with_dollar_dot(name: str) -> None:
    with pytest.raises(ValueError, match=r'does not start with "\$\."'):
        Message(name)


def test_a_name_has_a_word() -> None:
    with pytest.raises(ValueError, match=r'message name "\$\." has no word'):
        Message("$.")


@pytest.mark.parametrize("name", ["$.a..b", "$.Fred.*", "$.Fréd", "$." + "a" * 2000])
def test_the_rest_of_a_name_is_for_kbus_to_check(name: str) -> None:
    assert Message(name).name == name


def test_a_name_must_be_text() -> None:
    with pytest.raises(TypeError, match="a str, not bytes"):
        Message(b"$.Fred")  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["to", "from_", "flags"])
@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_numbers_must_fit_32_bits(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{field} is {value}"):
        with_one(field, value)


@pytest.mark.parametrize("field", ["to", "from_", "flags"])
def test_numbers_must_be_integers(field: str) -> None:
    with pytest.raises(TypeError, match=f"{field} is an int, not str"):
        with_one(field, "1")


@pytest.mark.parametrize("bit", [30, 31])
def test_the_bits_of_the_padding_are_nobodys_flags(bit: int) -> None:
    with pytest.raises(ValueError, match="bits 30 and 31"):
        Message("$.Fred", flags=1 << bit)


@pytest.mark.parametrize("field", ["id", "in_reply_to"])
def test_ids_must_be_message_ids(field: str) -> None:
    with pytest.raises(TypeError, match=f"{field} is a MessageId, not OrigFrom"):
        with_one(field, OrigFrom(0, 1))


@pytest.mark.parametrize("field", ["orig_from", "final_to"])
def test_end_points_must_be_orig_froms(field: str) -> None:
    with pytest.raises(TypeError, match=f"{field} is a OrigFrom, not tuple"):
        with_one(field, (0, 1))


def test_pairs_of_zeros_are_none() -> None:
    message = Message(
        "$.Fred",
        orig_from=OrigFrom(0, 0),
        final_to=OrigFrom(0, 0),
        in_reply_to=MessageId(0, 0),
        id=MessageId(0, 0),
    )
    assert message == Message("$.Fred")


@pytest.mark.parametrize("field", ["orig_from", "final_to"])
def test_end_points_make_a_message_extended(field: str) -> None:
    assert with_one(field, OrigFrom(1, 2)).flags == Message.EXTENDED


# Comparing.


@given(messages, messages)
def test_equality_is_of_all_parts(one: Message, other: Message) -> None:
    assert (one == other) == (one.extract() == other.extract())


@given(kinds)
def test_equality_does_not_look_at_the_class(message: Message) -> None:
    assert Message.from_message(message) == message


def test_a_message_is_nothing_else() -> None:
    assert Message("$.Fred") != "$.Fred"
    assert Message("$.Fred") != Message("$.Fred").extract()


@given(messages)
def test_messages_are_not_hashable(message: Message) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)


@given(kinds, messages)
def test_equivalent_ignores_what_kbus_and_repetition_change(message: Message, other: Message) -> None:
    changed = Message(
        message.name,
        message.data,
        to=message.to,
        from_=other.from_,
        orig_from=message.orig_from,
        final_to=message.final_to,
        in_reply_to=other.in_reply_to,
        flags=other.flags,
        id=other.id,
    )
    assert message.equivalent(changed)


@pytest.mark.parametrize(
    "change",
    [
        {"data": b"other"},
        {"to": 5},
        {"orig_from": OrigFrom(1, 2)},
        {"final_to": OrigFrom(1, 2)},
    ],
)
def test_equivalent_compares_the_rest(change: dict[str, Any]) -> None:
    message = Message("$.Fred", b"data")
    assert not message.equivalent(Message.from_message(message, **change))
    assert not message.equivalent(Message("$.Jim", b"data"))


# Other forms.


@given(kinds)
def test_sequence_and_back(message: Message) -> None:
    again = type(message).from_sequence(list(message.extract()))
    assert again == message
    assert type(again) is type(message)


def test_a_sequence_has_nine_parts() -> None:
    with pytest.raises(ValueError, match="9 values, not 8"):
        Message.from_sequence(Message("$.Fred").extract()[:8])


@given(kinds)
def test_repr_makes_the_same(message: Message) -> None:
    again = eval(repr(message), vars(kbus))
    assert again == message
    assert type(again) is type(message)


def test_repr_is_short() -> None:
    assert repr(Message("$.Fred", "1234")) == "Message('$.Fred', data=b'1234')"
    assert repr(Request("$.Fred", to=3)) == "Request('$.Fred', to=3)"
    assert repr(Announcement("$.Fred", flags=8)) == "Announcement('$.Fred', flags=0x00000008)"


@given(kinds)
def test_copies_are_equal(message: Message) -> None:
    for again in (copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert again == message
        assert type(again) is type(message)


@given(kinds)
def test_from_message_without_changes(message: Message) -> None:
    assert type(message).from_message(message) == message


def test_from_message_with_changes() -> None:
    message = Announcement("$.Fred", b"data", id=MessageId(0, 1))
    changed = Reply.from_message(
        message,
        data="other",
        to=1,
        from_=2,
        orig_from=OrigFrom(3, 4),
        final_to=OrigFrom(5, 6),
        in_reply_to=MessageId(0, 7),
        flags=Message.URGENT,
        id=MessageId(8, 9),
    )
    assert changed == Message(
        "$.Fred",
        b"other",
        1,
        2,
        OrigFrom(3, 4),
        OrigFrom(5, 6),
        MessageId(0, 7),
        Message.URGENT,
        MessageId(8, 9),
    )
    assert message == Announcement("$.Fred", b"data", id=MessageId(0, 1))


def test_constants() -> None:
    assert (Message.WANT_A_REPLY, Message.WANT_YOU_TO_REPLY) == (1, 2)
    assert (Message.SYNTHETIC, Message.URGENT) == (4, 8)
    assert (Message.ALL_OR_WAIT, Message.ALL_OR_FAIL, Message.EXTENDED) == (0x100, 0x200, 0x400)
    assert (Message.START_GUARD, Message.END_GUARD) == (0x7375626B, 0x6B627573)
