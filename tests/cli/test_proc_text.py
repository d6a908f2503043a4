# SPDX-License-Identifier: MIT
"""kbus.inspect on recorded text. What the kernel really writes is for tests/kernel/test_inspect.py."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kbus.inspect import Binding, DeviceStats, KsockStats, bindings, devices, stats

HEADER = "# <device> is bound to <Ksock-ID> in <process-PID> as <Replier|Listener> for <message-name>\n"
BINDINGS = f"""\
{HEADER}  0:        3      211  R  $.Sensors.*
  0:        1        0  L  $.A
{HEADER} 12: 4000000000 123456  L  $.B
"""
DEVICE = (
    "device 0 ksocks=1 bindings=2 sent=3 last_serial=4 max_message_size=1048576"
    " report_replier_binds=1 verbose=0 waiting=5 events_aside=6\n"
)
KSOCK = (
    "ksock 0 9 pid=211 uid=12 gid=13 queued=14 queue_limit=100 bytes=15 bytes_limit=33554432"
    " queued_max=16 bytes_max=64 sent=17 received=18 lost=19 bindings=20 awaiting=21 owed=22"
    " unreplied=23 only_once=1 waiting=0\n"
)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recorded"


def test_bindings(path: Path) -> None:
    assert bindings(path=written(path, BINDINGS)) == [
        Binding(0, 3, 211, True, "$.Sensors.*"),
        Binding(0, 1, 0, False, "$.A"),
        Binding(12, 4000000000, 123456, False, "$.B"),
    ]


def test_bindings_of_one_device(path: Path) -> None:
    written(path, BINDINGS)
    assert [binding.name for binding in bindings(12, path)] == ["$.B"]
    assert bindings(1, path) == []


@pytest.mark.parametrize(
    "line",
    [
        "  0:        3      211  R",
        "  0:        3      211  X  $.A",
        "  0:        3      211  R  $.A  more",
        "  0:        3      -11  R  $.A",
        "  0         3      211  R  $.A",
        "what is this",
    ],
)
def test_malformed_bindings(path: Path, line: str) -> None:
    written(path, f"{BINDINGS}{line}\n")
    with pytest.raises(ValueError, match=f"{path}:6: ") as caught:
        bindings(path=path)
    assert repr(line) in str(caught.value)


def test_stats(path: Path) -> None:
    assert stats(path=written(path, DEVICE + KSOCK)) == [
        DeviceStats(
            device=0,
            ksocks=(
                KsockStats(
                    device=0,
                    ksock_id=9,
                    pid=211,
                    uid=12,
                    gid=13,
                    queued=14,
                    queue_limit=100,
                    bytes=15,
                    bytes_limit=33554432,
                    queued_max=16,
                    bytes_max=64,
                    sent=17,
                    received=18,
                    lost=19,
                    bindings=20,
                    awaiting=21,
                    owed=22,
                    unreplied=23,
                    only_once=True,
                    waiting=False,
                ),
            ),
            bindings=2,
            sent=3,
            last_serial=4,
            max_message_size=1048576,
            report_replier_binds=True,
            verbose=False,
            waiting=5,
            events_aside=6,
        )
    ]


def test_stats_of_several_devices(path: Path) -> None:
    written(path, DEVICE + KSOCK + DEVICE.replace("device 0", "device 7"))
    assert devices(path) == [0, 7]
    assert [(each.device, len(each.ksocks)) for each in stats(path=path)] == [(0, 1), (7, 0)]
    assert [each.device for each in stats(7, path)] == [7]
    assert stats(3, path) == []


def test_further_pairs_are_passed_over(path: Path) -> None:
    plain = stats(path=written(path, DEVICE + KSOCK))
    more = DEVICE.replace(" sent=", " colour=red sent=") + KSOCK.replace("\n", " since=yesterday\n")
    assert stats(path=written(path, more)) == plain


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (DEVICE.replace(" sent=3", ""), "1: 'sent' is missing"),
        (DEVICE.replace("sent=3", "sent=lots"), "1: 'sent' is 'lots'"),
        (DEVICE.replace("sent=3", "sent=-3"), "1: 'sent' is '-3'"),
        (DEVICE.replace("sent=3", "sent"), "1: 'sent' is not key=value"),
        (DEVICE.replace("sent=3", "sent=3 sent=3"), "1: 'sent=3' is not key=value, or is there twice"),
        (DEVICE.replace("device 0", "device"), "1: 'device' is 'ksocks=1'"),
        (DEVICE + KSOCK.replace(" pid=211", ""), "2: 'pid' is missing"),
        (DEVICE + KSOCK.replace("ksock 0", "ksock 1"), "2: KSock 9 is not below its device 1"),
        (KSOCK, "1: KSock 9 is not below its device 0"),
        (DEVICE + "queue 0 1\n", "2: a line begins with 'device' or 'ksock', not with 'queue'"),
    ],
)
def test_malformed_stats(path: Path, text: str, cause: str) -> None:
    written(path, text)
    with pytest.raises(ValueError, match=f"{path}:{cause}"):
        stats(path=path)


def test_values_do_not_change(path: Path) -> None:
    (device,) = stats(path=written(path, DEVICE + KSOCK))
    with pytest.raises(dataclasses.FrozenInstanceError):
        device.sent = 0  # type: ignore[misc]


def test_no_file(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bindings(path=path)
    with pytest.raises(FileNotFoundError):
        stats(path=path)
