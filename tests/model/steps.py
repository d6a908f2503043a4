# SPDX-License-Identifier: MIT
"""What the hand-written examples of the model have in common."""

from __future__ import annotations

from kbus import _abi as abi
from kbus.testing.model.ksock import ModelKsock
from kbus.testing.model.wire import MsgId, WireMessage, parse


def post(ksock: ModelKsock, message: WireMessage) -> MsgId:
    """Write a message and send it."""
    ksock.write(message.to_bytes())
    return ksock.send()


def say(ksock: ModelKsock, name: bytes, flags: int = 0, data: bytes = b"") -> MsgId:
    """Send an announcement."""
    return post(ksock, WireMessage(name, flags, data=data))


def ask(ksock: ModelKsock, name: bytes, flags: int = 0, to: int = 0) -> MsgId:
    """Send a Request."""
    return post(ksock, WireMessage(name, flags | abi.BIT_WANT_A_REPLY, to=to))


def answer(ksock: ModelKsock, request: WireMessage) -> MsgId:
    """Send the reply to a Request."""
    return post(ksock, WireMessage(request.name, in_reply_to=request.id, to=request.sender))


def take(ksock: ModelKsock) -> WireMessage:
    """Read the next message, which must be there."""
    length = ksock.next_msg()
    assert length
    return parse(ksock.read(length))


def drain(ksock: ModelKsock) -> list[WireMessage]:
    """Read everything that is queued."""
    return [take(ksock) for _ in range(len(ksock.queue.copies))]


def queued(ksock: ModelKsock) -> list[bytes]:
    """The names of what is queued, which is read."""
    return [message.name for message in drain(ksock)]
