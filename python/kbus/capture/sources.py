# SPDX-License-Identifier: MIT
"""The KBUS devices of a recorder, which come and go."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Optional, Protocol

from .source import Source

#: Seconds for which a device may be late without a word: udev has to let us in
_LATE = 1.0


class HasFileno(Protocol):
    """Something to poll."""

    def fileno(self) -> int:
        """The descriptor."""


class Sources:
    """Sources, an interface each, of which some may be closed. ``say`` is told what becomes of them."""

    def __init__(self, sources: Sequence[Source], say: Callable[[str], None]) -> None:
        self._sources = list(sources)
        self._say = say
        self._poll: Optional[select.poll] = None
        self._indexes: dict[int, int] = {}
        self._late_since: dict[int, float] = {}
        self._told: set[int] = set()

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[Source]:
        return iter(self._sources)

    def __getitem__(self, index: int) -> Source:
        return self._sources[index]

    @property
    def are_open(self) -> bool:
        """Whether all of them are."""
        return all(source.is_open for source in self._sources)

    def open(self) -> None:
        """Open all of them, or none. Raises OSError, see ``Source.open``."""
        with contextlib.ExitStack() as stack:
            for source in self._sources:
                stack.callback(source.close)
                source.open()
            stack.pop_all()
        self._poll = None

    def open_more(self) -> bool:
        """Open those that are closed, if they can be; whether any is open then."""
        for source in self._sources:
            if source.is_open:
                continue
            try:
                source.open()
            except OSError as error:
                self._is_late(source.bus, str(error.strerror))
                continue
            self._poll = None
            self._late_since.pop(source.bus, None)
            self._told.discard(source.bus)
            self._say(f"kbus{source.bus} is open again")
        return any(source.is_open for source in self._sources)

    def _is_late(self, bus: int, why: str) -> None:
        now = time.monotonic()
        if bus not in self._told and now >= self._late_since.setdefault(bus, now) + _LATE:
            self._say(f"can't open kbus{bus}: {why}")
            self._told.add(bus)

    def ready(self, wake: HasFileno, seconds: float) -> list[int]:
        """Return which can be read, as soon as one can, ``wake`` can, or so many seconds have gone."""
        if self._poll is None:
            found = [index for index, source in enumerate(self._sources) if source.is_open]
            self._indexes = {self._sources[index].ksock.fileno(): index for index in found}
            self._poll = poll_for(wake, *(self._sources[index].ksock for index in found))
        ready = self._poll.poll(1000 * max(0.0, seconds))
        return [self._indexes[fd] for fd, _ in ready if fd in self._indexes]

    def close(self, index: Optional[int] = None) -> None:
        """Close one of them, or all. Can be repeated."""
        for source in self._sources if index is None else [self._sources[index]]:
            source.close()
        self._poll = None


def poll_for(*files: HasFileno) -> select.poll:
    """Return what waits until one of them can be read."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return poll
