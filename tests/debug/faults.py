# SPDX-License-Identifier: MIT
"""System calls in which the n-th allocation or user copy fails, for n from 1 until none is left to fail.

The kernel counts with /proc/thread-self/fail-nth whatever the task may fail in: slab and page allocations,
copy_from_user() and copy_to_user(), but not get_user() and put_user(). See
Documentation/fault-injection/fault-injection.rst in its source.
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
LIBRARY = Path(__file__).parent / "c" / "bin" / "faults.so"
MOST = 10_000
"""No call has as many points of failure."""

READ, WRITE, CLOSE, POLL, IOCTL, VFORK, INIT_MODULE, EPOLL_CTL, OPENAT = 0, 1, 3, 7, 16, 58, 175, 233, 257
"""Numbers of system calls on x86-64, for which the debug kernels are built."""

Buffer = ctypes.Array[ctypes.c_char]


class Count(NamedTuple):
    """What was tried of one operation."""

    faults: int
    """How many calls had an allocation or a copy fail in them."""
    refused: int
    """How many of them failed; the others did without what they could not get."""


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
        outcome = _Outcome()
        # The file is that of the thread which opens it, and opening it may not be counted.
        with _fail_nth() as fd:
            if _library().faults_call(fd, nth, ctypes.byref(self._call), ctypes.byref(outcome)) != 0:
                raise OSError(ctypes.get_errno(), "fail-nth")
        return Attempt(outcome.result, outcome.error, nth != 0 and outcome.left == 0)

    def count(self) -> int:
        """Make the call with nothing injected; how many points of failure it passed."""
        outcome = _Outcome()
        with _fail_nth() as fd:
            _library().faults_call(fd, MOST, ctypes.byref(self._call), ctypes.byref(outcome))
        return MOST - int(outcome.left)


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
) -> None:
    """Make a call fail at its 1st, 2nd, n-th point until it gets through without; the result is in `counts`.

    `prepare` gives the call, each time anew. With an errno of `refused` it must leave everything as it was.
    All other calls, which end well or with an errno of `despite`, must have done their work: `done` is to see
    that, and to undo it. `first` is the n to begin with.
    """
    faults = failures = 0
    for nth in itertools.count(first):
        assert nth < MOST, "it never succeeds"
        call = prepare()
        before = state() if refused else ""
        attempt = call.run(nth)
        faults += attempt.injected
        failures += attempt.error != 0
        if attempt.error in refused:
            assert attempt.injected, f"{what} fails by itself: {errno.errorcode[attempt.error]}"
            assert state() == before, f"{what} leaves traces of its failure at {nth}"
            continue
        assert attempt.error in (0, *despite), f"{what}: {errno.errorcode[attempt.error]} at {nth}"
        done(attempt)
        if not attempt.injected:
            assert attempt.error == 0
            break
    counts[what] = Count(faults, failures)


def exit_now(nth: int) -> None:
    """End this process, which has been forked, with the `nth` fault injected into that."""
    with _fail_nth() as fd:
        _library().faults_exit(fd, nth)


def was_injected(pid: int) -> bool:
    """Whether a child that called `exit_now`, and has not been waited for, has met its fault."""
    return int(Path(f"/proc/{pid}/fail-nth").read_text()) == 0


@contextmanager
def _fail_nth() -> Iterator[int]:
    fd = os.open("/proc/thread-self/fail-nth", os.O_RDWR | os.O_CLOEXEC)
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
    """Let every allocation and copy be one that may fail, and the log be silent about it."""
    for fault in ("failslab", "fail_page_alloc", "fail_usercopy"):
        (DEBUGFS / fault / "verbose").write_text("0")
    for fault in ("failslab", "fail_page_alloc"):
        (DEBUGFS / fault / "ignore-gfp-wait").write_text("N")
    (DEBUGFS / "fail_page_alloc" / "ignore-gfp-highmem").write_text("N")
    (DEBUGFS / "fail_page_alloc" / "min-order").write_text("0")


def table() -> str:
    """`counts` as an rst table."""
    total = Count(*(sum(column) for column in zip(*counts.values())))
    rows = [("operation", "faults", "refused", "went on")]
    rows += [
        (what, str(count.faults), str(count.refused), str(count.faults - count.refused))
        for what, count in (*counts.items(), ("all together", total))
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    rule = " ".join("=" * width for width in widths)
    lines = [" ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([".. SPDX-License-Identifier: MIT", "", rule, lines[0], rule, *lines[1:], rule, ""])
