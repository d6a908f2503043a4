# SPDX-License-Identifier: MIT
"""What has become of a reply that SEND refused."""

from __future__ import annotations

import errno
from typing import Protocol

from .messages import Message

_NOBODY_WAITS = (errno.EADDRNOTAVAIL, errno.ECONNREFUSED)


class Replier(Protocol):
    """What ``settle`` needs of a Ksock."""

    def send_msg(self, message: Message) -> object:
        """Send a message."""

    def num_unreplied_to(self) -> int:
        """How many Requests have been received and not answered."""


def settle(replier: Replier, reply: Message, error: OSError) -> int:
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
        raise error
    # This may be about the replier's own memory. But if the Request is over, a second reply is not expected.
    unreplied = replier.num_unreplied_to()
    try:
        replier.send_msg(reply)
    except OSError as again:
        # Another Request of the same id and requester may have ended with the second try.
        if again.errno in _NOBODY_WAITS or replier.num_unreplied_to() < unreplied:
            return errno.ENOBUFS
        raise
    return 0
