# SPDX-License-Identifier: MIT
"""How much memory the kernel holds, and a process that makes the bus hold a lot of it and ends."""

from __future__ import annotations

import re
from mmap import PAGESIZE
from pathlib import Path

from kbus import _abi as abi
from kbus.testing.model.wire import WireMessage
from tests.model.driver import Ksock

from .crowd import Worker
from .workers import CHURNED

SMALL, LARGE = 1500, 400_000
"""Bytes of data: of messages that the kernel has in slabs, and in pages."""


# All that /proc/meminfo knows a use for; pages that the kernel allocates one by one are none of it.
_ACCOUNTED = ("MemFree", "Buffers", "Cached", "AnonPages", "Slab", "KernelStack", "PageTables", "Percpu")


def held() -> tuple[int, int]:
    """Bytes: of slabs that are in use for good, and of pages that are no part of any account."""
    for cache in Path("/sys/kernel/slab").glob("*/shrink"):
        cache.write_text("1")  # KASAN keeps freed objects back until it is told to let go of them
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    kilobytes = {words[0].rstrip(":"): int(words[1]) for words in lines}
    pages = kilobytes["MemTotal"] - sum(kilobytes[account] for account in _ACCOUNTED)
    # Each processor keeps some free pages for itself: tens of megabytes, which are not in MemFree.
    kept = sum(map(int, re.findall(r"^ +count: +(\d+)$", Path("/proc/zoneinfo").read_text(), re.MULTILINE)))
    return kilobytes["SUnreclaim"] * 1024, pages * 1024 - kept * PAGESIZE


def hoarder(worker: Worker) -> None:
    """Leaves unread messages, unanswered Requests and bindings behind."""
    ksocks = [Ksock("rw") for _ in range(3)]
    for ksock in ksocks:
        ksock.max_msgs(1000)
        ksock.bind(CHURNED[0], 0)
    ksocks[0].bind(CHURNED[1], 1)
    ksocks[0].bind(CHURNED[1], 0)
    for size, count in ((SMALL, 400), (LARGE, 20)):
        for _ in range(count):
            post(ksocks[1], WireMessage(CHURNED[0], data=bytes(size)))
    for _ in range(200):
        post(ksocks[2], WireMessage(CHURNED[1], abi.BIT_WANT_A_REPLY))
    for _ in range(100):
        ksocks[0].next_msg()
    ksocks[1].write(WireMessage(CHURNED[0], data=bytes(LARGE)).to_bytes()[:-1])
    worker.ready()


def post(ksock: Ksock, message: WireMessage) -> None:
    """Write and SEND."""
    ksock.write(message.to_bytes())
    ksock.send()
