# SPDX-License-Identifier: MIT
"""The exceptions of this package. What the kernel refuses is an OSError with its errno."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from ._ids import MessageId
from .messages import Data, Message, Status


class ReplierError(Exception):
    """The replier has read a Request, and answered that it failed.

    ``kind`` is a short word of the replier's own (``ValueError``, ``Door.Jammed``), ``text`` is for people,
    ``message`` the answer. A handler of ``serve`` may raise one, without a message, to choose what its
    requester gets.
    """

    def __init__(self, kind: str, text: str = "", message: Optional[Message] = None) -> None:
        super().__init__(kind, text, message)
        self.kind = kind
        self.text = text
        self.message = message

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


class SendManyError(OSError):
    """One of the messages that ``Ksock.send_many`` was given could not be sent.

    ``errno`` is what ``Ksock.send_msg`` would have raised for it. ``sent`` has the ids of the
    messages before it, which were sent, so its index is ``len(sent)``; those after it were not.
    ``kept`` is True if it waits in the kernel for room, as after BlockingIOError from ``send``: then
    ``send`` or ``discard`` it before anything else is sent.
    """

    def __init__(self, errno: int, strerror: str, sent: Sequence[MessageId], kept: bool) -> None:
        super().__init__(errno, strerror)
        self.sent = list(sent)
        self.kept = kept

    def __str__(self) -> str:
        return f"{super().__str__()}: message {len(self.sent)} of those to be sent"


class StatusError(Exception):
    """A Request got a status from KBUS in place of an answer.

    ``status`` is that message; its name says what happened, for instance
    ``$.KBUS.Replier.GoneAway``. Source: semantics, rule 27.
    """

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status

    def __str__(self) -> str:
        return f"no answer to request {self.status.in_reply_to}, but the status {self.status.name}"


class StopServing(Exception):
    """Raised by a handler of ``Ksock.serve`` to answer with ``data`` and then stop serving."""

    def __init__(self, data: Data = None) -> None:
        super().__init__(data)
        self.data = data
