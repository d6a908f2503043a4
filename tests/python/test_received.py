# SPDX-License-Identifier: MIT
"""Messages as TRANSFER brings them, one after the other in a buffer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbus import Message
from kbus.messages import received

from .strategies import messages


@given(st.lists(messages, max_size=10), st.binary(min_size=8, max_size=8))
def test_they_are_what_was_sent(several: list[Message], padding: bytes) -> None:
    packets = [message.to_bytes() for message in several]
    buffer = b"".join(packet + padding[: -len(packet) % 8] for packet in packets)
    assert received(buffer, len(several)) == several
    assert received(buffer + padding, len(several)) == several


@given(messages)
def test_they_are_plain_messages(message: Message) -> None:
    (again,) = received(message.to_bytes(), 1)
    assert type(again) is Message
    assert repr(again) == repr(message)
