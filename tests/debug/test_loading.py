# SPDX-License-Identifier: MIT
"""Loading the module, with each allocation of its init failing in turn."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.debug import faults
from tests.debug.faults import Attempt, Call
from tests.kernel import module
from tests.kernel.helpers import device_stats
from tests.kernel.test_module import nodes, traces
from tests.vm import dmesg

pytestmark = [
    pytest.mark.rule(38),
    pytest.mark.qemu("without memory for its trace events Linux 6.12 itself warns"),
]


def init_module(parameters: bytes) -> Call:
    """Load the module from memory."""
    image = module.image().read_bytes()
    return Call(faults.INIT_MODULE, faults.buffer(image), len(image), faults.buffer(parameters + b"\0"))


EVERYTHING_SHOWN = Path("/sys/module/printk/parameters/ignore_loglevel")
"""Whether the console, which the virtual machine is judged by, gets more than emergencies."""


LOADS = 8
"""Of which the longest is counted."""


@pytest.fixture
def log() -> Iterator[Callable[[], None]]:
    """Looks for what is wrong in the log since it was last called. Nothing of it gets to the console."""
    before = EVERYTHING_SHOWN.read_text()
    EVERYTHING_SHOWN.write_text("N")
    with open("/dev/kmsg", "rb", buffering=0) as kmsg:
        os.set_blocking(kmsg.fileno(), False)
        os.lseek(kmsg.fileno(), 0, os.SEEK_END)

        def look() -> None:
            lines = [record.split(";", 1)[1] for record in records(kmsg.fileno())]
            assert [line for line in lines if dmesg.WRONG.search(line)] == []

        yield look
    EVERYTHING_SHOWN.write_text(before)


def records(kmsg: int) -> Iterator[str]:
    """The records of the kernel log that have not been read."""
    while True:
        try:
            yield os.read(kmsg, 8192).decode()
        except BlockingIOError:
            return


@pytest.fixture
def rcu_expedited() -> Iterator[None]:
    """Nobody waits long for the grace periods of a thousand loads and unloads."""
    switch = Path("/sys/kernel/rcu_expedited")
    before = switch.read_text()
    switch.write_text("1")
    yield
    switch.write_text(before)


@pytest.mark.usefixtures("rcu_expedited")
def test_load(log: Callable[[], None]) -> None:
    module.unload()
    # What comes before init, and kmem_cache_create() at its beginning, is the kernel's own work. It warns or
    # leaks when it fails, and its allocations differ in number. Init ends there for an id of no group.
    before = max(init_module(b"proc_gid=4294967295").count() for _ in range(LOADS))
    load = init_module(b"num_kbus_devices=1")

    def prepare() -> Call:
        if module.is_loaded():
            module.unload()
            assert traces() == []
        return load

    def done(attempt: Attempt) -> None:
        log()
        if attempt.error:
            assert traces() == []
        else:
            assert nodes() == ["kbus0"]
            assert device_stats()["ksocks"] == 0

    errors = [errno.ENOMEM, errno.EFAULT]
    try:
        faults.each("insmod", prepare, done, refused=[], despite=errors, first=before + 1, starve=False)
    finally:
        if module.is_loaded():
            module.unload()
        module.load()
    assert nodes() == ["kbus0"]
