# SPDX-License-Identifier: MIT
"""What is done under which lock, as lockdep has seen it in all that has run so far: /proc/lockdep."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kbus import Ksock
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import take
from tests.kernel.processes import blocked_send
from tests.kernel.room import unbind, waiting

SPINLOCKS = ("&dev->lock", "&q->lock")
WAIT_QUEUE = "&ks->wq"
MUTEXES = ("&ks->in_lock", "&ks->out_lock", "&dev->bind_lock", "kbus_devs_lock")


def taken_inside() -> dict[str, set[str]]:
    """For each class of locks, by its name in the source, those that were taken while it was held."""
    found: dict[str, set[str]] = {}
    inside: set[str] = set()
    for line in Path("/proc/lockdep").read_text().splitlines():
        if match := re.match(r"\S+ .*?[+.?-]{4,}: (\S+)", line):
            inside = found.setdefault(match[1], set())
        elif match := re.match(r" -> \[\S+\] (\S+)", line):
            inside.add(match[1])
    return found


@pytest.mark.rule(45, 46)
def test_nobody_is_woken_and_nothing_sleeps_under_a_spinlock(ksock: OpenKsock) -> None:
    """A message, an answer, room, an unbind and a close each wake somebody who sleeps or waits."""
    full, replier, sender = ksock(), ksock(), ksock()
    full.set_max_messages(1)
    replier.bind("$.Asked", replier=True)
    for event in (take, unbind, Ksock.close):
        full.bind("$.A")
        raw.send(ksock(), raw.message(b"$.A"))
        sending = blocked_send(sender, waiting())
        event(full)
        sending.result()
        if event is take:
            take(full)
            unbind(full)
    raw.send(sender, raw.message(b"$.Asked", flags=raw.WANT_A_REPLY))
    replier.close()

    inside = taken_inside()
    assert {*SPINLOCKS, WAIT_QUEUE} <= inside.keys()
    assert "&q->lock" in inside["&dev->lock"]
    for lock in SPINLOCKS:
        assert inside[lock].isdisjoint({WAIT_QUEUE, *MUTEXES}), lock
