# SPDX-License-Identifier: MIT
"""/proc/kbus: rule 35."""

from __future__ import annotations

import os
import re

import pytest

from kbus import Announcement, Ksock, Request, reply_to
from tests.kernel import raw
from tests.kernel.conftest import NewDevice, OpenKsock
from tests.kernel.helpers import (
    PROC,
    BindingLine,
    bindings,
    bindings_text,
    device_stats,
    fill,
    ksock_stats,
    names,
    stats_lines,
    stats_text,
    take,
)
from tests.kernel.processes import CLONE_NEWPID, blocked_send, in_child, unshare
from tests.kernel.room import waiting

pytestmark = pytest.mark.rule(35)

HEADER = "# <device> is bound to <Ksock-ID> in <process-PID> as <Replier|Listener> for <message-name>\n"

# The example in docs/design/decisions.rst
DEVICE_LINE = (
    "device 0 ksocks=1 bindings=2 sent=3 last_serial=4 max_message_size=1048576 report_replier_binds=0 "
    "verbose=0 waiting=0 events_aside=0"
)
KSOCK_LINE = (
    "ksock 0 1 pid=211 uid=0 gid=0 queued=0 queue_limit=100 bytes=0 bytes_limit=4194304 queued_max=1 "
    "bytes_max=64 sent=3 received=1 lost=0 bindings=2 awaiting=0 owed=0 unreplied=0 only_once=0 waiting=0"
)
DEVICE_KEYS, KSOCK_KEYS = (re.findall(r"(\w+)=", line) for line in (DEVICE_LINE, KSOCK_LINE))
KSOCK_DEFAULTS = dict.fromkeys(KSOCK_KEYS, 0) | {
    **{"uid": os.geteuid(), "gid": os.getegid()},
    **{"queue_limit": 100, "bytes_limit": 4 << 20},
}


def test_bindings_byte_for_byte(ksock: OpenKsock, new_device: NewDevice) -> None:
    number = new_device()
    one, there = ksock(), ksock(number)
    one.bind("$.First")
    one.bind("$.Second.*", replier=True)
    there.bind("$.Third.%")
    id, pid = one.ksock_id(), os.getpid()
    text = bindings_text()
    assert text == (
        f"{HEADER}  0: {id:8} {pid:8}  R  $.Second.*\n  0: {id:8} {pid:8}  L  $.First\n"
        f"{HEADER * number}{number:3}:        1 {pid:8}  L  $.Third.%\n"
    )


def test_the_newest_binding_comes_first(ksock: OpenKsock) -> None:
    one, other = ksock(), ksock(mode="r")
    for owner, name in ((one, "$.A"), (other, "$.B"), (one, "$.A"), (other, "$.A")):
        owner.bind(name)
    order = [other, one, other, one]
    expected = ["$.A", "$.A", "$.B", "$.A"]
    assert bindings(0) == [
        BindingLine(0, owner.ksock_id(), os.getpid(), "L", name) for owner, name in zip(order, expected)
    ]
    one.unbind("$.A")
    assert [(line.ksock_id, line.name) for line in bindings(0)] == [
        (other.ksock_id(), "$.A"),
        (other.ksock_id(), "$.B"),
        (one.ksock_id(), "$.A"),
    ]


def test_bindings_of_any_length(ksock: OpenKsock) -> None:
    one = ksock()
    expected = [f"$.N{number}." + "a" * 900 for number in range(200)]
    for name in expected:
        one.bind(name)
    assert [line.name for line in bindings(0)] == expected[::-1]


def test_a_reader_sees_one_moment(ksock: OpenKsock) -> None:
    one = ksock()
    before = [f"$.N{number:04}." + "a" * 100 for number in range(300)]
    for name in before:
        one.bind(name)
    with open(PROC / "bindings", "rb", buffering=0) as file:
        seen = file.read(1000)
        for name in before[:200]:
            one.unbind(name)
        one.bind("$.New")
        while piece := file.read(1000):
            seen += piece
    lines = [line.split()[-1] for line in seen.decode().splitlines() if line.startswith("  0:")]
    assert lines == before[::-1]


