# SPDX-License-Identifier: MIT
"""hypothesis drives the model and the module side by side; needs /dev/kbus0, with nobody else on it.

KBUS_MODEL_EXAMPLES sets how many lists of operations are tried, KBUS_MODEL_SEED what they grow from. A list
that shows a difference is made as short as possible and printed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis.stateful import invariant

from kbus import _abi as abi
from kbus.testing.model import ksock as model
from kbus.testing.model.bus import Device, DeviceLimits
from tests.effort import reduced
from tests.kernel import module

from . import driver
from .machine import Machine
from .side_by_side import Pair, compare_device, real_device

EXAMPLES = int(os.environ.get("KBUS_MODEL_EXAMPLES", reduced(40)))
SEED = int(os.environ.get("KBUS_MODEL_SEED", "1"))


class SideBySide(Machine):
    """Every operation on both; after each, everything that shows is compared."""

    def __init__(self) -> None:
        super().__init__()
        self.undo = ExitStack()
        self.undo.callback(reset_device)
        self.pairs: dict[model.ModelKsock, Pair] = {}
        self.alike = True

    @contextmanager
    def comparing(self) -> Iterator[None]:
        """Note in `alike` that a comparison has failed, so that what comes after it does not hide it."""
        self.alike = False
        yield
        self.alike = True

    def make_device(self, limits: DeviceLimits) -> Device:
        self.undo.enter_context(module.parameter("default_queue_length", limits.queue_length))
        self.undo.enter_context(module.parameter("max_queue_bytes", limits.queue_bytes))
        # The model knows nothing of users' bytes, of which an observer's queue takes a quarter at most.
        self.undo.enter_context(module.parameter("max_user_bytes", 4 * DeviceLimits.queue_bytes))
        return real_device(limits)

    def make_ksock(self, mode: str) -> model.ModelKsock:
        with self.comparing():
            pair = Pair(self.device, mode)
        self.pairs[pair.model] = pair
        return pair.model

    def call(self, ksock: model.ModelKsock, method: str, *arguments: object) -> Any:
        with self.comparing():
            got = self.pairs[ksock].do(method, *arguments)
        if method == "close":
            del self.pairs[ksock]
        return got

    @invariant()
    def same(self) -> None:
        with self.comparing():
            for pair in self.pairs.values():
                pair.compare()
            for pair in list(self.pairs.values())[:1]:
                pair.compare_repliers()
            compare_device(self.device)

    def teardown(self) -> None:
        with self.undo:
            for pair in self.pairs.values():
                self.undo.callback(pair.close_real)
            if self.alike:
                for pair in self.pairs.values():
                    read_everything(pair)
                while self.ksocks:
                    self.close(0, owing=False)
                    self.same()


def reset_device() -> None:
    """What belongs to the whole device is as when it was made."""
    ksock = driver.Ksock("rw")
    ksock.set_verbose(abi.SWITCH_OFF)
    ksock.set_report_binds(abi.SWITCH_OFF)
    ksock.max_msg_size(DeviceLimits().message_size)
    ksock.close()


@pytest.mark.axiom("order", "urgency", "answer", "loss", "lifetime")
@pytest.mark.rule(1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20)
@pytest.mark.rule(21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 32, 34, 35, 36, 39)
def test_module_does_what_the_model_does() -> None:
    print(f"KBUS_MODEL_SEED={SEED} KBUS_MODEL_EXAMPLES={EXAMPLES}")
    case = seeded(SEED)(SideBySide).TestCase
    case.settings = settings(
        max_examples=EXAMPLES,
        stateful_step_count=50,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    case().runTest()


@pytest.mark.rule(32)
def test_events_of_closes_are_set_aside_until_there_are_too_many() -> None:
    """Rule 32, which needs more bindings than random operations make: two full listeners, and 1000 places."""
    with ExitStack() as undo:
        undo.callback(reset_device)
        device = real_device(DeviceLimits())
        first, second, owner, late, last = pairs = [Pair(device, "rw") for _ in range(5)]
        for pair in pairs:
            undo.callback(pair.close_real)
        for listener in (first, second):
            listener.do("bind", b"$.KBUS.ReplierBindEvent", 0)
            listener.do("max_msgs", 1)
        for number in range(500):
            owner.do("bind", b"$.N%d" % number, 1)
        late.do("bind", b"$.Late", 1)
        last.do("bind", b"$.Last", 1)
        last.do("set_report_binds", 1)
        last.do("unbind", b"$.Last", 1)  # this event fills both queues

        owner.do("close")
        compare_device(device)
        assert device.events_aside == 1000
        late.do("close")
        last.do("close")
        compare_device(device)
        for listener in (first, second):
            read_everything(listener)
            listener.compare()
        compare_device(device)


def read_everything(pair: Pair) -> None:
    """Whatever is queued is the same, message by message."""
    while "r" in pair.model.mode and pair.model.queue.copies:
        pair.do("read", pair.do("next_msg"))
