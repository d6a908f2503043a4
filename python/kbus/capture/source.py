# SPDX-License-Identifier: MIT
"""A KBUS device as a recorder sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from .. import Batch, Ksock

#: Longer than any administrator allows, so the queue is as long as one does
_LONGEST_QUEUE = 0xFFFFFFFF


class Source:
    """A KSock that observes: no sender waits for it, and none fails because of it.

    ``names`` are what it is bound to; a message that several of them match comes once. ``lost`` counts what
    it has missed, in all the times that it was open. ``queue`` is the length of its queue, the longest if
    None; ``room`` how many bytes of messages it takes at once, at most.
    """

    def __init__(
        self, bus: int, names: Sequence[str], queue: Optional[int] = None, room: int = 1 << 16
    ) -> None:
        self.bus = bus
        self.names = list(names)
        self._queue = queue or _LONGEST_QUEUE
        self._room = room
        self._lost_before = 0
        #: how many messages KBUS has dropped, and ``miss`` was told of, since this was made; it never falls
        self.lost = 0
        self._ksock: Optional[Ksock] = None

    def open(self) -> None:
        """Begin to listen. Raises OSError, whose ``filename`` is the device, or the name, that is why."""
        ksock = Ksock(self.bus, "r")
        try:
            ksock.set_max_messages(self._queue)
            ksock.want_messages_once(True)
            ksock.report_lost_messages(True)
            # Now KBUS takes note of the times of all that comes.
            ksock.receive_bytes(self._room)
            for name in self.names:
                _bind(ksock, name)
        except BaseException:
            ksock.close()
            raise
        self._lost_before = self.lost
        self._ksock = ksock

    def close(self) -> None:
        """Stop listening. Can be repeated."""
        if self._ksock is not None:
            self._ksock.close()
            self._ksock = None

    @property
    def is_open(self) -> bool:
        """Whether it listens."""
        return self._ksock is not None

    @property
    def ksock(self) -> Ksock:
        """The KSock. Raises ValueError unless it is open."""
        if self._ksock is None:
            raise ValueError(f"kbus{self.bus} is not open")
        return self._ksock

    def receive(self) -> Batch:
        """Return the messages that are queued, or those of them that fit into one system call."""
        batch = self.ksock.receive_bytes(self._room)
        self.lost = self._lost_before + batch.lost
        return batch

    def miss(self, count: int) -> None:
        """Count messages as lost that were received, and are in no file."""
        self._lost_before += count
        self.lost += count


def _bind(ksock: Ksock, name: str) -> None:
    try:
        ksock.bind(name, observer=True)
    except OSError as error:
        error.filename = name
        raise
