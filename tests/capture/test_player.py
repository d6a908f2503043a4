# SPDX-License-Identifier: MIT
"""What of a recording is sent again, as what, and when."""

from __future__ import annotations

import pytest
from hypothesis import given

from kbus import Message, MessageId, OrigFrom, Reply, Request, Status
from kbus._failed import FAILED
from kbus.capture import Facts, Record, Section
from kbus.capture.player import Casting, timed
from tests.python import strategies

from .captures import INFO, START


def record(mono_ns: int, time_ns: int = START, **info: object) -> Record:
    """A record of a section with this information."""
    section = Section("<", 0, {**INFO, **info})
    return Record(time_ns, Message("$.A"), Facts(1, mono_ns, 0, 0, 0, section))


def test_time_is_that_of_the_clock_that_nobody_sets() -> None:
    second = 1_000_000_000
    records = [
        record(50 * second),
        record(51 * second, START - 3600 * second),
        record(53 * second, START + 7 * second),
    ]
    assert [seconds for seconds, _ in timed(records)] == [0.0, 1.0, 3.0]


def test_from_boot_to_boot_time_is_the_wall_clocks() -> None:
    second = 1_000_000_000
    records = [
        record(500 * second, START),
        record(20 * second, START + 30 * second, boot_id="another"),
        record(10 * second, START - 5 * second, boot_id="a third"),
        record(12 * second, START, boot_id="a third"),
    ]
    assert [seconds for seconds, _ in timed(records)] == [0.0, 30.0, 30.0, 32.0]


def test_without_a_known_boot_time_is_the_wall_clocks() -> None:
    second = 1_000_000_000
    for info in ({"boot_id": None}, {"device": None, "boot_id": None}):
        records = [record(500 * second, START, **info), record(20 * second, START + 3 * second, **info)]
        assert [seconds for seconds, _ in timed(records)] == [0.0, 3.0]


@given(message=strategies.messages)
def test_what_is_announced_says_the_same(message: Message) -> None:
    cast = Casting().cast(message)
    if message.is_synthetic():
        assert cast is None
        return
    assert cast is not None
    assert (cast.name, cast.data) == (message.name, message.data)
    assert (cast.orig_from, cast.final_to) == (message.orig_from, message.final_to)
    assert not cast.is_request() and not cast.is_reply() and not cast.wants_us_to_reply()
    assert cast.is_urgent() == message.is_urgent()
    assert cast.to == cast.from_ == 0


def test_requests_as_requests() -> None:
    casting = Casting(requests=True)
    request = casting.cast(Request("$.A", "x", to=7, flags=Message.WANT_YOU_TO_REPLY | Message.URGENT))
    assert request == Request("$.A", "x", flags=Message.URGENT)
    assert casting.cast(Reply("$.A", in_reply_to=MessageId(0, 3))) is None
    assert casting.cast(Status("$.KBUS.Replier.Ignored", in_reply_to=MessageId(0, 3))) is None


@pytest.mark.parametrize("name", [FAILED, "$.KBUS.MessagesLost"])
def test_what_only_an_answer_may_be_called_is_not_announced(name: str) -> None:
    """Programs may call replies so, and nothing else."""
    reply = Reply(name, "Kind\ntext", in_reply_to=MessageId(0, 3))
    assert Casting().cast(reply) is None
    elsewhere = Casting(names={"$.KBUS": "$.Test"}).cast(reply)
    assert elsewhere is not None and elsewhere.name == name.replace("KBUS", "Test")


def test_ids_of_other_networks_stay() -> None:
    sent = Casting().cast(Message("$.A", id=MessageId(5, 6), orig_from=OrigFrom(5, 1)))
    assert sent is not None and sent.id == MessageId(5, 6)
    local = Casting().cast(Message("$.A", id=MessageId(0, 6)))
    assert local is not None and local.id is None


def test_names_are_mapped_by_whole_words_the_longest_first() -> None:
    casting = Casting(names={"$.A": "$.Test.A", "$.A.B": "$.Other"})
    pairs = {"$.A": "$.Test.A", "$.A.C": "$.Test.A.C", "$.AB": "$.AB", "$.A.B.C": "$.Other.C", "$.B": "$.B"}
    for name, expected in pairs.items():
        sent = casting.cast(Message(name))
        assert sent is not None and sent.name == expected
