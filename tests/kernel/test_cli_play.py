# SPDX-License-Identifier: MIT
"""`kbus play` against the module."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from kbus import Announcement, Ksock, Message, Request, reply_to
from tests.kernel.command import running
from tests.kernel.conftest import NewDevice, OpenKsock
from tests.kernel.helpers import take, wait_until
from tests.kernel.recording import captures, ended, flushed, recording


def played(*arguments: str) -> str:
    """`kbus play` to its end; what it said."""
    with running("play", *arguments) as player:
        status, out, err = player.end()
    assert (status, out) == (0, "")
    return err


@pytest.fixture
def recorded(ksock: OpenKsock, tmp_path: Path) -> Path:
    """Two announcements half a second apart, and a Request with its reply."""
    sender, replier = ksock(), ksock()
    replier.bind("$.B.Ask", replier=True)
    with recording(tmp_path) as recorder:
        sender.send_msg(Announcement("$.A", "one"))
        sender.send_msg(Request("$.B.Ask", "?"))
        replier.send_msg(reply_to(take(replier), "!"))
        wait_until(lambda: flushed(tmp_path) == 3, "these are recorded")
        gap = time.monotonic() + 0.5
        wait_until(lambda: time.monotonic() >= gap, "half a second has gone")
        sender.send_msg(Announcement("$.A", "two", flags=Message.URGENT))
        ended(recorder)
    for one in (sender, replier):
        one.close()
    (path,) = captures(tmp_path)
    return path


def heard(listener: Ksock) -> list[tuple[str, bytes | None]]:
    """What came, in the order of the ids."""
    came = sorted(listener, key=lambda message: message.id.serial_num if message.id else 0)
    return [(each.name, each.data) for each in came]


def test_play_announces_everything_in_time(ksock: OpenKsock, recorded: Path) -> None:
    listener = ksock()
    listener.bind("$.*")
    began = time.monotonic()
    assert played(str(recorded)) == "kbus play: 4 messages sent, 0 left out\n"
    took = time.monotonic() - began
    messages = list(listener)
    assert heard_of(messages) == [("$.A", b"two"), ("$.A", b"one"), ("$.B.Ask", b"?"), ("$.B.Ask", b"!")]
    assert not any(each.is_request() or each.is_reply() for each in messages)
    assert took >= 0.5
    began = time.monotonic()
    played(str(recorded), "--start", "0.3", "--rate", "0")
    assert heard(listener) == [("$.A", b"two")]


def heard_of(messages: list[Message]) -> list[tuple[str, bytes | None]]:
    """Names and data, as they were read."""
    return [(each.name, each.data) for each in messages]


def test_play_elsewhere(new_device: NewDevice, ksock: OpenKsock, recorded: Path) -> None:
    other = new_device()
    here, there = ksock(), ksock(other)
    for one in (here, there):
        one.bind("$.*")
    played(str(recorded), "--rate", "0", "--map", f"0={other}", "--map", "$.B=$.Test.B")
    assert heard(here) == []
    assert heard(there) == [("$.A", b"one"), ("$.Test.B.Ask", b"?"), ("$.Test.B.Ask", b"!"), ("$.A", b"two")]


def test_play_asks_only_when_asked_to(ksock: OpenKsock, recorded: Path) -> None:
    replier = ksock()
    replier.bind("$.B.Ask", replier=True)
    played(str(recorded), "--rate", "0")
    assert replier.num_messages() == 0
    err = played(str(recorded), "--rate", "0", "--requests")
    assert err == "kbus play: 3 messages sent, 1 left out\n"
    assert [each.wants_us_to_reply() for each in replier] == [True]


def test_play_says_what_could_not_be_sent(recorded: Path) -> None:
    with running("play", str(recorded), "--rate", "0", "--requests") as player:
        status, _, err = player.end()
    assert status == 1
    assert err.splitlines() == [
        "kbus play: 2 messages sent, 1 left out",
        "kbus play: 1 messages could not be sent: 1 EADDRNOTAVAIL"
        " (it has no replier; `kbus bindings` shows what is bound)",
    ]


def test_play_again_and_again_until_a_signal(ksock: OpenKsock, recorded: Path) -> None:
    listener = ksock()
    listener.bind("$.A")
    with running("play", str(recorded), "--loop", "--rate", "50") as player:
        wait_until(lambda: listener.num_messages() >= 6, "it has begun again")
        player.send_signal(signal.SIGINT)
        status, _, err = player.end()
    assert status == 0
    assert "messages sent, 0 left out" in err


@pytest.fixture
def patient(ksock: OpenKsock, tmp_path: Path) -> Path:
    """Three announcements that wait for room."""
    sender = ksock()
    with recording(tmp_path) as recorder:
        for text in ("one", "two", "three"):
            sender.send_msg(Announcement("$.A", text, flags=Message.ALL_OR_WAIT))
        ended(recorder)
    (path,) = captures(tmp_path)
    return path


def test_play_waits_for_room(ksock: OpenKsock, patient: Path) -> None:
    listener = ksock()
    listener.set_max_messages(1)
    listener.bind("$.A")
    with running("play", str(patient), "--rate", "0") as player:
        for expected in (b"one", b"two", b"three"):
            wait_until(lambda: listener.num_messages() == 1, "the next has come")
            assert take(listener).data == expected
        status, _, err = player.end()
    assert (status, err) == (0, "kbus play: 3 messages sent, 0 left out\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_play_ends_although_it_waits_for_room(
    ksock: OpenKsock, patient: Path, number: signal.Signals
) -> None:
    listener = ksock()
    listener.set_max_messages(1)
    listener.bind("$.A")
    with running("play", str(patient), "--rate", "0") as player:
        wait_until(lambda: listener.num_messages() == 1, "one has come, and there is no room for another")
        gap = time.monotonic() + 0.2
        wait_until(lambda: time.monotonic() >= gap, "it waits")
        player.send_signal(number)
        status, _, err = player.end()
    assert (status, err) == (0, "kbus play: 1 messages sent, 0 left out\n")


def test_play_keeps_as_many_requests_open_as_were(ksock: OpenKsock, tmp_path: Path) -> None:
    sender, replier = ksock(), ksock()
    for one in (sender, replier):
        one.set_max_messages(300)
    replier.bind("$.B", replier=True)
    with recording(tmp_path) as recorder:
        for _ in range(150):
            sender.send_msg(Request("$.B"))
        ended(recorder)
    assert len([take(replier) for _ in range(150)]) == 150
    err = played(*map(str, captures(tmp_path)), "--rate", "0", "--requests")
    assert err == "kbus play: 150 messages sent, 0 left out\n"
