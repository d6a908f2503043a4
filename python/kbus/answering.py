# SPDX-License-Identifier: MIT
"""What has become of a reply that SEND refused."""

from __future__ import annotations

import errno
from collections.abc import Callable

from .messages import Message

_NOBODY_WAITS = (errno.EADDRNOTAVAIL, errno.ECONNREFUSED)


def settle(send: Callable[[Message], object], reply: Message, error: OSError) -> int:
    """Return the errno with which the Request ended, or 0 if a second try has delivered the reply.

    EADDRNOTAVAIL or ECONNREFUSED: the requester has closed its KSock, or has abandoned the Request.
    ENOBUFS: there was no room for the reply, and the requester has got ``$.KBUS.Replier.NoRoom``.

    ``error`` is what ``send`` raised for the reply; it is raised again if the Request still needs an answer.
    Source: semantics, rules 26 and 43.
    """
    if error.errno in _NOBODY_WAITS:
        return error.errno
    if error.errno != errno.ENOBUFS:
        raise error
    # This may be about the replier's own memory. But if the Request is over, a second reply is not expected.
    try:
        send(reply)
    except OSError as again:
        if again.errno in _NOBODY_WAITS:
            return errno.ENOBUFS
        raise
    return 0
