# SPDX-License-Identifier: MIT
"""What `kbus top` counts, without a bus and without a screen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus import Announcement, Message, MessageId, Reply, Request, Status
from kbus.cli.top import traffic as traffic_module
from kbus.cli.top.rates import KsockRates, Rates
from kbus.cli.top.traffic import Traffic, Waiting
from kbus.inspect import DeviceStats, KsockStats


def request(serial: int, name: str = "$.A", sender: int = 4) -> Message:
    return Request(name, from_=sender, id=MessageId(0, serial))


def answer(serial: int, name: str = "$.A") -> Message:
    return Reply(name, in_reply_to=MessageId(0, serial), id=MessageId(0, 1000 + serial))


def test_names_by_messages_bytes_and_rate() -> None:
    traffic = Traffic(now=10.0)
    for message in (Announcement("$.A", "12345"), Announcement("$.A"), Announcement("$.B", "1")):
        traffic.take(message, 11.0)
    traffic.end_interval(12.0)
    a, b = traffic.names["$.A"], traffic.names["$.B"]
    assert (a.messages, a.bytes, a.rate, a.byte_rate) == (2, 5, 1.0, 2.5)
    assert (b.messages, b.bytes, b.rate, b.byte_rate) == (1, 1, 0.5, 0.5)
    traffic.take(Announcement("$.B", "123"), 12.5)
    traffic.end_interval(12.5)
    assert (a.messages, a.rate, b.messages, b.rate, b.byte_rate) == (2, 0.0, 2, 2.0, 6.0)


@pytest.mark.parametrize("seconds", [0, 0.001])
def test_an_interval_of_no_time_changes_nothing(seconds: float) -> None:
    traffic = Traffic(now=10.0)
    traffic.take(Announcement("$.A"), 10.0)
    traffic.end_interval(10.0 + seconds)
    assert traffic.names["$.A"].rate == 0.0
    traffic.end_interval(11.0)
    assert traffic.names["$.A"].rate == 1.0


def test_failures_count_with_the_name_of_the_request() -> None:
    traffic = Traffic(now=0.0)
    for serial in (1, 2, 3):
        traffic.take(request(serial), 1.0)
    traffic.take(answer(1, "$.KBUS.Replier.Failed"), 1.0)
    traffic.take(answer(2), 1.0)
    traffic.take(Status("$.KBUS.Replier.GoneAway", in_reply_to=MessageId(0, 3), id=MessageId(0, 4)), 1.0)
    counts = traffic.names["$.A"]
    assert (counts.answered, counts.failed) == (3, 1)


def test_latency_counts_with_the_name_of_the_request() -> None:
    traffic = Traffic(now=0.0)
    traffic.take(request(1), 1.0)
    traffic.take(request(2), 1.0)
    assert traffic.waiting() == [
        Waiting(MessageId(0, 1), "$.A", 4, 1.0),
        Waiting(MessageId(0, 2), "$.A", 4, 1.0),
    ]
    assert traffic.names["$.A"].latency is None
    traffic.take(answer(2), 1.5)
    status = Status("$.KBUS.Replier.GoneAway", in_reply_to=MessageId(0, 1), id=MessageId(0, 4))
    traffic.take(status, 4.0)
    counts = traffic.names["$.A"]
    assert (counts.answered, counts.latency, counts.longest) == (2, 1.75, 3.0)
    assert (traffic.waiting(), traffic.names["$.KBUS.Replier.GoneAway"].answered) == ([], 0)


def test_an_answer_to_what_has_not_been_seen() -> None:
    traffic = Traffic(now=0.0)
    traffic.take(answer(7), 1.0)
    assert (traffic.names["$.A"].messages, traffic.names["$.A"].answered) == (1, 0)


def test_a_serial_number_that_comes_again() -> None:
    traffic = Traffic(now=0.0)
    traffic.take(request(1), 1.0)
    traffic.take(request(2), 2.0)
    traffic.take(request(1), 3.0)
    assert [(each.id.serial_num, each.since) for each in traffic.waiting()] == [(2, 2.0), (1, 3.0)]


def test_requests_whose_sender_does_not_wait_any_more() -> None:
    """It has left, has abandoned them, or the answer was missed. A look tells nothing of what came later."""
    traffic = Traffic(now=0.0)
    traffic.take(request(1, sender=4), 1.0)
    traffic.take(request(2, sender=5), 1.0)
    traffic.take(request(3, sender=5), 2.0)
    traffic.forget_all_but({4}, before=2.0)
    assert [each.id.serial_num for each in traffic.waiting()] == [1, 3]


def test_clearing_leaves_who_waits() -> None:
    traffic = Traffic(now=0.0)
    traffic.take(request(1), 1.0)
    traffic.clear(2.0)
    assert (traffic.names, len(traffic.waiting())) == ({}, 1)
    traffic.take(answer(1), 3.0)
    traffic.end_interval(4.0)
    counts = traffic.names["$.A"]
    assert (counts.messages, counts.rate, counts.answered, counts.latency) == (1, 0.5, 1, 2.0)


def test_what_is_beyond_the_bounds_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_module, "MOST_NAMES", 2)
    monkeypatch.setattr(traffic_module, "MOST_WAITING", 1)
    traffic = Traffic(now=0.0)
    for name in ("$.A", "$.B", "$.C", "$.A", "$.C"):
        traffic.take(Announcement(name), 1.0)
    traffic.take(request(1), 1.0)
    traffic.take(request(2), 1.0)
    assert (list(traffic.names), traffic.other_names) == (["$.A", "$.B"], 2)
    assert (len(traffic.waiting()), traffic.not_followed) == (1, 1)


@given(
    st.lists(
        st.tuples(st.sampled_from(["$.A", "$.B", "$.C"]), st.binary(max_size=5), st.booleans()), max_size=30
    )
)
def test_the_sums_are_right(steps: list[tuple[str, bytes, bool]]) -> None:
    """Over all intervals, the rates are what came, wherever an interval ends."""
    traffic = Traffic(now=0.0)
    now, came, data = 0.0, 0.0, 0.0
    for name, content, ends in [*steps, ("$.A", b"", True)]:
        now += 0.5
        traffic.take(Announcement(name, content), now)
        if ends:
            began = traffic._interval_began
            traffic.end_interval(now)
            came += sum(each.rate for each in traffic.names.values()) * (now - began)
            data += sum(each.byte_rate for each in traffic.names.values()) * (now - began)
    assert came == pytest.approx(len(steps) + 1)
    assert data == pytest.approx(sum(len(content) for _, content, _ in steps))


def ksock(id: int, sent: int, received: int = 0, lost: int = 0) -> KsockStats:
    """A KSock that has done this, and nothing else."""
    numbers: dict[str, Any] = dict.fromkeys(KsockStats.__dataclass_fields__, 0)
    done = {"ksock_id": id, "pid": 100 + id, "sent": sent, "received": received, "lost": lost}
    return KsockStats(**{**numbers, **done})


def device(*ksocks: KsockStats) -> DeviceStats:
    numbers: dict[str, Any] = dict.fromkeys(DeviceStats.__dataclass_fields__, 0)
    return DeviceStats(**{**numbers, "ksocks": ksocks})


def test_rates_of_ksocks() -> None:
    rates = Rates(lambda pid: f"program{pid}")
    first, second = ksock(1, sent=100), ksock(1, sent=150, received=4, lost=1)
    assert rates.look(device(first), 10.0) == [KsockRates(first, "program101", 0.0, 0.0, 0.0)]
    new = ksock(2, sent=7)
    assert rates.look(device(second, new), 12.0) == [
        KsockRates(second, "program101", 25.0, 2.0, 0.5),
        KsockRates(new, "program102", 3.5, 0.0, 0.0),
    ]
    assert rates.look(device(), 13.0) == []
