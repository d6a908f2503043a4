# SPDX-License-Identifier: MIT
"""An error as an answer: the replier has read the Request, and failed. Source: rule 27 of the bus."""

from __future__ import annotations

import re
from typing import Optional

from . import _abi as abi
from .errors import ReplierError, StatusError
from .messages import Message, Reply, Status, reply_to

#: The name of an answer that is an error.
FAILED = "$.KBUS.Replier.Failed"
#: Most bytes of the kind, and of the data
MOST_KIND, MOST_DATA = 100, 4096

_NOT_OF_A_KIND = re.compile("[^A-Za-z0-9._]")


def is_failed(message: Message) -> bool:
    """Return whether this is the answer of a replier that failed."""
    return message.name == FAILED and message.is_reply() and not message.is_synthetic()


def is_good(answer: Message) -> bool:
    """Return whether this answer is what was asked for, neither an error nor a status of KBUS."""
    return not answer.flags & abi.BIT_SYNTHETIC and answer.name != FAILED


def error_of(answer: Message) -> Exception:
    """Return what is raised for an answer that is not good."""
    if answer.is_synthetic():
        return StatusError(Status.from_message(answer))
    return ReplierError(*decode(answer.data), answer)


def decode(data: Optional[bytes]) -> tuple[str, str]:
    """Return kind and text of an error's data; what is not UTF-8 in them is replaced."""
    kind, _, text = (data or b"").decode(errors="replace").partition("\n")
    return kind, text


def encode(kind: str, text: str, most: int = MOST_DATA) -> bytes:
    """Return the data of an error, of at most so many bytes; what is too long is cut.

    Underscores replace the characters that a kind cannot have.
    """
    head = (_NOT_OF_A_KIND.sub("_", kind)[:MOST_KIND] or "Error") + "\n"
    # Cut no character in half.
    return (head + text).encode(errors="replace")[:most].decode(errors="ignore").encode()


def kind_and_text(error: BaseException) -> tuple[str, str]:
    """Return kind and text for an exception: its class and its text, or those of a ReplierError."""
    try:
        if isinstance(error, ReplierError):
            return str(error.kind), str(error.text)
        return type(error).__name__, str(error)
    except Exception:
        return type(error).__name__, "<exception str() failed>"


def failed_reply(request: Message, kind: str, text: str, longest: int) -> Reply:
    """Return the error to answer a Request with, a message of ``longest`` bytes at most."""
    plain = reply_to(request)
    empty = Reply(FAILED, to=plain.to, final_to=plain.final_to, in_reply_to=plain.in_reply_to)
    room = (longest - empty.total_length()) & ~3
    return Reply.from_message(empty, encode(kind, text, min(MOST_DATA, room)))
