# SPDX-License-Identifier: MIT
"""The messages that come to a KSock, with the times at which they were sent."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Optional

from .. import Ksock, Message
from .._transfer import WallClock
from ..messages import received

__all__ = ["Incoming"]


class Incoming:
    """Takes messages from ``ksock``, which is not bound yet: KBUS takes note of the times of all that comes.

    Times are in ns since 1970, by the clock as it is when the message is taken.
    """

    def __init__(self, ksock: Ksock) -> None:
        self.ksock = ksock
        self._taken: deque[tuple[bytes, int]] = deque()
        self._clock = WallClock()
        self._latest = 0
        self._take_batch()

    def take(self) -> Optional[tuple[Message, int]]:
        """The next message and when it was sent, None if there is none now."""
        if not self._taken:
            self._take_batch()
        if not self._taken:
            return None
        content, time_ns = self._taken.popleft()
        return received(content, 1)[0], time_ns

    def queued(self) -> Iterator[tuple[Message, int]]:
        """What there is when the first of it is asked for, and nothing that comes later."""
        left = len(self._taken) + self.ksock.num_messages()
        while left > 0 and (message := self.take()):
            left -= 1
            yield message

    def _take_batch(self) -> None:
        batch = self.ksock.receive_bytes()
        now = time.monotonic_ns()
        # What was queued before times were asked for has 0.
        times = [at or now for at in batch.times]
        if times:
            # An urgent message has overtaken others, and so may be later than those.
            latest = max(self._latest, *times)
            offset = self._clock.offset(max(self._latest, min(times)), latest)
            self._latest = latest
            self._taken.extend((content, at + offset) for content, at in zip(batch.messages, times))
