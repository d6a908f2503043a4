# SPDX-License-Identifier: MIT
"""Which messages `kbus listen` shows."""

from __future__ import annotations

import argparse

import pytest

from kbus import Announcement, Message, MessageId, Reply, Request, Status
from kbus.cli.filters import Filter, add_filters, given_filter
from kbus.cli.peers import Opener

ID = MessageId(0, 7)
ANNOUNCEMENT = Announcement("$.A.B", from_=3)
REQUEST = Request("$.A.C", from_=4, flags=Message.URGENT)
REPLY = Reply("$.A.C", from_=3, to=4, in_reply_to=ID)
STATUS = Status("$.KBUS.Replier.Ignored", to=4, in_reply_to=ID)
EVERYTHING = [ANNOUNCEMENT, REQUEST, REPLY, STATUS]
PEERS = {3: Opener(100, "sensor"), 4: Opener(101, "python3"), 0: None}


def shown(*options: str) -> list[Message]:
    parser = argparse.ArgumentParser()
    add_filters(parser)
    chosen = given_filter(parser.parse_args(options))
    return [each for each in EVERYTHING if chosen.passes(each, PEERS[each.from_])]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], EVERYTHING),
        (["--kind", "announcement"], [ANNOUNCEMENT]),
        (["--kind", "request", "--kind", "status"], [REQUEST, STATUS]),
        (["--kind", "reply"], [REPLY]),
        (["--from", "3"], [ANNOUNCEMENT, REPLY]),
        (["--from", "0"], [STATUS]),
        (["--from", "python3", "--from", "0"], [REQUEST, STATUS]),
        (["--from", "nobody"], []),
        (["--flag", "urgent"], [REQUEST]),
        (["--flag", "urgent", "--flag", "all_or_wait"], []),
        (["--flag", "urgent", "--flag", "urgent", "--flag", "want_a_reply"], [REQUEST]),
        (["--no-flag", "synthetic", "--no-flag", "urgent"], [ANNOUNCEMENT, REPLY]),
        (["--except", "$.A.C"], [ANNOUNCEMENT, STATUS]),
        (["--except", "$.KBUS.*", "--except", "$.A.B"], [REQUEST, REPLY]),
        (["--from", "3", "--kind", "reply", "--except", "$.B"], [REPLY]),
    ],
)
def test_what_passes(options: list[str], expected: list[Message]) -> None:
    assert shown(*options) == expected


def test_nothing_given_is_no_filter() -> None:
    parser = argparse.ArgumentParser()
    add_filters(parser)
    assert given_filter(parser.parse_args([])) == Filter()


@pytest.mark.parametrize(("senders", "wanted"), [([], False), (["3"], False), (["3", "sensor"], True)])
def test_programs_are_asked_for_where_they_count(senders: list[str], wanted: bool) -> None:
    assert Filter(senders=frozenset(senders)).wants_peers == wanted
