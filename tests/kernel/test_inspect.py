# SPDX-License-Identifier: MIT
"""kbus.inspect on what the module writes."""

from __future__ import annotations

import dataclasses
import os

import pytest

from kbus import Announcement, Request, inspect
from tests.kernel.conftest import NewDevice, OpenKsock
from tests.kernel.helpers import bindings, stats_lines, take


@pytest.mark.rule(35)
def test_bindings(ksock: OpenKsock) -> None:
    first, second = ksock(), ksock()
    first.bind("$.A.*", replier=True)
    second.bind("$.A.B")
    second.bind("$.A.B")
    plain = inspect.Binding(0, second.ksock_id(), os.getpid(), False, "$.A.B")
    assert inspect.bindings() == [
        plain,
        plain,
        inspect.Binding(0, first.ksock_id(), os.getpid(), True, "$.A.*"),
    ]


@pytest.mark.rule(35)
def test_bindings_of_several_devices(ksock: OpenKsock, new_device: NewDevice) -> None:
    device = new_device()
    ksock().bind("$.A")
    ksock(device).bind("$.B")
    assert [each.name for each in inspect.bindings(device)] == ["$.B"]
    assert [(each.device, each.name) for each in inspect.bindings()] == [(0, "$.A"), (device, "$.B")]
    assert len(bindings()) == 2


@pytest.mark.rule(35)
def test_every_number_of_the_file_is_known(ksock: OpenKsock) -> None:
    ksock()
    lines = stats_lines()
    device = inspect.stats(0)[0]
    known = {
        field.name: int(getattr(device, field.name))
        for field in dataclasses.fields(device)
        if field.name != "ksocks"
    }
    assert {"device": 0, **lines[0].numbers, "ksocks": 1} == {**known, "ksocks": len(device.ksocks)}
    read = {name: int(value) for name, value in dataclasses.asdict(device.ksocks[0]).items()}
    assert {"device": lines[1].key[1], "ksock_id": lines[1].key[2], **lines[1].numbers} == read


@pytest.mark.rule(35)
def test_numbers(ksock: OpenKsock) -> None:
    asker, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    replier.want_messages_once(True)
    replier.set_max_messages(7)
    before = inspect.stats(0)[0]
    for _ in range(2):
        asker.send_msg(Request("$.A"))
    asker.send_msg(Announcement("$.B"))
    take(replier)
    (device,) = inspect.stats(0)
    assert device.sent - before.sent == 3
    assert device.last_serial - before.last_serial == 3
    assert (device.waiting, device.bindings) == (0, 1)
    of_asker, of_replier = device.ksocks
    assert (of_asker.ksock_id, of_asker.pid, of_asker.uid, of_asker.gid) == (
        asker.ksock_id(),
        os.getpid(),
        os.geteuid(),
        os.getegid(),
    )
    assert (of_asker.sent, of_asker.received, of_asker.awaiting, of_asker.owed) == (3, 0, 2, 0)
    assert (of_replier.sent, of_replier.received, of_replier.owed, of_replier.unreplied) == (0, 1, 2, 1)
    assert (of_replier.queued, of_replier.queued_max, of_replier.queue_limit) == (1, 2, 7)
    assert 0 < of_replier.bytes < of_replier.bytes_max <= of_replier.bytes_limit
    assert (of_asker.only_once, of_replier.only_once) == (False, True)


@pytest.mark.rule(35)
def test_lost(ksock: OpenKsock) -> None:
    sender, listener = ksock(), ksock()
    listener.bind("$.A")
    listener.set_max_messages(1)
    for _ in range(3):
        sender.send_msg(Announcement("$.A"))
    assert [each.lost for each in inspect.stats(0)[0].ksocks] == [0, 2]


def test_devices(new_device: NewDevice) -> None:
    before = inspect.devices()
    device = new_device()
    assert inspect.devices() == [*before, device]
    assert inspect.stats(999) == []
