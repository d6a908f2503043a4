# SPDX-License-Identifier: MIT
"""The exceptions of this package. What the kernel refuses is an OSError with its errno."""

from __future__ import annotations

from .messages import Data, Status


class StatusError(Exception):
    """A Request got a status from KBUS in place of an answer.

    ``status`` is that message; its name tells what happened, for instance
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
