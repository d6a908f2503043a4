# SPDX-License-Identifier: MIT
"""Recording: messages from KSocks to files, or to a ring in memory."""

from __future__ import annotations

import contextlib
import errno
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, islice, repeat
from operator import itemgetter, sub
from typing import NamedTuple, Optional

from .. import names, wire
from . import pcapng
from .files import Files
from .frame import Origin
from .identity import WallClock, load_id
from .ring import Ring
from .source import HasFileno, Source, Sources, poll_for
from .writer import origins_of, packets

#: Seconds between two looks at what may have changed for the better: a full disk, a device that is not there
_RETRY = 1.0
#: Seconds: when messages come faster than that, several are read at once, so that not each of those who send
#: has to wake the recorder
_GATHER = 0.02


class _Arrived(NamedTuple):
    """Messages that one system call has brought, and when, by time.monotonic().

    Of which interface, what that had lost, and when each message was queued.
    """

    read_at: float
    interface: int
    lost: int
    times: list[int]
    messages: list[bytes]


class Recorder:
    """Records what comes to ``sources``, an interface each.

    Messages stay in memory for ``flush`` seconds, or until they are ``flush_size`` bytes, and are then given
    to ``files``, or to ``ring`` if there is one. If a message's name matches ``trigger``, the ring is written
    out, ``after`` seconds later, as it is with each ``snapshot``. ``say`` is told what the user should know.
    ``messages`` counts those that were read, ``dropped`` those of them that are in no file and should be.

    A disk that is full stops the recording: what comes then waits in the KSocks' queues, or is lost and
    counted there. It goes on when there is room. A snapshot that finds no room is made later; what the ring
    forgets meanwhile is dropped. ``lacks_snapshot`` is true if there was no room for it in the end.
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
        self._sources = Sources(sources, say)
        self._files = files
        self._say = say
        self._flush_seconds = flush
        self._ring = ring
        self._trigger = trigger
        self._after = after
        self._snapshot_at = math.inf
        self._forgotten_before: Optional[list[int]] = None
        self._flush_size = flush_size
        self._pieces: list[bytes] = []
        self._length = 0
        self._received = [0] * len(self._sources)
        self._waiting: dict[int, _Arrived] = {}
        self._has_more: set[int] = set()
        self._origins: list[Origin] = []
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
        self.lacks_snapshot = False

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
        # As long as a device is open, the module is not loaded anew.
        self._origins = origins_of(self._files.info(), [source.bus for source in self._sources])
        if self._ring is None:
            self._files.begin()

    def step(self, wake: HasFileno, seconds: float) -> None:
        """Record what there is, or comes within so many seconds, or until ``wake`` can be read."""
        if time.monotonic() >= self._snapshot_at:
            self._snapshot_at = math.inf
            # What has come by now belongs to it.
            self.drain()
            self._write_out()
        seconds = min(seconds, max(0.0, self._snapshot_at - time.monotonic()))
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
            if not all(source.is_open for source in self._sources) and time.monotonic() >= self._open_at:
                self._sources.open_more()
                self._open_at = time.monotonic() + _RETRY
            due = min(self._files.due(), self._flush_at if self._length else math.inf)
            self._take_from(self._sources.ready(wake, min(seconds, _RETRY, due - time.monotonic())))

    def _take_from(self, ready: list[int]) -> None:
        if ready:
            self._gather_until = time.monotonic() + _GATHER
        for index in ready:
            try:
                self._receive(index)
            except OSError as error:
                self._say(f"can't read kbus{self._sources[index].bus}: {error.strerror}")
                self._sources.close(index)
                self._has_more.discard(index)
        if self._has_more:
            self._gather_until = 0.0
        self._keep(self._in_order())
        if not any(source.is_open for source in self._sources):
            # Nothing holds the module any more.
            self.leave(_RETRY)
            return
        if self._length and time.monotonic() >= self._flush_at:
            self.flush()
        self._tick()

    def _tick(self) -> None:
        if self._full_since is None:
            self._try(self._files.tick)

    def _receive(self, index: int) -> int:
        """Take the messages that one system call brings, unless some are waiting; return how many are new.

        Raises OSError.
        """
        if index in self._waiting:
            self._has_more.add(index)
            return 0
        self._has_more.discard(index)
        source = self._sources[index]
        batch = source.receive()
        if batch.messages:
            messages, times = self._readable(index, batch.messages, batch.times)
            if messages:
                times = _ascending(times, self._latest)
                self._waiting[index] = _Arrived(time.monotonic(), index, source.lost, times, messages)
            if batch.queued:
                self._has_more.add(index)
        return len(batch.messages)

    def _readable(self, index: int, messages: list[bytes], times: list[int]) -> tuple[list[bytes], list[int]]:
        """Return those of a device's messages that readers of captures take; others are lost, and told."""
        if max(map(len, messages)) <= pcapng.MAX_LENGTH:
            return messages, times
        taken = [each for each in zip(messages, times) if len(each[0]) <= pcapng.MAX_LENGTH]
        count = len(messages) - len(taken)
        self._say(f"{count} messages are dropped: no capture has one of more than {pcapng.MAX_LENGTH} bytes")
        self._miss(int(each == index) * count for each in range(len(self._sources)))
        return [message for message, _ in taken], [at for _, at in taken]

    def _in_order(self) -> list[_Arrived]:
        """Return what is waiting, but nothing that is later than what a device may still have in its queue.

        That waits on, at most what one system call has brought of each device, and no longer than a message
        may stay in memory. What is read then gets the time of what has been kept.
        """
        ends = [self._waiting[index].times[-1] for index in self._has_more if index in self._waiting]
        end = min(ends, default=math.inf)
        oldest = min((each.read_at for each in self._waiting.values()), default=math.inf)
        if time.monotonic() >= oldest + self._flush_seconds:
            end = math.inf
        waiting, self._waiting = self._waiting, {}
        found = []
        for index, each in waiting.items():
            count = bisect_right(each.times, end)
            if count:
                found.append(each._replace(times=each.times[:count], messages=each.messages[:count]))
            if count < len(each.times):
                rest = each._replace(times=each.times[count:], messages=each.messages[count:])
                self._waiting[index] = rest
        return found

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
        pieces = packets(pcapng.NATIVE, self._origins, self.messages + 1, offset, rows)
        if not self._length:
            self._flush_at = min(each.read_at for each in arrived) + self._flush_seconds
        self._pieces += pieces
        self._length += sum(map(len, pieces))
        for each in arrived:
            self._received[each.interface] += len(each.messages)
            self.messages += len(each.messages)
        trigger, messages = self._trigger, chain(*(each.messages for each in arrived))
        if trigger and any(names.matches(trigger, wire.name_of(each)) for each in messages):
            self.snapshot()
        if self._length >= self._flush_size and self._full_since is None:
            self.flush()

    def flush(self) -> bool:
        """Give away what is in memory; False if there was no room for it, and it is still here."""
        if not self._length:
            return True
        if not self._try(self._give):
            return False
        self._forget()
        return True

    def _give(self) -> None:
        output = self._ring or self._files
        data = b"".join(self._pieces)
        try:
            output.append(data, self._received, self._lost())
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            self._give_each(data)

    def _give_each(self, data: bytes) -> None:
        """Give away messages one by one, as no file may be as long as all of them.

        One that is too long alone is lost. What was not given away when OSError is raised is still here.
        """
        done, too_long = 0, [0] * len(self._sources)
        try:
            for interface, blocks in pcapng.packets_in(pcapng.NATIVE, data):
                one = [int(index == interface) for index in range(len(self._sources))]
                try:
                    self._files.append(blocks, one, self._lost())
                except OSError as error:
                    if error.errno != errno.EFBIG:
                        raise
                    too_long[interface] += 1
                done += len(blocks)
                self._received = list(map(sub, self._received, one))
        finally:
            self._pieces, self._length = [data[done:]], len(data) - done
            self._miss_too_long(too_long)

    def _lost(self) -> list[int]:
        return [source.lost for source in self._sources]

    def _drop(self) -> None:
        """There is no room for what is in memory, if anything is: it is lost."""
        self._miss(self._received)
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
        """Make a file of what is in the ring; without one, seal the file that is being written.

        If the ring is to have what comes afterwards, too, that is done later, and what comes to ask for it
        until then changes nothing.
        """
        if self._ring and self._after:
            if self._snapshot_at == math.inf:
                self._snapshot_at = time.monotonic() + self._after
                self._say(f"a snapshot follows in {self._after:g} s")
            return
        self.flush()
        if self._ring:
            self._write_out()
        else:
            self._seal(self._lost())

    def _write_out(self) -> None:
        assert self._ring
        self.flush()
        try:
            for path, count in self._ring.write_out(self._files):
                self._say(f"snapshot {path}: {count} messages")
        except OSError as error:
            if self._forgotten_before is None:
                self._say(f"can't write a snapshot: {error.strerror}")
                self._forgotten_before = self._ring.forgotten
            self._snapshot_at = time.monotonic() + _RETRY
            self._miss_forgotten()
        else:
            self._miss_forgotten()
            self._forgotten_before = None
        finally:
            dropped, self._ring.too_long = self._ring.too_long, []
            self._miss_too_long(dropped)

    def _miss_too_long(self, counts: Sequence[int]) -> None:
        if any(counts):
            self._miss(counts)
            self._say(f"{sum(counts)} messages are dropped: no file may be as long as each of them")

    def _miss_forgotten(self) -> None:
        """What the ring has forgotten while there was no room for it is lost."""
        if self._forgotten_before is not None:
            assert self._ring
            before, self._forgotten_before = self._forgotten_before, self._ring.forgotten
            self._miss(map(sub, self._forgotten_before, before))

    def _miss(self, counts: Iterable[int]) -> None:
        for source, count in zip(self._sources, counts):
            source.miss(count)
            self.dropped += count

    def _seal(self, lost: Optional[list[int]]) -> None:
        try:
            self._files.seal(lost)
        except OSError as error:
            self._say(f"can't finish the file: {error.strerror}")

    def leave(self, seconds: float) -> None:
        """Let go of the module, so that it can be unloaded: close the devices, and seal the file.

        It begins again when the module has been loaded anew, or after so many seconds if nobody unloads it.
        """
        before = self.dropped
        self._drain_all()
        if dropped := self.dropped - before:
            # In the next file they would be of another load of the module.
            self._say(f"the last {dropped} messages are dropped: there is no room for them")
        # There may be no room for what this file would say of them: the next one does.
        self._seal(None if dropped else self._lost())
        self._sources.close()
        self._left_until = time.monotonic() + seconds
        self._left_load = load_id()
        self._say("the devices are closed")

    def _come_back(self) -> None:
        assert self._left_until is not None
        load = load_id()
        # Where it can't be seen whether the module is there, opening the devices shows it.
        is_gone = load is None and self._left_load is not None
        if is_gone or (load == self._left_load and time.monotonic() < self._left_until):
            return
        if self._sources.open_more():
            self._left_until = None
            self._try(self._begin)

    def drain(self) -> None:
        """Take what is queued now, and give it away; while there is no room, it stays in the queue.

        What comes meanwhile may stay behind.
        """
        if self._full_since is None:
            self._drain(lambda: self._full_since is None)

    def _drain_all(self) -> None:
        """Take it all; what there is no room for is dropped, a little at a time, as there may be much."""

        def make_room() -> bool:
            if self._full_since is not None and self._length >= self._flush_size and not self.flush():
                self._drop()
            return True

        self._drain(make_room)
        self._drop()

    def _drain(self, has_room: Callable[[], bool]) -> None:
        left: dict[int, int] = {}
        for index, source in enumerate(self._sources):
            with contextlib.suppress(OSError, ValueError):
                left[index] = source.ksock.num_messages()
        while (left := {index: count for index, count in left.items() if count > 0}) and has_room():
            for index in left:
                is_waiting = index in self._waiting
                count = 0
                with contextlib.suppress(OSError, ValueError):
                    count = self._receive(index)
                if not is_waiting:
                    left[index] -= count or left[index]
            self._keep(self._in_order())
            self._tick()
        self._keep_all()
        self.flush()

    def _keep_all(self) -> None:
        """Keep what is waiting, too: nothing more is read now."""
        self._has_more.clear()
        self._keep(self._in_order())

    def close(self) -> None:
        """Stop: take what is queued, seal the file. ``dropped`` counts what there was no room for.

        A snapshot that was to be made later is made now.
        """
        self._drain_all()
        if self._snapshot_at < math.inf:
            self._snapshot_at = math.inf
            self._write_out()
            self._miss_snapshot()
        self._sources.close()
        try:
            self._files.finish(self._lost())
        except OSError as error:
            self._say(f"can't finish the file: {error.strerror}")

    def _miss_snapshot(self) -> None:
        """If there was no room for the last snapshot either, it is lost."""
        if self._forgotten_before is not None:
            assert self._ring
            self.lacks_snapshot = True
            self._miss(self._ring.counts())


def _ascending(times: list[int], at_least: int) -> list[int]:
    """Return times that do not go back: what an urgent message has overtaken has the time of that."""
    if times[0] >= at_least and times == sorted(times):
        return times
    return list(islice(accumulate(times, max, initial=at_least), 1, None))
