# SPDX-License-Identifier: MIT
"""Other processes and threads: children that work, wait, or are killed, and SENDs that sleep."""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from kbus import Ksock
from tests.kernel import raw, stand_in
from tests.kernel.helpers import IOCTL, PATIENCE, POLL, blocked_in, has_left, ksock_stats, wait_until

NOBODY = 65534
LOOKERS = 4242
"""A group that may look at /proc/kbus while tests run, and may do nothing else."""
THROTTLING = Path("/proc/sys/kernel/sched_rt_runtime_us")
WORKERS = Path("/sys/devices/virtual/workqueue/cpumask")
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

Result = TypeVar("Result")

# The package imports it late, when a child that has become NOBODY may not read it any more.
importlib.import_module("kbus._refusals")

_PR_SET_DUMPABLE = 4
_libc = ctypes.CDLL(None, use_errno=True)


def become(uid: int, looks: bool = True) -> None:
    """Give up root for another user and the group of the same number, for good.

    Unless `looks` is False it is in LOOKERS too, so that it can see what its calls have changed.
    """
    os.setgroups([LOOKERS] if looks else [])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def unshare(flags: int, uid: int = 0) -> None:
    """unshare(2): give this process, or for CLONE_NEWPID its next children, namespaces of their own.

    With `uid` the process becomes that user first.
    """
    # A user namespace cannot be made in a chroot, which the tests may be in; init is not.
    os.chroot("/proc/1/root")
    if uid:
        become(uid)
        # Else root owns what is in /proc/self.
        _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    if _libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def in_child(body: Callable[[], Result]) -> Result:
    """Run `body` in a forked process and give what it returned; what it raised is an AssertionError here."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            outcome: tuple[bool, object] = (True, body())
        except BaseException:  # whatever it is, it must get to the parent
            outcome = (False, traceback.format_exc())
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(outcome, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        content = pipe.read()
    os.waitpid(pid, 0)
    assert content, "the child died"
    succeeded, value = pickle.loads(content)
    assert succeeded, value
    return value  # type: ignore[no-any-return]


def as_nobody(body: Callable[[], Result]) -> Result:
    """Run `body` in a forked process of an unprivileged user, like `in_child`."""
    stand_in.cannot(stand_in.Lacks.USERS)

    def changed() -> Result:
        become(NOBODY)
        return body()

    return in_child(changed)


def opened_by(ksock: Callable[[], Ksock], uid: int) -> Ksock:
    """A KSock of another user."""
    os.setresuid(uid, uid, 0)
    try:
        return ksock()
    finally:
        os.setresuid(0, 0, 0)


class Child:
    """A forked process that does `body` and then stays as it is until it is killed."""

    def __init__(self, body: Callable[[], object]) -> None:
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                kept = body()
                os.write(writer, b"+")
                signal.pause()
                del kept
            except BaseException:  # a child must not run on into pytest
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(1)
        os.close(writer)
        self._is_gone = False
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.read(1)
        if said != b"+":
            os.waitpid(self.pid, 0)
        assert said == b"+", "the child failed, see its stderr"

    def kill(self) -> None:
        """SIGKILL it, and come back when it is gone. Can be repeated."""
        if not self._is_gone:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            wait_until(lambda: has_left(self.pid), "the bus has closed its KSocks")
            self._is_gone = True


class Sending:
    """A thread in SEND on a KSock whose message has been written; after the constructor it sleeps there.

    `result` gives the id, or raises what SEND raised.
    """

    def __init__(self, ksock: Ksock, device: int = 0) -> None:
        self._ksock = ksock
        self._outcome: list[raw.Pair | OSError] = []
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()
        self._device = device
        wait_until(self._settled, "SEND sleeps")
        assert not self._outcome, f"SEND did not wait: {self._outcome}"

    def _send(self) -> None:
        try:
            self._outcome.append(raw.msg_id(self._ksock, "SEND"))
        except OSError as error:
            self._outcome.append(error)

    def _settled(self) -> bool:
        # A message that was interrupted waits already when its SEND begins anew.
        return bool(self._outcome) or (self.waits() and self.sleeps())

    def sleeps(self) -> bool:
        """Whether the thread is in SEND, and not running."""
        if stand_in.IS_WANTED:
            return stand_in.is_waiting()
        return blocked_in(self.thread_id, IOCTL, self._ksock.fileno(), raw.IOCTLS["SEND"])

    def waits(self) -> bool:
        """True while the message waits for room."""
        return ksock_stats(self._ksock, self._device)["waiting"] == 1

    @property
    def thread_id(self) -> int:
        """The native id of the thread."""
        assert self._thread.native_id is not None
        return self._thread.native_id

    @property
    def done(self) -> bool:
        """True when SEND has returned."""
        return bool(self._outcome)

    @property
    def gone(self) -> bool:
        """True when the thread has ended, so that it holds nothing, the interpreter's lock included."""
        return not Path(f"/proc/self/task/{self.thread_id}").exists()

    def interrupt(self, number: signal.Signals) -> None:
        """Send a signal to the thread."""
        assert self._thread.ident is not None
        signal.pthread_kill(self._thread.ident, number)

    def result(self) -> raw.Pair:
        """Wait until SEND returns; the message's id."""
        self._thread.join(PATIENCE)
        assert self._outcome, "SEND still sleeps"
        outcome = self._outcome[0]
        if isinstance(outcome, OSError):
            raise outcome
        return outcome


def blocked_send(ksock: Ksock, packet: bytes, device: int = 0) -> Sending:
    """Write a message that has to wait for room, and SEND it in a thread."""
    assert os.write(ksock.fileno(), packet) == len(packet)
    return Sending(ksock, device)


def times_slept(thread: int) -> int:
    """How often a thread of this process has gone to sleep."""
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])


class Polling:
    """A thread that sleeps in poll, after the constructor.

    There is no timeout, as poll looks again when one is over, and so finds what it was not woken for.
    """

    def __init__(self, ksock: Ksock, events: int) -> None:
        self._poll = select.poll()
        self._poll.register(ksock.fileno(), events)
        self._found: list[tuple[int, int]] = []
        self._thread = threading.Thread(target=lambda: self._found.extend(self._poll.poll()), daemon=True)
        self._thread.start()
        wait_until(lambda: blocked_in(self._thread.native_id or 0, POLL), "the thread sleeps in poll")

    def result(self) -> int:
        """Wait until poll returns; the events that it found."""
        self._thread.join(PATIENCE)
        assert self._found, "poll still sleeps"
        return self._found[0][1]


@contextmanager
def processor_1_taken() -> Iterator[int]:
    """A process gives processor 1 to nobody; this thread and workers of the kernel keep to processor 0.

    It is told by its id, so that it can be stopped for a while.
    """
    files = {THROTTLING: "-1", WORKERS: "1"}
    before, values = os.sched_getaffinity(0), {file: file.read_text() for file in files}
    for file, value in files.items():
        file.write_text(value)
    os.sched_setaffinity(0, {0})
    if "PREEMPT_RT" in os.uname().version:
        # There timers of processor 1 stand still meanwhile, and a worker may rest until one of them.
        time.sleep(0.2)
    ready, is_ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, {1})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.close(is_ready)
        while True:
            pass
    os.close(is_ready)
    os.read(ready, 1)
    os.close(ready)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.sched_setaffinity(0, before)
        for file, value in values.items():
            file.write_text(value)
