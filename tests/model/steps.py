# SPDX-License-Identifier: MIT
"""What the hand-written examples of the model have in common."""

from __future__ import annotations

from kbus import _abi as abi
from kbus.testing.model.ksock import Ksock
from kbus.testing.model.wire import Message, MsgId, parse


def post(ksock: Ksock, message: Message) -> MsgId:
    """Write a message and send it."""
    ksock.write(message.to_bytes())
    return ksock.send()


def say(ksock: Ksock, name: bytes, flags: int = 0, data: bytes = b"") -> MsgId:
    """Send an announcement."""
    return post(ksock, Message(name, flags, data=data))


def ask(ksock: Ksock, name: bytes, flags: int = 0, to: int = 0) -> MsgId:
    """Send a Request."""
    return post(ksock, Message(name, flags | abi.BIT_WANT_A_REPLY, to=to))


def answer(ksock: Ksock, request: Message) -> MsgId:
    """Send the reply to a Request."""
    return post(ksock, Message(request.name, in_reply_to=request.id, to=request.sender))


def take(ksock: Ksock) -> Message:
    """Read the next message, which must be there."""
    length = ksock.next_msg()
    assert length
    return parse(ksock.read(length))


def drain(ksock: Ksock) -> list[Message]:
    """Read everything that is queued."""
    return [take(ksock) for _ in range(len(ksock.queue.copies))]


def queued(ksock: Ksock) -> list[bytes]:
    """The names of what is queued, which is read."""
    return [message.name for message in drain(ksock)]
