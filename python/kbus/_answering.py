# SPDX-License-Identifier: MIT
"""How a Request is answered, with data or an error, and what becomes of a reply that SEND refused."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Optional, Protocol

from ._failed import failed_reply, kind_and_text
from .errors import ReplierError, StopServing
from .messages import Data, Message, Reply, reply_to

_NOBODY_WAITS = (errno.EADDRNOTAVAIL, errno.ECONNREFUSED)


class CanSend(Protocol):
    """What ``settle`` needs of a Ksock."""

    def send_msg(self, message: Message) -> object:
        """Send a message."""

    def num_unreplied_to(self) -> int:
        """How many Requests have been received and not answered."""


class Replier(CanSend, Protocol):
    """What the other functions need of a Ksock."""

    def max_message_size(self) -> int:
        """How long a message can be."""


class Outcome(NamedTuple):
    """The reply to a Request, and the exception that ends serving, if there is one."""

    reply: Reply
    end: Optional[BaseException] = None


def outcome_of(replier: Replier, request: Message, handle: Callable[[], Data]) -> Outcome:
    """Return the outcome of a Request that ``handle`` answers."""
    try:
        return Outcome(reply_to(request, handle()))
    except BaseException as error:
        return outcome_of_error(replier, request, error)


def outcome_of_error(replier: Replier, request: Message, error: BaseException) -> Outcome:
    """Return the outcome of a Request whose handler has raised this. It is logged unless it ends serving."""
    if isinstance(error, StopServing):
        return outcome_of(replier, request, lambda: error.data)._replace(end=error)
    reply = failed_reply(request, *kind_and_text(error), replier.max_message_size())
    if not isinstance(error, Exception):
        return Outcome(reply, error)
    log_failure(request, error)
    return Outcome(reply)


def log_failure(message: Message, error: Exception) -> None:
    """Log that a handler has raised this."""
    what = "request" if message.is_request() else "message"
    try:
        # Imported late: it takes a third of the time that the package takes, and is for failures only.
        import logging

        logging.getLogger("kbus.serve").error(
            "%s %s %s failed", what, message.id, message.name, exc_info=error
        )
    except Exception:
        # A filter or handler of the program has failed, or the import, where no descriptor is left or in
        # another root directory. The requester must get its answer all the same.
        with suppress(Exception):
            sys.excepthook(*sys.exc_info())


def deliver(replier: Replier, request: Message, reply: Message, error: OSError) -> int:
    """Handle a reply that was refused with ``error``, as ``settle`` does.

    If it was too long, send an error that says so in its place.
    """
    if error.errno != errno.EMSGSIZE:
        return settle(replier, reply, error)
    longest = replier.max_message_size()
    text = f"the answer has {reply.total_length()} bytes, and a message {longest} at most"
    reply = outcome_of_error(replier, request, ReplierError("AnswerTooLong", text)).reply
    try:
        replier.send_msg(reply)
    except OSError as again:
        return settle(replier, reply, again)
    return 0


def settle(replier: CanSend, reply: Message, error: OSError) -> int:
    """Return the errno with which the Request ended, or 0 if a second try has delivered the reply.

    EADDRNOTAVAIL or ECONNREFUSED: the requester has closed its KSock, or has abandoned the Request.
    ENOBUFS: there was no room for the reply, and the requester has got ``$.KBUS.Replier.NoRoom``.

    ``error`` is what ``replier`` raised for the reply. It is raised again if the Request still needs an
    answer.
    A requester that gives several Requests one id may get the reply as that to another one of them.
    Source: semantics, rules 26, 29 and 43.
    """
    if error.errno in _NOBODY_WAITS:
        return error.errno
    if error.errno != errno.ENOBUFS:
        try:
            raise error
        finally:
            # Its traceback refers to this frame. Without garbage collection, the cycle would stay.
            del error
    # ENOBUFS may mean the replier's own memory. But if the Request is over, a second reply is not expected.
    unreplied = replier.num_unreplied_to()
    try:
        replier.send_msg(reply)
    except OSError as again:
        # Another Request of the same id and requester may have ended with the second try.
        if again.errno in _NOBODY_WAITS or replier.num_unreplied_to() < unreplied:
            return errno.ENOBUFS
        raise
    return 0
