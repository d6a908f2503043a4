# SPDX-License-Identifier: MIT
"""Recordings of many devices that behave like real ones, and the truth about them.

A device has a bus with repliers, clients that ask them, and sensors that announce. Time passes in its
simulation; what its bus does is written down as the truth, and what its recorder sees goes to captures by the
real writer. Clocks are skewed and set, machines reboot, serials wrap, repliers crash, recorders miss
messages, uploads are torn.
"""

from __future__ import annotations

import heapq
import io
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kbus import Message, MessageId
from kbus import _abi as abi
from kbus._failed import FAILED
from kbus.capture import Frame, Writer, pcapng
from tests.pipeline.captures import NOON, info, swapped

SECOND = 1_000_000_000
#: The pipeline's time bound
WITHIN = 60 * SECOND
_LAST_SERIAL = 2**32 - 1


@dataclass
class Truth:
    """What really happened on a bus, in terms of the tables: rows as tuples."""

    #: (device, boot, load, name, serial, rec_seq) of each message that is in an undamaged part of a file
    messages: list[tuple[str, str, str, str, int, int]] = field(default_factory=list)
    #: (device, boot, serial, name, outcome, status, latency_ns)
    conversations: list[tuple[str, str, int, str, str, str | None, int | None]] = field(default_factory=list)
    #: (device, boot, kind, ksock, name, count)
    events: list[tuple[str, str, str, int, str | None, int]] = field(default_factory=list)
    #: (device, boot, name, nanoseconds bound)
    bound: dict[tuple[str, str, str], int] = field(default_factory=dict)


@dataclass
class Trouble:
    """What goes wrong with a device."""

    skew_ns: int = 0
    reboots: int = 0
    first_serial: int = 1
    crashes: bool = False
    misses: bool = False
    torn: bool = False
    clock_set: bool = False
    order: str = pcapng.LITTLE


@dataclass
class _Asked:
    serial: int
    name: str
    mono_ns: int
    seen: bool


