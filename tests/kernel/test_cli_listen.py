# SPDX-License-Identifier: MIT
"""`kbus listen` against the module."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import Optional

import pytest

from kbus import Announcement, Message, Request, reply_to
from tests.kernel.command import bound, running
from tests.kernel.conftest import NewDevice, OpenKsock
from tests.kernel.helpers import take, wait_until


def test_lines(ksock: OpenKsock) -> None:
    sender = ksock()
    with bound("listen", "$.Sensors.*", "-n", "2") as process:
        before = time.time()
        first = sender.send_msg(Announcement("$.Sensors.Kitchen", "22.5"))
        sender.send_msg(Announcement("$.Other"))
        second = sender.send_msg(Announcement("$.Sensors.Kitchen.Door", b"\xff", flags=Message.URGENT))
        status, out, err = process.end()
    assert (status, err) == (0, "")
    found = re.findall(r"^\((\d+\.\d{9})\) kbus0 (\S+) (.*)$", out, re.M)
    assert all(before <= float(when) <= time.time() for when, _, _ in found)
    lines = [
        (str(first), f'A from {sender.ksock_id()} $.Sensors.Kitchen 4 "22.5"'),
        (str(second), f"Au from {sender.ksock_id()} $.Sensors.Kitchen.Door 1 ff"),
    ]
    # The urgent message may have overtaken the other one.
    assert sorted((identity, rest) for _, identity, rest in found) == lines
    assert len(out.splitlines()) == 2


def test_json(ksock: OpenKsock) -> None:
    asker, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    with bound("listen", "--json", "$.A", "-n", "3") as process:
        announced = asker.send_msg(Announcement("$.A", b"\xff\x00"))
        asked = asker.send_msg(Request("$.A", "grün"))
        answered = replier.send_msg(reply_to(take(replier), "yes"))
        status, out, err = process.end()
    assert (status, err) == (0, "")
    records = [json.loads(line) for line in out.splitlines()]
    times = [record.pop("time_ns") for record in records]
    assert times == sorted(times)
    nothing = {"user_bits": 0, "orig_from": None, "final_to": None, "device": 0, "name": "$.A"}
    assert records == [
        {
            **nothing,
            "id": [0, announced.serial_num],
            "kind": "announcement",
            "from": asker.ksock_id(),
            "to": 0,
            "in_reply_to": None,
            "flags": [],
            "length": 2,
            "data_hex": "ff00",
        },
        {
            **nothing,
            "id": [0, asked.serial_num],
            "kind": "request",
            "from": asker.ksock_id(),
            "to": 0,
            "in_reply_to": None,
            "flags": ["WANT_A_REPLY"],
            "length": 5,
            "data": "grün",
        },
        {
            **nothing,
            "id": [0, answered.serial_num],
            "kind": "reply",
            "from": replier.ksock_id(),
            "to": asker.ksock_id(),
            "in_reply_to": [0, asked.serial_num],
            "flags": [],
            "length": 3,
            "data": "yes",
        },
    ]


def test_hex_and_other_times(ksock: OpenKsock) -> None:
    with bound("listen", "--hex", "-t", "zero", "$.A", "-n", "1") as process:
        sender = ksock()
        sent = sender.send_msg(Announcement("$.A", "22.5"))
        assert process.end() == (
            0,
            f"(0.000000000) kbus0 {sent} A from {sender.ksock_id()} $.A 4 32322e35\n",
            "",
        )


def test_several_names_and_only_once(ksock: OpenKsock) -> None:
    with bound("listen", "--only-once", "--json", "$.A", "$.*", "$.B", "-n", "2", count=3) as process:
        sender = ksock()
        sender.send_msg(Announcement("$.A"))
        sender.send_msg(Announcement("$.B"))
        status, out, err = process.end()
    assert (status, err) == (0, "")
    assert [json.loads(line)["name"] for line in out.splitlines()] == ["$.A", "$.B"]


def test_another_device(ksock: OpenKsock, new_device: NewDevice) -> None:
    device = new_device()
    with bound("listen", "-d", str(device), "$.A", "-n", "1", device=device) as process:
        ksock().send_msg(Announcement("$.A", "on device 0"))
        ksock(device).send_msg(Announcement("$.A", "here"))
        status, out, err = process.end()
    assert (status, err) == (0, "")
    assert out.endswith(' $.A 4 "here"\n')
    assert f" kbus{device} " in out


def test_time_out(ksock: OpenKsock) -> None:
    with bound("listen", "$.A", "-n", "2", "--timeout", "0.5") as process:
        ksock().send_msg(Announcement("$.A", "the only one"))
        status, out, err = process.end()
    assert (status, err) == (124, "kbus listen: nothing came for 0.5 s\n")
    assert out.endswith('"the only one"\n')


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_success_and_shows_what_had_come(number: signal.Signals, ksock: OpenKsock) -> None:
    with bound("listen", "--json", "$.A") as process:
        process.stop()
        sender = ksock()
        for text in ("1", "2", "3"):
            sender.send_msg(Announcement("$.A", text))
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        status, out, err = process.end()
    assert (status, err) == (0, "")
    assert [json.loads(line)["data"] for line in out.splitlines()] == ["1", "2", "3"]


def test_lines_come_at_once_and_a_closed_pipe_is_quiet(ksock: OpenKsock) -> None:
    with bound("listen", "$.A") as process:
        ksock().send_msg(Announcement("$.A", "first"))
        assert process.stdout.readline().endswith(b'"first"\n')
        process.stdout.close()
        # It ends without another message having to come.
        wait_until(process.has_ended, "the command ends")
        assert (process.status, process.stderr.read()) == (0, b"")


def test_losses_are_told(ksock: OpenKsock) -> None:
    with bound("listen", "--json", "--max-messages", "2", "$.A") as process:
        process.stop()
        sender = ksock()
        for number in range(5):
            sender.send_msg(Announcement("$.A", str(number)))
        process.send_signal(signal.SIGCONT)
        shown = [json.loads(process.stdout.readline())["data"] for _ in range(2)]
        assert process.stderr.readline() == b"kbus listen: 3 messages were lost: the queue of 2 was full\n"
        process.send_signal(signal.SIGTERM)
        status, out, err = process.end()
    assert shown == ["0", "1"]
    assert (status, out) == (0, "")
    assert err == "kbus listen: 3 messages were lost in total; --max-messages makes the queue longer\n"


@pytest.mark.parametrize("data", [None, b"", b"abc", b"\xff\xff\xff\x7f"], ids=repr)
def test_a_reply_that_looks_like_a_report_of_losses_is_shown(ksock: OpenKsock, data: Optional[bytes]) -> None:
    asker, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    with bound("listen", "--json", "$.*", "-n", "2") as process:
        asker.send_msg(Request("$.A"))
        reply = reply_to(take(replier), data)
        reply.name = "$.KBUS.MessagesLost"
        replier.send_msg(reply)
        status, out, err = process.end()
    assert (status, err) == (0, "")
    shown = [json.loads(line) for line in out.splitlines()]
    assert [(each["kind"], each["name"]) for each in shown] == [
        ("request", "$.A"),
        ("reply", "$.KBUS.MessagesLost"),
    ]


def test_bind_refused() -> None:
    with running("listen", "-n", "1", *["$.A"] * 4097) as process:
        assert process.end() == (
            1,
            "",
            "kbus listen: can't bind to $.A: too many bindings"
            " (module parameters max_ksock_bindings, max_user_bindings, max_name_bindings)\n",
        )