def test_pids_are_those_of_the_reader(ksock: OpenKsock) -> None:
    ksock().bind("$.Outer")

    def look() -> tuple[list[int], list[int]]:
        with Ksock() as inner:
            inner.bind("$.Inner")
            assert os.getpid() == 1
            owner_pids = [line.numbers["pid"] for line in stats_lines() if line.key[0] == "ksock"]
            return [line.pid for line in bindings()], owner_pids

    def enter() -> tuple[list[int], list[int]]:
        unshare(CLONE_NEWPID)
        return in_child(look)

    assert in_child(enter) == ([1, 0], [0, 1])


def test_the_keys_of_stats(ksock: OpenKsock) -> None:
    one = ksock()
    first, second, *_ = [line for line in stats_lines() if line.key[1] == 0]
    assert (first.key, second.key) == (("device", 0), ("ksock", 0, one.ksock_id()))
    assert (list(first.numbers), list(second.numbers)) == (DEVICE_KEYS, KSOCK_KEYS)


def test_stats_of_a_new_ksock(ksock: OpenKsock) -> None:
    one = ksock()
    assert ksock_stats(one) == KSOCK_DEFAULTS | {"pid": os.getpid()}


def test_what_ksocks_have_done(ksock: OpenKsock) -> None:
    before = device_stats()
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    replier.bind("$.*")
    replier.want_messages_once(True)
    replier.set_max_messages(3)
    packet = raw.message(b"$.A", bytes(100), flags=raw.WANT_A_REPLY)
    for _ in range(3):
        raw.send(sender, packet)
    sender.send_msg(Announcement("$.B"))
    request = take(replier)
    replier.next_msg()
    replier.send_msg(reply_to(request))
    reply_size = len(raw.message(b"$.A"))
    assert ksock_stats(replier) == KSOCK_DEFAULTS | {
        "pid": os.getpid(),
        "queued": 2,
        "queue_limit": 3,
        "bytes": len(packet) + reply_size,
        "queued_max": 3,
        "bytes_max": 3 * len(packet),
        "sent": 1,
        "received": 2,
        "lost": 1,
        "bindings": 2,
        "owed": 2,
        "unreplied": 1,
        "only_once": 1,
    }
    assert ksock_stats(sender) == KSOCK_DEFAULTS | {
        "pid": os.getpid(),
        "queued": 1,
        "bytes": reply_size,
        "queued_max": 1,
        "bytes_max": reply_size,
        "sent": 4,
        "awaiting": 2,
    }
    after = device_stats()
    changed = {key: after[key] - before[key] for key in DEVICE_KEYS if after[key] != before[key]}
    assert changed == {"ksocks": 2, "bindings": 2, "sent": 5, "last_serial": 5}


def test_failed_sends_are_not_counted(ksock: OpenKsock) -> None:
    one = ksock()
    before = device_stats()["sent"]
    for _ in range(2):
        with pytest.raises(OSError):
            one.send_msg(Request("$.A"))
    one.send_msg(Announcement("$.A"))
    assert (ksock_stats(one)["sent"], device_stats()["sent"] - before) == (1, 1)


@pytest.mark.rule(27)
def test_what_kbus_sends_is_the_devices(ksock: OpenKsock) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    sender.send_msg(Request("$.A"))
    before = device_stats()["sent"]
    replier.unbind("$.A", replier=True)
    assert (device_stats()["sent"] - before, ksock_stats(replier)["sent"]) == (1, 0)


@pytest.mark.rule(22)
def test_who_waits_is_shown(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    sending = blocked_send(sender, waiting())
    assert (ksock_stats(sender)["waiting"], ksock_stats(full)["waiting"]) == (1, 0)
    assert device_stats()["waiting"] == 1
    names(full)
    sending.result()
    assert (device_stats()["waiting"], ksock_stats(sender)["waiting"]) == (0, 0)


def test_ksocks_come_by_their_ids(ksock: OpenKsock) -> None:
    opened = [ksock() for _ in range(5)]
    opened[2].close()
    ids = [one.ksock_id() for one in (*opened[:2], *opened[3:])]
    assert [line.key for line in stats_lines() if line.key[:2] == ("ksock", 0)] == [
        ("ksock", 0, id) for id in ids
    ]


def test_each_line_of_stats_is_words_and_pairs(ksock: OpenKsock) -> None:
    ksock()
    for line in stats_text().splitlines():
        assert line == line.strip()
        assert "  " not in line
        assert line.split()[0] in ("device", "ksock")
