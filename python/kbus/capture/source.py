# SPDX-License-Identifier: MIT
"""The KBUS devices of a recorder, which come and go."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable, Sequence
from typing import Optional, Protocol, Union

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
        #: None unless it is open
        self.ksock: Optional[Ksock] = None

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
                try:
                    ksock.bind(name, observer=True)
                except OSError as error:
                    error.filename = name
                    raise
        except BaseException:
            ksock.close()
            raise
        self._lost_before = self.lost
        self.ksock = ksock

    def close(self) -> None:
        """Stop listening. Can be repeated."""
        if self.ksock is not None:
            self.ksock.close()
            self.ksock = None

    def receive(self) -> Batch:
        """Return the messages that are queued, or those of them that fit into one system call."""
        assert self.ksock
        batch = self.ksock.receive_bytes(self._room)
        self.lost = self._lost_before + batch.lost
        return batch

    def miss(self, count: int) -> None:
        """Count messages as lost that were received, and are in no file."""
        self._lost_before += count
        self.lost += count


class HasFileno(Protocol):
    """Something to poll."""

    def fileno(self) -> int:
        """The descriptor."""


class Sources:
    """Sources, an interface each, of which some may be closed. ``say`` is told what becomes of them."""

    def __init__(self, sources: Sequence[Source], say: Callable[[str], None]) -> None:
        self.all = list(sources)
        self._say = say
        self._told: set[int] = set()

    @property
    def is_any_open(self) -> bool:
        """Whether one of them is open at least."""
        return any(source.ksock for source in self.all)

    def open(self) -> None:
        """Open all of them, or none. Raises OSError, see ``Source.open``."""
        with contextlib.ExitStack() as stack:
            for source in self.all:
                stack.callback(source.close)
                source.open()
            stack.pop_all()

    def open_more(self) -> bool:
        """Open those that are closed, if they can be; whether any is open then."""
        for source in self.all:
            if source.ksock:
                continue
            try:
                source.open()
            except OSError as error:
                if source.bus not in self._told:
                    self._say(f"can't open kbus{source.bus}: {error.strerror}")
                self._told.add(source.bus)
            else:
                self._told.discard(source.bus)
                self._say(f"kbus{source.bus} is open again")
        return self.is_any_open

    def ready(self, wake: HasFileno, seconds: float) -> list[int]:
        """Return which can be read, as soon as one can, ``wake`` can, or so many seconds have gone."""
        indexes = {each.ksock.fileno(): index for index, each in enumerate(self.all) if each.ksock}
        found = poll_for(wake, *indexes).poll(1000 * max(0.0, seconds))
        return [indexes[fd] for fd, _ in found if fd in indexes]

    def close(self) -> None:
        """Close all. Can be repeated."""
        for source in self.all:
            source.close()


def poll_for(*files: Union[HasFileno, int]) -> select.poll:
    """Return what waits until one of them can be read."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return poll
