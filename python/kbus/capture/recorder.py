# SPDX-License-Identifier: MIT
"""Recording: messages from KSocks to files, or to a ring in memory."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, islice, repeat
from operator import itemgetter
from typing import NamedTuple, Optional

from .. import names, wire
from . import pcapng
from .clock import WallClock
from .files import Files
from .identity import load_id
from .ring import Ring
from .source import Source
from .sources import HasFileno, Sources, poll_for
from .writer import packets

#: Seconds between two looks at what may have changed for the better: a full disk, a device that is not there
_RETRY = 1.0
#: Seconds: when messages come faster than that, several are read at once, so that not each of those who send
#: has to wake the recorder
_GATHER = 0.02


class _Arrived(NamedTuple):
    """Messages that one system call has brought: where, what that had lost, and when each was queued."""

    interface: int
    lost: int
    times: list[int]
    messages: list[bytes]


class Recorder:
    """Records what comes to ``sources``, an interface each.

    Messages stay in memory for ``flush`` seconds, or until they are ``flush_size`` bytes, and are then given
    to ``files``, or to ``ring`` if there is one. If a message's name matches ``trigger``, the ring is written
    out. ``say`` is told what the user should know. ``messages`` counts those that were read, ``dropped``
    those of them that are in no file.

    A disk that is full stops the recording: what comes then waits in the KSocks' queues, or is lost and
    counted there. It goes on when there is room.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        files: Files,
        say: Callable[[str], None],
        *,
        flush: float = 0.2,
        flush_size: int = 1 << 16,
        ring: Optional[Ring] = None,
        trigger: Optional[str] = None,
    ) -> None:
        self._sources = Sources(sources, say)
        self._files = files
        self._say = say
        self._flush_seconds = flush
        self._ring = ring
        self._trigger = trigger
        self._flush_size = flush_size
        self._pieces: list[bytes] = []
        self._length = 0
        self._received = [0] * len(self._sources)
        self._clock = WallClock()
        self._latest = 0
        self._flush_at = 0.0
        self._gather_until = 0.0
        self._open_at = 0.0
        self._full_since: Optional[float] = None
        self._retry_at = 0.0
        self._left_until: Optional[float] = None
        self._left_load: Optional[int] = None
        self.messages = 0
        self.dropped = 0

    @property
    def lost(self) -> int:
        """How many messages all the KSocks have missed so far, or there was no room for."""
        return sum(self._lost())

    @property
    def state(self) -> str:
        """``recording``, ``no room`` or ``waiting for the module``."""
        if self._left_until is not None:
            return "waiting for the module"
        return "recording" if self._full_since is None else "no room"

    def open(self) -> None:
        """Begin to listen, and begin a file, unless there is a ring. Raises OSError."""
        self._sources.open()
        try:
            self._begin()
        except OSError:
            self._sources.close()
            raise

    def _begin(self) -> None:
        if self._ring is None:
            self._files.begin()

    def step(self, wake: HasFileno, seconds: float) -> None:
        """Record what there is, or comes within so many seconds, or until ``wake`` can be read."""
        if self._left_until is not None:
            poll_for(wake).poll(1000 * min(seconds, _RETRY / 10))
            self._come_back()
        elif self._full_since is not None:
            poll_for(wake).poll(1000 * max(0.0, min(seconds, self._retry_at - time.monotonic())))
            if time.monotonic() >= self._retry_at:
                self._try_again()
        else:
            if time.monotonic() < self._gather_until:
                time.sleep(_GATHER)
            if not self._sources.are_open and time.monotonic() >= self._open_at:
                self._sources.open_more()
                self._open_at = time.monotonic() + _RETRY
            due = min(self._files.due(), self._flush_at if self._length else math.inf)
            self._take_from(self._sources.ready(wake, min(seconds, _RETRY, due - time.monotonic())))

    def _take_from(self, ready: list[int]) -> None:
        arrived: list[_Arrived] = []
        if ready:
            self._gather_until = time.monotonic() + _GATHER
        for index in ready:
            try:
                arrived += self._receive(index)
            except OSError as error:
                self._say(f"can't read kbus{self._sources[index].bus}: {error.strerror}")
                self._sources.close(index)
        self._keep(arrived)
        if not any(source.is_open for source in self._sources):
            # Nothing holds the module any more.
            self._leave(_RETRY)
            return
        if self._length and time.monotonic() >= self._flush_at:
            self.flush()
        self._tick()

    def _tick(self) -> None:
        if self._full_since is None:
            self._try(self._files.tick)

    def _receive(self, index: int) -> list[_Arrived]:
        """Return the messages that one system call brings, if any. Raises OSError."""
        source = self._sources[index]
        batch = source.receive()
        if not batch.messages:
            return []
        self._received[index] += len(batch.messages)
        if batch.queued:
            self._gather_until = 0.0
        return [_Arrived(index, source.lost, _ascending(batch.times, self._latest), batch.messages)]

    def _keep(self, arrived: list[_Arrived]) -> None:
        """Keep the messages in memory, in the order of their times, or write them, if that is due."""
        if not arrived:
            return
        latest = max(each.times[-1] for each in arrived)
        offset = self._clock.offset(min(each.times[0] for each in arrived), latest)
        self._latest = latest
        columns = (
            zip(each.times, repeat(each.interface), repeat(each.lost), each.messages) for each in arrived
        )
        rows = next(columns) if len(arrived) == 1 else sorted(chain(*columns), key=itemgetter(0))
        pieces = packets(pcapng.NATIVE, self.messages + 1, offset, rows)
        if not self._length:
            self._flush_at = time.monotonic() + self._flush_seconds
        self._pieces += pieces
        self._length += sum(map(len, pieces))
        self.messages += sum(len(each.messages) for each in arrived)
        trigger, messages = self._trigger, chain(*(each.messages for each in arrived))
        if trigger and any(names.matches(trigger, wire.name_of(each)) for each in messages):
            self.snapshot()
        elif self._length >= self._flush_size and self._full_since is None:
            self.flush()

    def flush(self) -> bool:
        """Give away what is in memory; False if there was no room for it, and it is still here."""
        if not self._length:
            return True
        output = self._ring or self._files
        if not self._try(lambda: output.append(b"".join(self._pieces), self._received, self._lost())):
            return False
        self._forget()
        return True

    def _lost(self) -> list[int]:
        return [source.lost for source in self._sources]

    def _drop(self) -> None:
        """There is no room for what is in memory, if anything is: it is lost."""
        for source, count in zip(self._sources, self._received):
            source.lost += count
        self.dropped += sum(self._received)
        self._forget()

    def _forget(self) -> None:
        self._pieces, self._length, self._received = [], 0, [0] * len(self._sources)

    def _try(self, do: Callable[[], object]) -> bool:
        """Do what writes to the disk; if that fails, say so, and wait until it does not."""
        try:
            do()
        except OSError as error:
            self._retry_at = time.monotonic() + _RETRY
            if self._full_since is None:
                self._full_since = time.monotonic()
                self._say(f"recording stops: {error.strerror}")
            return False
        if self._full_since is not None:
            self._say(f"recording goes on, after {time.monotonic() - self._full_since:.0f} s")
            self._full_since = None
        return True

    def _try_again(self) -> None:
        if self._length:
            self.flush()
        else:
            self._try(self._begin)

    def snapshot(self) -> None:
        """Make a file of what is in the ring; without one, seal the file that is being written."""
        self.flush()
        if self._ring is None:
            self._seal()
            return
        try:
            for path, count in self._ring.write_out(self._files):
                self._say(f"snapshot {path}: {count} messages")
        except OSError as error:
            self._say(f"can't write a snapshot: {error.strerror}")

    def _seal(self) -> None:
        try:
            self._files.seal(self._lost())
        except OSError as error:
            self._say(f"can't finish the file: {error.strerror}")

    def leave(self, seconds: float) -> None:
        """Let go of the module, so that it can be unloaded: close the devices, and seal the file.

        It begins again when the module has been loaded anew, or after so many seconds if nobody unloads it.
        """
        self._drain()
        self._leave(seconds)

    def _leave(self, seconds: float) -> None:
        if not self.flush():
            # In the next file they would be of another load of the module.
            self._say(f"the last {sum(self._received)} messages are dropped: there is no room for them")
        self._seal()
        # There may be no room for what the file would say of them.
        self._drop()
        self._sources.close()
        self._left_until = time.monotonic() + seconds
        self._left_load = load_id()
        self._say("the devices are closed")

    def _come_back(self) -> None:
        assert self._left_until is not None
        load = load_id()
        if load is None or (load == self._left_load and time.monotonic() < self._left_until):
            return
        if self._sources.open_more():
            self._left_until = None
            self._try(self._begin)

    def drain(self) -> None:
        """Take what is queued now, and give it away; while there is no room, it stays in the queue.

        What comes meanwhile may stay behind.
        """
        if self._full_since is None:
            self._drain()

    def _drain(self) -> None:
        for index, source in enumerate(self._sources):
            with contextlib.suppress(OSError, ValueError):
                left = source.ksock.num_messages()
                while left > 0 and (arrived := self._receive(index)):
                    self._keep(arrived)
                    left -= len(arrived[0].messages)
                    self._tick()
        self.flush()

    def close(self) -> None:
        """Stop: take what is queued, seal the file. ``dropped`` counts what there was no room for."""
        self._drain()
        self._drop()
        self._sources.close()
        try:
            self._files.finish(self._lost())
        except OSError as error:
            self._say(f"can't finish the file: {error.strerror}")


def _ascending(times: list[int], at_least: int) -> list[int]:
    """Return times that do not go back: what an urgent message has overtaken has the time of that."""
    if times[0] >= at_least and times == sorted(times):
        return times
    return list(islice(accumulate(times, max, initial=at_least), 1, None))
