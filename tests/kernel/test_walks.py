# SPDX-License-Identifier: MIT
"""Whoever binds looks at the Requests that wait, a part at a time, and these may go meanwhile."""

from __future__ import annotations

import os
import threading
import time
from functools import partial

import pytest

from kbus import Ksock
from tests.effort import reduced
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import device_stats
from tests.kernel.processes import NOBODY
from tests.kernel.room import told_to_try_again

pytestmark = pytest.mark.qemu("two processors")

KEPT = 300
"""Requests that wait: more than are looked at at a time."""
ROUNDS = max(5, reduced(30))
PROCESSOR = 0
"""Of all: whoever dies takes it from whoever looks, where that lets others have their turn."""


@pytest.mark.rule(22, 41)
@pytest.mark.axiom("lifetime")
def test_a_user_may_go_while_somebody_looks_at_its_request(ksock: OpenKsock, child: StartChild) -> None:
    """The look keeps that message, and so whoever pays for it. Else memory is used that is free."""
    full = ksock()
    full.bind("$.A.b", replier=True)
    full.set_max_messages(1)
    raw.send(ksock(), raw.message(b"$.A.b", flags=raw.WANT_A_REPLY))

    def bind_for_ever(binder: Ksock, name: str) -> None:
        os.sched_setaffinity(0, {PROCESSOR})
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        while True:
            binder.bind(name, replier=True)
            binder.unbind(name, replier=True)

    def bind(name: str) -> Ksock:
        binder = Ksock(0)
        threading.Thread(target=bind_for_ever, args=(binder, name), daemon=True).start()
        return binder

    def ask() -> list[Ksock]:
        os.setresuid(NOBODY, NOBODY, NOBODY)
        os.sched_setaffinity(0, {PROCESSOR})
        senders = [Ksock(0, nonblocking=True) for _ in range(KEPT)]
        for sender in senders:
            told_to_try_again(sender, raw.message(b"$.A.b", flags=raw.WANT_A_REPLY | raw.ALL_OR_WAIT))
        return senders

    for name in ("$.A.*", "$.A.%", "$.*"):
        child(partial(bind, name))
    for number in range(ROUNDS):
        asking = child(ask)
        assert device_stats()["waiting"] == KEPT
        time.sleep(0.03 + number % 10 * 0.003)
        asking.kill()
        assert device_stats()["waiting"] == 0