class Device:
    """One device's bus from one boot on, and its recorder."""

    def __init__(self, name: str, trouble: Trouble, seed: int, where: Path, truth: Truth) -> None:
        self.name = name
        self.trouble = trouble
        self.random = random.Random(seed)
        self.where = where
        self.truth = truth

    def live(self, seconds: int, begin_ns: int) -> None:
        """Let it run, with its reboots, for so long."""
        parts = self.trouble.reboots + 1
        for number in range(parts):
            boot = _Boot(
                self, f"{self.name}-boot-{number}", begin_ns + number * (seconds // parts + 30) * SECOND
            )
            boot.run(seconds // parts)


class _Boot:
    def __init__(self, device: Device, boot: str, begin_ns: int) -> None:
        self.device, self.boot = device, boot
        self.random = device.random
        self.load = f"{boot}-load"
        self.real_ns = begin_ns + device.trouble.skew_ns
        self.begin_mono = self.random.randrange(SECOND, 100 * SECOND)
        self.now = self.begin_mono
        self.serial = device.trouble.first_serial
        self.sequence = 0
        self.lost = 0
        self.missing = 0
        self.lost_before = 0
        self.last_mono = self.now
        self.holes: list[tuple[int, int]] = []
        self.file = io.BytesIO()
        self.files = 0
        self.rows: list[tuple[str, str, str, str, int, int]] = []
        self.agenda: list[tuple[int, int, Callable[[], None]]] = []
        self.repliers = {"$.Pump.Speed": 10, "$.Pump.Level": 11}
        self.bound_since: dict[str, int] = {}
        self.open: list[_Asked] = []
        self.waiting: list[_Asked] = []
        self._new_file()

    # The bus.

    def at(self, after_ns: int, what: Callable[[], None]) -> None:
        heapq.heappush(
            self.agenda, (self.now + after_ns, len(self.agenda) + self.random.randrange(1 << 30), what)
        )

    def run(self, seconds: int) -> None:
        end = self.now + seconds * SECOND
        for name in self.repliers:
            self.bind(name)
        self.at(0, self.announce)
        self.at(SECOND // 10, self.ask)
        trouble = self.device.trouble
        if trouble.crashes:
            self.at(seconds * SECOND // 3, self.crash)
        if trouble.misses:
            self.at(seconds * SECOND // 2, self.overrun)
        if trouble.clock_set:
            self.at(seconds * SECOND // 4, self.set_clock)
        self.at(seconds * SECOND * 2 // 3, self.rotate)
        while self.agenda and self.agenda[0][0] <= end:
            time, _, what = heapq.heappop(self.agenda)
            self.now = max(self.now, time)
            what()
        self.finish()

    def next_serial(self) -> int:
        serial, self.serial = self.serial, self.serial % _LAST_SERIAL + 1
        return serial

    def send(self, message: Message) -> bool:
        """A message is on the bus; True if the recorder has seen it."""
        if self.missing:
            self.missing -= 1
            self.lost += 1
            return False
        if self.lost > self.lost_before:
            self.holes.append((self.last_mono, self.now))
            self.lost_before = self.lost
        self.last_mono = self.now
        raw = (
            message.to_bytes() if self.device.trouble.order == pcapng.NATIVE else swapped(message.to_bytes())
        )
        self.sequence += 1
        time_ns = self.real_ns + self.now - self.begin_mono
        self.writer.write(0, time_ns, Frame(self.sequence, self.now, self.lost), [raw])
        assert message.id is not None
        self.rows.append(
            (self.device.name, self.boot, self.load, message.name, message.id.serial_num, self.sequence)
        )
        return True

    def announce(self) -> None:
        kind = self.random.choice(("Temperature", "Pressure", "Door"))
        flags = Message.URGENT if kind == "Door" else 0
        data = bytes(self.random.randrange(0, 40))
        self.send(
            Message(f"$.Sensor.{kind}", data, from_=3, flags=flags, id=MessageId(0, self.next_serial()))
        )
        self.at(self.random.randrange(SECOND // 20, SECOND // 2), self.announce)

    def ask(self) -> None:
        name = self.random.choice((*self.repliers, "$.Pump.Level"))
        self.at(self.random.randrange(SECOND // 10, SECOND), self.ask)
        if name not in self.bound_since:
            # Refused: nobody replies. The serial number has been used.
            self.next_serial()
            return
        asked = self.request(name)
        if self.random.random() > 0.05:
            self.at(int(self.random.lognormvariate(15, 1)), lambda: self.answer(asked))

    def request(self, name: str) -> _Asked:
        serial = self.next_serial()
        message = Message(name, b"?", from_=20, flags=Message.WANT_A_REPLY, id=MessageId(0, serial))
        asked = _Asked(serial, name, self.now, self.send(message))
        self.open.append(asked)
        return asked

    def answer(self, asked: _Asked, status: str | None = None) -> None:
        if asked not in self.open:
            return
        self.open.remove(asked)
        # Now and then the replier fails.
        failed = not status and asked.serial % 7 == 0
        message = Message(
            status or (FAILED if failed else asked.name),
            None if status else b"Sensor.Broken\n" if failed else b"42",
            from_=self.repliers[asked.name],
            to=20,
            flags=Message.SYNTHETIC if status else 0,
            in_reply_to=MessageId(0, asked.serial),
            id=MessageId(0, self.next_serial()),
        )
        if not self.send(message):
            self.given_up(asked)
            return
        if not asked.seen:
            self.conversation(asked, "orphan", message.name)
        elif self.now - asked.mono_ns > WITHIN:
            self.given_up(asked)
            self.conversation(asked, "orphan", message.name)
        else:
            outcome = "status" if status else "failed" if failed else "reply"
            self.conversation(asked, outcome, status, self.now - asked.mono_ns)
        if status:
            kinds = {"GoneAway": "gone_away", "Ignored": "ignored", "NoRoom": "no_room"}
            kind = kinds[status.rpartition(".")[2]]
            self.event(kind, self.repliers[asked.name], None, 1)

    def given_up(self, asked: _Asked) -> None:
        """What becomes of a request without an answer is known at the end."""
        if asked.seen:
            self.waiting.append(asked)

    def conversation(
        self, asked: _Asked, outcome: str, status: str | None = None, latency_ns: int | None = None
    ) -> None:
        name = asked.name
        if outcome == "orphan":
            name, status = status or asked.name, None
        self.device.truth.conversations.append(
            (self.device.name, self.boot, asked.serial, name, outcome, status, latency_ns)
        )

    def bind_event(self, is_bind: bool, name: str) -> None:
        raw = name.encode()
        numbers = (int(is_bind), self.repliers[name], len(raw))
        data = struct.pack(f"{self.device.trouble.order}3I", *numbers) + raw + bytes(-len(raw) % 4)
        message = Message(
            abi.NAME_REPLIER_BIND_EVENT, data, flags=Message.SYNTHETIC, id=MessageId(0, self.next_serial())
        )
        if self.send(message):
            self.event("bind" if is_bind else "unbind", self.repliers[name], name, 1)

    def bind(self, name: str) -> None:
        self.bound_since[name] = self.now
        self.bind_event(True, name)

    def crash(self) -> None:
        """The replier of one name dies, with requests that it has read and not; somebody binds anew later."""
        name = "$.Pump.Level"
        for number in range(4):
            self.request(name)
            self.now += 1000 + number
        # The requester has no room for one of the answers.
        self.answer(next(each for each in self.open if each.name == name), abi.NAME_REPLIER_NOROOM)
        self.bind_event(False, name)
        key = (self.device.name, self.boot, name)
        self.device.truth.bound[key] = (
            self.device.truth.bound.get(key, 0) + self.now - self.bound_since.pop(name)
        )
        for number, asked in enumerate([each for each in self.open if each.name == name]):
            self.answer(asked, abi.NAME_REPLIER_IGNORED if number % 2 else abi.NAME_REPLIER_GONEAWAY)
        self.repliers[name] += 100

        self.at(20 * SECOND, lambda: self.bind(name))

    def event(self, kind: str, ksock: int, name: str | None, count: int) -> None:
        self.device.truth.events.append((self.device.name, self.boot, kind, ksock, name, count))

    # The recorder and the machine.

    def overrun(self) -> None:
        """The recorder's queue is full for a while."""
        self.missing = self.random.randrange(5, 20)
        self.event("recorder_lost", 0, None, self.missing)

    def set_clock(self) -> None:
        """Somebody sets CLOCK_REALTIME, by more than a day."""
        self.real_ns -= 40 * 3600 * SECOND

    def _new_file(self) -> None:
        self.file = io.BytesIO()
        self.files += 1
        section = info(self.device.name, self.boot, self.load)
        self.writer = Writer(self.file, section, [0], self.device.trouble.order)

    def _close_file(self, cut: int = 0) -> None:
        if not cut:
            self.writer.write_statistics(self.real_ns + self.now - self.begin_mono, [self.lost])
        raw = self.file.getvalue()
        path = self.device.where / f"{self.boot}-0-{self.files:04d}.pcapng"
        path.write_bytes(raw[: len(raw) - cut] if cut else raw)

    def rotate(self) -> None:
        self._close_file()
        self._new_file()

    def finish(self) -> None:
        torn = self.device.trouble.torn
        end = self.last_mono
        if torn:
            # The file ends inside this.
            self.send(Message("$.Sensor.Door", b"last", from_=3, id=MessageId(0, self.next_serial())))
            self.rows.pop()
        self._close_file(cut=9 if torn else 0)
        self.device.truth.messages += self.rows
        for name, since in self.bound_since.items():
            key = (self.device.name, self.boot, name)
            self.device.truth.bound[key] = self.device.truth.bound.get(key, 0) + end - since
        for asked in [*self.waiting, *(each for each in self.open if each.seen)]:
            until = asked.mono_ns + WITHIN
            was_missed = any(since < until and asked.mono_ns < seen for since, seen in self.holes)
            self.conversation(asked, "incomplete" if was_missed or end < until else "unanswered")


def make(where: Path, seconds: int = 240, devices: int = 6, seed: int = 1) -> Truth:
    """Write the captures of a fleet to a directory, and return the truth about it."""
    truth = Truth()
    troubles = [
        Trouble(),
        Trouble(skew_ns=-3 * 3600 * SECOND, crashes=True),
        Trouble(reboots=2, order=pcapng.BIG, crashes=True),
        Trouble(first_serial=_LAST_SERIAL - 100, misses=True),
        Trouble(torn=True, order=pcapng.BIG),
        Trouble(clock_set=True, misses=True, crashes=True, skew_ns=11 * 3600 * SECOND),
    ]
    for number in range(devices):
        device = Device(f"device{number:03d}", troubles[number % len(troubles)], seed + number, where, truth)
        device.live(seconds, NOON)
    return truth
