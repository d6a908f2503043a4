# SPDX-License-Identifier: MIT
"""System calls in which allocations and user copies fail, until none is left to fail.

First one thing fails, the 1st, 2nd, n-th: the kernel counts with /proc/thread-self/fail-nth whatever the task
may fail in, which is slab and page allocations, copy_from_user() and copy_to_user(), but not get_user() and
put_user(). Then the memory is used up after so many bytes: every slab allocation from there on fails. See
Documentation/fault-injection/fault-injection.rst in the source of the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Union

from tests.kernel import raw
from tests.kernel.helpers import bindings_text, stats_text

DEBUGFS = Path("/sys/kernel/debug")
CACHES = Path("/sys/kernel/slab")
KMEMLEAKS = {"kmemleak_object", "kmemleak_scan_area"}
"""The slab caches of kmemleak, which allocates with every allocation, and can do without."""
LIBRARY = Path(__file__).parent / "c" / "bin" / "faults.so"
MOST = 10_000
"""No call has as many points of failure."""
STEP = 64
"""Bytes by which the memory that is left grows from call to call."""

READ, WRITE, CLOSE, POLL, IOCTL, VFORK, INIT_MODULE, EPOLL_CTL, OPENAT = 0, 1, 3, 7, 16, 58, 175, 233, 257
"""Numbers of system calls on x86-64, for which the debug kernels are built."""

Buffer = ctypes.Array[ctypes.c_char]


class Count(NamedTuple):
    """What was tried of one operation."""

    faults: int
    """How many calls had one allocation or copy fail in them."""
    refused: int
    """How many of them failed; the others did without what they could not get."""
    starved: int
    """How many calls ran out of memory."""
    starved_refused: int
    """How many of them failed."""


counts: dict[str, Count] = {}
"""By operation, in the order in which they were tried."""


class Attempt(NamedTuple):
    """How a call ended."""

    result: int
    error: int
    """errno, or 0."""
    injected: bool
    """Whether something was made to fail."""


Done = Callable[[Attempt], None]
"""What sees to the work of a call that was not refused."""


class _Call(ctypes.Structure):
    _fields_ = (("number", ctypes.c_long), ("args", ctypes.c_long * 6))


class _Outcome(ctypes.Structure):
    _fields_ = (("result", ctypes.c_long), ("error", ctypes.c_long), ("left", ctypes.c_ulong))


class Call:
    """A system call: its number and arguments, of which buffers stand for their addresses and are kept."""

    def __init__(self, number: int, *arguments: Union[int, Buffer]) -> None:
        self._kept = arguments
        addresses = (
            argument if isinstance(argument, int) else ctypes.addressof(argument) for argument in arguments
        )
        self._call = _Call(number, (ctypes.c_long * 6)(*addresses))

    def run(self, nth: int = 0) -> Attempt:
        """Make the call with the `nth` fault injected, none for 0."""
        outcome = self._make("fail-nth", nth)
        return Attempt(outcome.result, outcome.error, nth != 0 and outcome.left == 0)

    def starve(self, nth: int) -> Attempt:
        """Make the call with memory for `nth` - 1 times STEP bytes, and none beyond."""
        (DEBUGFS / "failslab" / "space").write_text(str((nth - 1) * STEP))
        (DEBUGFS / "failslab" / "times").write_text(str(MOST))
        outcome = self._make("make-it-fail", 1)
        times = int((DEBUGFS / "failslab" / "times").read_text())
        return Attempt(outcome.result, outcome.error, times < MOST)

    def count(self) -> int:
        """Make the call with nothing injected; how many points of failure it passed."""
        return MOST - int(self._make("fail-nth", MOST).left)

    def _make(self, switch: str, value: int) -> _Outcome:
        """Make the call with this switch of the thread set to `value`, and to 0 after it."""
        outcome = _Outcome()
        with _opened(switch) as fd:
            if _library().faults_call(fd, value, ctypes.byref(self._call), ctypes.byref(outcome)) != 0:
                raise OSError(ctypes.get_errno(), switch)
        return outcome


def ioctl(ksock: raw.HasFileno, name: str, argument: Union[int, Buffer] = 0) -> Call:
    """An ioctl by its name in `raw.IOCTLS`."""
    return Call(IOCTL, ksock.fileno(), raw.IOCTLS[name], argument)


def buffer(content: bytes) -> Buffer:
    """Memory with this content, that is there: touching it takes no allocation."""
    return ctypes.create_string_buffer(content, len(content))


def store(target: Buffer, content: bytes) -> None:
    """Put new content into a buffer."""
    assert len(content) == len(target)
    ctypes.memmove(target, content, len(content))


def number(value: int = 0, size: int = 4) -> Buffer:
    """A u32 (or u64, with `size` 8) as an argument of an ioctl."""
    return buffer(value.to_bytes(size, sys.byteorder))


def state() -> str:
    """Everything that /proc/kbus shows."""
    return stats_text() + bindings_text()


def each(
    what: str,
    prepare: Callable[[], Call],
    done: Done,
    *,
    refused: Collection[int] = (errno.ENOMEM, errno.EFAULT),
    despite: Collection[int] = (),
    first: int = 1,
    starve: bool = True,
) -> None:
    """Make a call fail at its 1st, 2nd, n-th point until it gets through, and likewise for want of memory.

    `prepare` gives the call, each time anew. With an errno of `refused` it must leave everything as it was.
    All other calls, which end well or with an errno of `despite`, must have done their work: `done` is to see
    that, and to undo it. `first` is the n to begin with. The numbers are added to `counts`.
    """
    judge = _Judge(what, prepare, done, refused, despite)
    faults, failures = judge.all(Call.run, first)
    starved = judge.all(Call.starve, 1) if starve else (0, 0)
    counts[what] = Count(faults, failures, *starved)


class _Judge(NamedTuple):
    """The arguments of `each`."""

    what: str
    prepare: Callable[[], Call]
    done: Done
    refused: Collection[int]
    despite: Collection[int]

    def all(self, run: Callable[[Call, int], Attempt], first: int) -> tuple[int, int]:
        """Try one n after the other; how many calls had a fault in them, and how many of these failed."""
        faults = failures = 0
        for nth in itertools.count(first):
            assert nth < MOST, f"{self.what} never succeeds"
            attempt = self._one(run, nth)
            faults += attempt.injected
            failures += attempt.error != 0
            if not attempt.injected:
                break
        return faults, failures

    def _one(self, run: Callable[[Call, int], Attempt], nth: int) -> Attempt:
        call = self.prepare()
        before = state() if self.refused else ""
        attempt = run(call, nth)
        where = f"{self.what}, {run.__name__} {nth}: {errno.errorcode.get(attempt.error, 'no error')}"
        assert attempt.injected or attempt.error == 0, f"{where}, with nothing injected"
        if attempt.error in self.refused:
            assert state() == before, where
        else:
            assert attempt.error in (0, *self.despite), where
            self.done(attempt)
        return attempt


def exit_now(nth: int) -> None:
    """End this process, which has been forked, with the `nth` fault injected into that."""
    with _opened("fail-nth") as fd:
        _library().faults_exit(fd, nth)


def was_injected(pid: int) -> bool:
    """Whether a child that called `exit_now`, and has not been waited for, has met its fault."""
    return int(Path(f"/proc/{pid}/fail-nth").read_text()) == 0


@contextmanager
def _opened(switch: str) -> Iterator[int]:
    """A file of this thread in /proc, which is opened before anything is counted."""
    fd = os.open(f"/proc/thread-self/{switch}", os.O_RDWR | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


_loaded: list[ctypes.CDLL] = []


def _library() -> ctypes.CDLL:
    if not _loaded:
        _loaded.append(ctypes.CDLL(str(LIBRARY), use_errno=True))
        # Its pages must be there before anything is counted.
        Call(39).run()
    return _loaded[0]


def configure() -> None:
    """Let every allocation and copy but kmemleak's be one that may fail, and the log be silent about it.

    The kernel's command line says in which slab caches allocations may fail: make test-debug.
    """
    left_alone = {path.parent.name for path in CACHES.glob("*/failslab") if path.read_text() == "0\n"}
    assert left_alone == KMEMLEAKS, (
        f"no faults in {sorted(left_alone)}: not the command line of make test-debug"
    )
    (DEBUGFS / "failslab" / "cache-filter").write_text("Y")
    for fault in ("failslab", "fail_page_alloc", "fail_usercopy"):
        (DEBUGFS / fault / "verbose").write_text("0")
    for fault in ("failslab", "fail_page_alloc"):
        (DEBUGFS / fault / "ignore-gfp-wait").write_text("N")
    (DEBUGFS / "fail_page_alloc" / "ignore-gfp-highmem").write_text("N")
    (DEBUGFS / "fail_page_alloc" / "min-order").write_text("0")
    # What has no fail-nth set fails if it has make-it-fail set, and `space` is used up.
    (DEBUGFS / "failslab" / "task-filter").write_text("Y")
    (DEBUGFS / "failslab" / "probability").write_text("100")


def table() -> str:
    """`counts` as an rst table."""
    total = Count(*(sum(column) for column in zip(*counts.values())))
    rows = [["operation", "one fault", "refused", "no memory", "refused"]]
    rows += [[what, *map(str, count)] for what, count in (*counts.items(), ("all together", total))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rule = " ".join("=" * width for width in widths)
    lines = [" ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([".. SPDX-License-Identifier: MIT", "", rule, lines[0], rule, *lines[1:], rule, ""])
