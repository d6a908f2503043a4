# SPDX-License-Identifier: MIT
"""The one thread that has the devices of the model, and the calls that wait in it.

All that is asked of the model is done there, one after the other. So each call is one step, whatever thread
makes it, and neither a signal handler nor an exception can come in the middle of it.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Optional

from .. import _abi as abi
from .model.bus import Device, DeviceLimits
from .model.ksock import ModelKsock
from .model.parts import CallClock
from .model.stats import bindings_text, stats_text
from .ready import Ready

#: What a step returns if the call has not ended.
WAITS = object()

#: Devices that the module makes, at most
MOST_DEVICES = 256

_LONGEST_WAIT = 3600  # seconds

#: Does a step of a call; the argument is whether its time is over. Returns WAITS, or what the call returns.
Step = Callable[[bool], Any]


class BusClosed(ValueError):
    """The bus has ended."""


class Now(CallClock):
    """The time of the machine, and not the number of the call."""

    @property
    def now(self) -> int:
        """Nanoseconds of CLOCK_MONOTONIC."""
        return time.monotonic_ns()


class Call:
    """A call that is being made, in the thread that has the model."""

    def __init__(
        self, step: Step, deadline: int = abi.TRANSFER_NOW, sender: Optional[ModelKsock] = None
    ) -> None:
        self.step = step
        self.deadline = deadline
        #: the KSock whose message waits for room while this waits
        self.sender = sender
        self.outcome: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        # Held during a step, so that a caller that gives up can wait until its memory is not used any more.
        self.during = threading.Lock()
        self.is_given_up = False
        #: Whether it has done what it should, and what it gives or raises.
        self.end: tuple[bool, Any] = (True, None)

    def go_on(self) -> bool:
        """Do the next step; return whether that was the last."""
        with self.during:
            if self.is_given_up:
                return True
            try:
                found = self.step(_is_over(self.deadline))
            except Exception as error:
                self.end = (False, error)
                return True
            self.end = (True, found)
            return found is not WAITS

    def give_up(self) -> None:
        """Let no further step be done."""
        with self.during:
            self.is_given_up = True


class Core:
    """The devices, and what waits on them."""

    def __init__(self, limits: DeviceLimits, devices: int) -> None:
        self.limits = limits
        self.devices: list[Device] = []
        for _ in range(devices):
            self.new_device()
        self.ready: dict[ModelKsock, Ready] = {}
        self._calls: SimpleQueue[Optional[Call]] = SimpleQueue()
        # In the order in which they began to wait.
        self._waiting: list[Call] = []
        # Those taken from the queue whose callers do not have the outcome yet, with those that wait.
        self._under_way: list[Call] = []
        self._pid = os.getpid()
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, name="kbus.testing", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Calls that wait or are queued raise BusClosed."""
        self._calls.put(None)
        self._thread.join()
        for ready in self.ready.values():
            ready.close()

    def do(self, call: Call) -> Any:
        """Make a call, and return what it returns or raise what it raises."""
        # Thread.is_alive() may be wrong for ever once a signal handler has raised an exception in it.
        if self._has_ended or os.getpid() != self._pid or sys.is_finalizing():
            raise _closed()
        try:
            self._calls.put(call)
            if self._has_ended:
                # The thread may not have seen it: it emptied the queue after it had set that.
                self._refuse_queued()
            if threading.current_thread() is self._thread:
                # What is collected as garbage here is closed later.
                return None
            is_good, found = call.outcome.get()
        except BaseException:
            call.give_up()
            raise
        if is_good:
            return found
        raise found

    def at_once(self, function: Callable[[], Any]) -> Any:
        """Make a call that does not wait."""
        return self.do(Call(lambda is_over: function()))

    def set_limits(self, limits: DeviceLimits) -> None:
        """Let these be in force, as if the module's parameters were changed."""
        self.limits = limits
        for device in self.devices:
            device.limits = limits
            for ksock in device.ksocks:
                ksock.queue.max_bytes = limits.queue_bytes

    def proc_text(self, name: str) -> str:
        """Return what is in a file of ``/proc/kbus``."""
        text = {"bindings": bindings_text, "stats": stats_text}[name]
        return str(self.at_once(lambda: "".join(text(device, n) for n, device in enumerate(self.devices))))

    def is_waiting(self) -> bool:
        """Whether a call waits."""
        return bool(self._waiting)

    def _refuse_queued(self) -> None:
        """End each call that is queued with BusClosed. Several threads may do so at a time."""
        with suppress(Empty):
            while True:
                call = self._calls.get_nowait()
                if call:
                    call.outcome.put((False, _closed()))

    # In the thread.

    def new_device(self) -> int:
        """Make one more device, and return its number. ENOSPC if there are MOST_DEVICES."""
        if len(self.devices) >= MOST_DEVICES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.devices.append(Device(self.limits, clock=Now()))
        return len(self.devices) - 1

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            self._has_ended = True
            for call in self._under_way:
                call.outcome.put((False, _closed()))
            self._refuse_queued()

    def _serve(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=self._seconds_to_next_deadline())
            except Empty:
                self._tell(self._go_on_with_those_that_wait())
                continue
            if call is None:
                return
            self._under_way.append(call)
            ended = [call] if call.go_on() else []
            if not ended:
                self._waiting.append(call)
            ended += self._go_on_with_those_that_wait()
            self._tell(ended)

    def _tell(self, ended: list[Call]) -> None:
        """Show what KSocks are ready for, and only then let calls return."""
        for ksock, ready in self.ready.items():
            ready.show(ksock.poll())
        for call in ended:
            call.outcome.put(call.end)
            self._under_way.remove(call)

    def _go_on_with_those_that_wait(self) -> list[Call]:
        """Let all go on that can, and return those that have ended.

        A sender that waits blocks those behind it that need room where it finds none.
        """
        ended: list[Call] = []
        while self._waiting:
            # Another may wait for what one has sent, or for the room of what one has read.
            before = self._progress()
            more = self._go_on_once()
            ended += more
            if not more and self._progress() == before:
                break
        return ended

    def _progress(self) -> list[tuple[int, int]]:
        """Return what changes when a message is sent or read."""
        return [(device.sent, sum(ksock.received for ksock in device.ksocks)) for device in self.devices]

    def _go_on_once(self) -> list[Call]:
        ended: list[Call] = []
        full: set[ModelKsock] = set()
        for call in list(self._waiting):
            sender = self._sender_of(call)
            is_held_up = sender is not None and bool(full and full & sender.recipients())
            if (not is_held_up or _is_over(call.deadline)) and call.go_on():
                ended.append(call)
            elif (sender := self._sender_of(call)) is not None:
                full |= sender.who_is_full()
        self._waiting = [call for call in self._waiting if call not in ended]
        return ended

    def _sender_of(self, call: Call) -> Optional[ModelKsock]:
        """Return the KSock whose message waits for nothing but the room of others, if it does."""
        sender = call.sender
        # One that has been closed meanwhile does not wait.
        if sender is None or sender not in self.ready or not sender.waits:
            return None
        return sender if sender.errno_of_retry() in (0, errno.EAGAIN) else None

    def _seconds_to_next_deadline(self) -> Optional[float]:
        deadlines = [call.deadline for call in self._waiting if call.deadline != abi.TRANSFER_NEVER]
        if not deadlines:
            return None
        # A deadline may be later than a queue can wait for; then it is looked at again.
        nanoseconds = min(max(0, min(deadlines) - time.monotonic_ns()), _LONGEST_WAIT * 1_000_000_000)
        return nanoseconds / 1e9


def _closed() -> BusClosed:
    return BusClosed("this bus is closed, or that of the process that this one was forked from")


def _is_over(deadline: int) -> bool:
    return deadline != abi.TRANSFER_NEVER and time.monotonic_ns() >= deadline
