# SPDX-License-Identifier: MIT
"""hypothesis drives the stand-in and another model side by side, as test_model_vm does the module.

So what the module and the model are alike in, the stand-in is too, down to the bytes of its ioctls.
"""

from __future__ import annotations

import select
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded

from kbus._device import proc_text
from kbus.testing.model import ksock as model
from kbus.testing.model.bus import Device, DeviceLimits
from tests.effort import reduced
from tests.kernel import module, stand_in

from . import side_by_side
from .side_by_side import real_device
from .test_model_vm import SideBySide


class OnTheStandIn(SideBySide):
    """It has no limits for a user."""

    def make_device(self, limits: DeviceLimits) -> Device:
        self.undo.enter_context(module.parameter("default_queue_length", limits.queue_length))
        self.undo.enter_context(module.parameter("max_queue_bytes", limits.queue_bytes))
        return real_device(limits)


@pytest.mark.axiom("order", "urgency", "answer", "loss", "lifetime")
def test_stand_in_does_what_the_model_does(monkeypatch: pytest.MonkeyPatch) -> None:
    all_of_it = model.ModelKsock.poll
    monkeypatch.setattr(stand_in, "IS_WANTED", True)
    monkeypatch.setattr(side_by_side, "shown", lambda path, start: proc_text(Path(path)))
    # A socket has no POLLPRI.
    monkeypatch.setattr(model.ModelKsock, "poll", lambda ksock: all_of_it(ksock) & ~select.POLLPRI)
    case = seeded(1)(OnTheStandIn).TestCase
    case.settings = settings(
        max_examples=reduced(20),
        stateful_step_count=50,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    with stand_in.in_place():
        case().runTest()
