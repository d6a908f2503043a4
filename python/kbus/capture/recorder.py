# SPDX-License-Identifier: MIT
"""Recording: messages from KSocks to files, or to a ring in memory."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from operator import itemgetter
from typing import Optional

from .. import _wire as wire
from .. import names
from .._transfer import WallClock
from . import pcapng
from .files import Files
from .ring import Ring
from .source import Source, ready
from .writer import Arrival, origins_of, packets

#: Seconds between two looks at whether there is room again
_RETRY = 1.0
#: Seconds: when messages come faster than that, several are read at once, so that not each sender has to wake
#: the recorder
_GATHER = 0.02


class Recorder:
    """Records what comes to ``sources``, an interface each.

    Messages stay in memory for ``flush`` seconds, or until they are ``flush_size`` bytes, and are then given
    to ``files``, or to ``ring`` if there is one. If a message's name matches ``trigger``, the ring is written
    out, ``after`` seconds later, as it is with each ``snapshot``. ``say`` gets what the user should know.
    ``messages`` counts those that were read, ``dropped`` those of them that are in no file and should be.

    A disk that is full stops the recording, and so does a device that can't be read: what comes then waits in
    the KSocks' queues, or is lost and counted there. It goes on when that is over. A snapshot that finds no
    room is made later, of what is in memory then; ``lacks_snapshot`` is true until it is made.
    ``stopped_since`` is by time.monotonic().
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
        after: float = 0.0,
    ) -> None:
        self._sources = sources
        self._files = files
        self._say = say
        self._flush_seconds = flush
        self._flush_size = flush_size
        self._ring = ring
        self._trigger = trigger
        self._after = after
        self._snapshot_at = math.inf
        self._data = bytearray()
        self._received = [0] * len(sources)
        #: What was read of an interface and not kept yet, and which have more in their queues
        self._waiting: dict[int, list[Arrival]] = {}
        self._has_more: set[int] = set()
        self._origins = origins_of(files.info, [source.bus for source in sources])
        self._clock = WallClock()
        self._latest = 0
        self._flush_at = 0.0
        self._gather_until = 0.0
        self.stopped_since: Optional[float] = None
        self._retry_at = 0.0
        self.messages = 0
        self.dropped = 0
        self.lacks_snapshot = False

    def begin(self) -> None:
        """Begin a file, unless there is a ring. Raises OSError."""
        if self._ring is None:
            self._files.begin()

    def step(self, wake: int, seconds: float) -> None:
        """Record what is there or comes within so many seconds, or until ``wake``, a descriptor, is ready."""
        if time.monotonic() >= self._snapshot_at:
            self._snapshot_at = math.inf
            # What has come by now belongs to it.
            self.drain()
            self._write_out()
        seconds = min(seconds, self._snapshot_at - time.monotonic())
        if self.stopped_since is not None:
            ready((), wake, min(seconds, self._retry_at - time.monotonic()))
            if time.monotonic() >= self._retry_at and self.flush():
                self._try(self.begin)
            return
        if time.monotonic() < self._gather_until:
            time.sleep(_GATHER)
        due = min(self._files.due(), self._flush_at if self._data else math.inf)
        found = ready(self._sources, wake, min(seconds, due - time.monotonic()))
        for index in found:
            self._receive(index)
        self._gather_until = time.monotonic() + _GATHER if found and not self._has_more else 0.0
        self._keep()
        if time.monotonic() >= self._flush_at:
            self.flush()
        self._tick()

    def _tick(self) -> None:
        if self.stopped_since is None:
            self._try(self._files.tick)

    def _receive(self, index: int) -> int:
        """Take the messages that one system call brings, unless some are waiting; return how many are new."""
        if index in self._waiting:
            self._has_more.add(index)
            return 0
        self._has_more.discard(index)
        source = self._sources[index]
        try:
            batch = source.receive()
        except OSError as error:
            self._stop(f"can't read kbus{source.bus}: {error.strerror}")
            return 0
        # What an urgent message has overtaken has the time of that.
        times = islice(accumulate(batch.times, max, initial=self._latest), 1, None)
        taken = [each for each in zip(times, batch.messages) if len(each[1]) <= pcapng.MAX_LENGTH]
        if too_long := len(batch.messages) - len(taken):
            self._say(
                f"{too_long} messages are lost: no capture has one of more than {pcapng.MAX_LENGTH} bytes"
            )
            source.miss(too_long)
        if taken:
            self._waiting[index] = [(at, index, source.lost, message) for at, message in taken]
        if batch.queued:
            self._has_more.add(index)
        return len(batch.messages)

    def _keep(self) -> None:
        """Keep in memory what is waiting, in the order of its times, and give it away, if that is due.

        What is later than what a device may still have in its queue waits on: at most what one system call
        has brought of each device.
        """
        ends = [rows[-1][0] for index, rows in self._waiting.items() if index in self._has_more]
        end = min(ends, default=math.inf)
        kept: list[Arrival] = []
        for index, rows in list(self._waiting.items()):
            count = bisect_right([row[0] for row in rows], end)
            kept += rows[:count]
            del self._waiting[index]
            if count < len(rows):
                self._waiting[index] = rows[count:]
        if not kept:
            return
        if not self._data:
            self._flush_at = time.monotonic() + self._flush_seconds
        kept.sort(key=itemgetter(0))
        self._latest = kept[-1][0]
        offset = self._clock.offset(kept[0][0], self._latest)
        self._data += b"".join(packets(pcapng.NATIVE, self._origins, self.messages + 1, offset, kept))
        for _, index, _, _ in kept:
            self._received[index] += 1
        self.messages += len(kept)
        if self._trigger and any(names.matches(self._trigger, wire.name_of(row[3])) for row in kept):
            self.snapshot()
        if len(self._data) >= self._flush_size and self.stopped_since is None:
            self.flush()

    def flush(self) -> bool:
        """Give away what is in memory; False if there was no room for it, and it is still here."""
        output = self._ring or self._files
        if self._data:
            if not self._try(lambda: output.append(bytes(self._data), self._received, self.lost())):
                return False
            self._forget()
        return True

    def lost(self) -> list[int]:
        """Return how many messages each KSock has missed so far, or there was no room for."""
        return [source.lost for source in self._sources]

    def _forget(self) -> None:
        self._data, self._received = bytearray(), [0] * len(self._received)

    def _miss(self, counts: Iterable[int]) -> None:
        for source, count in zip(self._sources, counts):
            source.miss(count)
            self.dropped += count

    def _try(self, do: Callable[[], object]) -> bool:
        """Do what writes to the disk; if that fails, say so, and wait until it does not."""
        try:
            do()
        except OSError as error:
            self._stop(str(error.strerror))
            return False
        if self.stopped_since is not None:
            self._say(f"recording goes on, after {time.monotonic() - self.stopped_since:.0f} s")
            self.stopped_since = None
        return True

    def _stop(self, why: str) -> None:
        self._retry_at = time.monotonic() + _RETRY
        if self.stopped_since is None:
            self.stopped_since = time.monotonic()
            self._say(f"recording stops: {why}")

    def snapshot(self) -> None:
        """Make a file of what is in the ring; without one, seal the file that is being written.

        If the ring is to have what comes afterwards, too, that is done later, and what comes to ask for it
        until then changes nothing.
        """
        if not self._ring:
            self.flush()
            # The files say what became of it.
            with suppress(OSError):
                self._files.seal(self.lost())
        elif not self._after:
            self._write_out()
        elif self._snapshot_at == math.inf:
            self._snapshot_at = time.monotonic() + self._after
            self._say(f"a snapshot follows in {self._after:g} s")

    def _write_out(self) -> None:
        assert self._ring
        self.flush()
        try:
            path, count = self._ring.write_out(self._files)
        except OSError as error:
            if not self.lacks_snapshot:
                self._say(f"can't write a snapshot: {error.strerror}")
            self._snapshot_at = time.monotonic() + _RETRY
            self.lacks_snapshot = True
        else:
            self._say(f"snapshot {path}: {count} messages")
            self.lacks_snapshot = False

    def drain(self, to_the_end: bool = False) -> None:
        """Take what is queued now, and give it away; while there is no room, it stays in the queue.

        ``to_the_end``: take it all; what there is no room for is dropped, a little at a time, as there may be
        much. What comes meanwhile may stay behind.
        """
        left: dict[int, int] = {}
        for index, source in enumerate(self._sources):
            with suppress(OSError):
                left[index] = source.ksock.num_messages()
        while any(left.values()) and (to_the_end or self.stopped_since is None):
            for index in [index for index, count in left.items() if count]:
                if index not in self._waiting:
                    received = self._receive(index)
                    if to_the_end and not received:
                        self._sources[index].miss(left[index])
                        self.dropped += left[index]
                    left[index] = max(0, left[index] - received) if received else 0
            self._keep()
            if self.stopped_since is not None and len(self._data) >= self._flush_size and not self.flush():
                self._drop()
            self._tick()
        if to_the_end or self.stopped_since is None:
            # Nothing more is read now.
            self._has_more.clear()
            self._keep()
            self.flush()
        if to_the_end:
            self._drop()

    def _drop(self) -> None:
        """There is no room for what is in memory, if anything is: it is lost."""
        self._miss(self._received)
        self._forget()

    def close(self) -> None:
        """Stop: take what is queued, seal the file. ``dropped`` counts what there was no room for.

        A snapshot that was to be made later is made now.
        """
        self.drain(to_the_end=True)
        if self._snapshot_at < math.inf:
            self._write_out()
            if self._ring and self.lacks_snapshot:
                self._miss(self._ring.counts())
        for source in self._sources:
            source.ksock.close()
        with suppress(OSError):
            self._files.finish(self.lost())
