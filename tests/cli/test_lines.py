# SPDX-License-Identifier: MIT
"""A message as a line and as a JSON object: what the docstring of kbus.cli.lines says."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus import Announcement, Message, MessageId, OrigFrom, Reply, Request, Status
from kbus.cli.lines import as_json, as_line
from kbus.terminal.times import CLOCKS, TimeStyle

ID = MessageId(0, 12)


def line(message: Message, always_hex: bool = False) -> str:
    """The line without what comes before KIND."""
    start = "(7.000000001) kbus3 [0:12] "
    whole = as_line(message, 3, "7.000000001", always_hex)
    assert whole.startswith(start)
    return whole[len(start) :]


def test_the_whole_line() -> None:
    message = Announcement("$.Sensors.Kitchen", "22.5", from_=3, id=MessageId(9, 12))
    assert as_line(message, 0, "1700000000.123456789") == (
        '(1700000000.123456789) kbus0 [9:12] A from 3 $.Sensors.Kitchen 4 "22.5"'
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Announcement("$.A", id=ID), "A from 0 $.A 0"),
        (Request("$.A", from_=4, id=ID), "Q from 4 $.A 0"),
        (Request("$.A", from_=4, to=6, id=ID), "Q from 4 to 6 $.A 0"),
        (
            Reply("$.A", "b", to=4, from_=6, in_reply_to=MessageId(1, 2), id=ID),
            'R from 6 to 4 re [1:2] $.A 1 "b"',
        ),
        (
            Status("$.KBUS.Replier.Ignored", to=4, in_reply_to=MessageId(0, 2), id=ID),
            "S from 0 to 4 re [0:2] $.KBUS.Replier.Ignored 0",
        ),
        (Status("$.KBUS.UnbindEventsLost", id=ID), "As from 0 $.KBUS.UnbindEventsLost 0"),
        (Announcement("$.A", orig_from=OrigFrom(5, 6), id=ID), "A from 0 origin [5:6] $.A 0"),
        (Announcement("$.A", final_to=OrigFrom(5, 6), id=ID), "A from 0 final [5:6] $.A 0"),
    ],
)
def test_kinds_and_addresses(message: Message, expected: str) -> None:
    assert line(message) == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (Message.URGENT, "Au"),
        (Message.ALL_OR_WAIT, "Aw"),
        (Message.ALL_OR_FAIL, "Af"),
        (Message.WANT_A_REPLY | Message.WANT_YOU_TO_REPLY, "Qy"),
        (Message.WANT_A_REPLY | Message.WANT_YOU_TO_REPLY | Message.URGENT | Message.ALL_OR_FAIL, "Qyuf"),
        (0x2A5C0000, "A:2a5c"),
        (Message.URGENT | 0x00010000, "Au:0001"),
    ],
)
def test_flags(flags: int, expected: str) -> None:
    assert line(Message("$.A", flags=flags, id=ID)) == f"{expected} from 0 $.A 0"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"22.5", '4 "22.5"'),
        (b"two\nlines\t\r", r'11 "two\nlines\t\r"'),
        (b'a "b" \\', r'7 "a \"b\" \\"'),
        ("grün".encode(), '5 "grün"'),
        (b"\x00\x01", "2 0001"),
        (b"\xff", "1 ff"),
        ("zero\u200bwidth".encode(), "12 7a65726fe2808b7769647468"),
    ],
)
def test_data(data: bytes, expected: str) -> None:
    assert line(Announcement("$.A", data, id=ID)) == f"A from 0 $.A {expected}"


def test_data_as_hex_on_demand() -> None:
    assert line(Announcement("$.A", "22.5", id=ID), always_hex=True) == "A from 0 $.A 4 32322e35"


@given(data=st.one_of(st.binary(min_size=1), st.text(min_size=1).map(str.encode)), always_hex=st.booleans())
def test_a_line_keeps_the_data_and_is_one_line(data: bytes, always_hex: bool) -> None:
    whole = as_line(Announcement("$.A", data, id=ID), 0, "0.000000000", always_hex)
    assert whole.splitlines() == [whole]
    length, shown = whole.partition(" $.A ")[2].split(" ", 1)
    assert int(length) == len(data)
    assert (json.loads(shown).encode() if shown.startswith('"') else bytes.fromhex(shown)) == data


@given(data=st.one_of(st.binary(), st.text().map(str.encode)), always_hex=st.booleans())
def test_json_keeps_the_data(data: bytes, always_hex: bool) -> None:
    record = json.loads(json.dumps(as_json(Announcement("$.A", data, id=ID), 0, 0, always_hex)))
    assert record["length"] == len(data)
    assert ("data" in record) != ("data_hex" in record)
    assert not (always_hex and "data" in record)
    assert (record["data"].encode() if "data" in record else bytes.fromhex(record["data_hex"])) == data


def test_json_has_everything() -> None:
    message = Message(
        "$.A.B",
        b"\xff",
        to=4,
        from_=6,
        orig_from=OrigFrom(5, 1),
        final_to=OrigFrom(8, 2),
        in_reply_to=MessageId(0, 2),
        flags=Message.URGENT | 0x00030000,
        id=ID,
    )
    assert json.loads(json.dumps(as_json(message, 7, 1700000000123456789))) == {
        "time_ns": 1700000000123456789,
        "device": 7,
        "id": [0, 12],
        "kind": "reply",
        "name": "$.A.B",
        "from": 6,
        "to": 4,
        "in_reply_to": [0, 2],
        "flags": ["URGENT"],
        "user_bits": 3,
        "orig_from": [5, 1],
        "final_to": [8, 2],
        "length": 1,
        "data_hex": "ff",
    }


def test_json_has_null_for_what_is_not_there() -> None:
    record = as_json(Announcement("$.A", id=ID), 0, 0)
    assert [name for name, value in record.items() if value is None] == [
        "in_reply_to",
        "orig_from",
        "final_to",
    ]
    assert record["data"] == ""


@pytest.mark.parametrize(
    ("message", "kind", "flags"),
    [
        (
            Request("$.A", flags=Message.WANT_YOU_TO_REPLY, id=ID),
            "request",
            ["WANT_A_REPLY", "WANT_YOU_TO_REPLY"],
        ),
        (Announcement("$.A", flags=Message.ALL_OR_WAIT, id=ID), "announcement", ["ALL_OR_WAIT"]),
        (Announcement("$.A", flags=Message.ALL_OR_FAIL, id=ID), "announcement", ["ALL_OR_FAIL"]),
        (Status("$.KBUS.Replier.Ignored", in_reply_to=ID, id=ID), "status", ["SYNTHETIC"]),
    ],
)
def test_json_kinds_and_flags(message: Message, kind: str, flags: list[str]) -> None:
    record = as_json(message, 0, 0)
    assert (record["kind"], record["flags"]) == (kind, flags)


TIMES = [5_000_000_001, 5_000_000_003, 6_500_000_000, 6_000_000_000]


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("abs", ["5.000000001", "5.000000003", "6.500000000", "6.000000000"]),
        ("zero", ["0.000000000", "0.000000002", "1.499999999", "0.999999999"]),
        ("delta", ["0.000000000", "0.000000002", "1.499999997", "-0.500000000"]),
    ],
)
def test_clocks(way: str, expected: list[str]) -> None:
    clock = TimeStyle(way)
    assert [clock.text(each) for each in TIMES] == expected


def test_clock_with_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert TimeStyle("date").text(1_700_000_000_123_456_789) == "2023-11-15 00:13:20.123456789"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_no_other_clock() -> None:
    assert CLOCKS == ("abs", "delta", "zero", "date")
    with pytest.raises(ValueError, match="'noon'"):
        TimeStyle("noon")
