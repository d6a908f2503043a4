# SPDX-License-Identifier: MIT
"""The KBUS devices of a recorder."""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Optional

from .. import Batch, Ksock

#: Longer than any administrator allows, so the queue is as long as one does
_LONGEST_QUEUE = 0xFFFFFFFF


class Source:
    """A KSock that observes: no sender waits for it, and none fails because of it.

    ``names`` are what it is bound to; a message that several of them match comes once. ``queue`` is the
    length of its queue, the longest if None; ``room`` how many bytes of messages it takes at once, at most.
    ``lost`` counts the messages that KBUS has dropped, and those that ``miss`` was given. Raises OSError,
    whose ``filename`` is the device, or the name, that is why.
    """

    def __init__(
        self, bus: int, names: Sequence[str], queue: Optional[int] = None, room: int = 1 << 16
    ) -> None:
        self.bus = bus
        self._room = room
        self._missed = 0
        self.lost = 0
        self.ksock = Ksock(bus, "r")
        try:
            self.ksock.set_max_messages(queue or _LONGEST_QUEUE)
            self.ksock.want_messages_once(True)
            self.ksock.report_lost_messages(True)
            # Now KBUS takes note of the times of all that comes.
            self.ksock.receive_bytes(room)
            for name in names:
                try:
                    self.ksock.bind(name, observer=True)
                except OSError as error:
                    error.filename = name
                    raise
        except BaseException:
            self.ksock.close()
            raise

    def receive(self) -> Batch:
        """Return the messages that are queued, or those of them that fit into one system call."""
        batch = self.ksock.receive_bytes(self._room)
        self.lost = batch.lost + self._missed
        return batch

    def miss(self, count: int) -> None:
        """Count messages as lost that were received, and are in no file."""
        self._missed += count
        self.lost += count


def ready(sources: Sequence[Source], wake: int, seconds: float) -> list[int]:
    """Return which can be read, as soon as one can, or ``wake``, a descriptor, or after so many seconds."""
    indexes = {each.ksock.fileno(): index for index, each in enumerate(sources)}
    poll = select.poll()
    for fd in (wake, *indexes):
        poll.register(fd, select.POLLIN)
    return [indexes[fd] for fd, _ in poll.poll(1000 * max(0.0, seconds)) if fd in indexes]
