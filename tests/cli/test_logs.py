# SPDX-License-Identifier: MIT
"""What `kbus listen` has written can be read back: one grammar for the screen and for files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus import Announcement, Message, MessageId
from kbus.cli.lines import as_line
from kbus.cli.logs import Logged, parse, read
from kbus.cli.peers import Opener
from kbus.terminal.times import TimeStyle
from tests.python.strategies import messages, u32

peers = st.none() | st.builds(Opener, st.integers(0, 2**31), st.text(max_size=15))
times = st.integers(-(2**63), 2**63)

LINE = '(1700000000.123456789) kbus0 [0:12] A from 3 $.A 4 "22.5"'


@given(message=messages, device=st.integers(0, 255), time_ns=times, peer=peers, always_hex=st.booleans())
def test_every_message_comes_back(
    message: Message, device: int, time_ns: int, peer: Opener | None, always_hex: bool
) -> None:
    line = as_line(message, device, TimeStyle("abs").text(time_ns), always_hex, peer)
    assert line.splitlines() == [line]
    assert parse(line) == Logged(time_ns, device, message, peer)


@given(text=st.text(min_size=1), network=u32, serial=u32)
def test_all_text_comes_back(text: str, network: int, serial: int) -> None:
    message = Message.from_message(Announcement("$.A", text, id=MessageId(network, serial)))
    assert parse(as_line(message, 0, "0.000000000")).message == message


def test_the_line_of_the_grammar() -> None:
    assert parse(LINE) == Logged(
        1_700_000_000_123_456_789, 0, Message("$.A", "22.5", from_=3, id=MessageId(0, 12)), None
    )


@pytest.mark.parametrize(("way", "expected"), [("abs", [5, 7]), ("zero", [0, 2]), ("delta", [0, 2])])
def test_times_are_those_that_were_shown(way: str, expected: list[int]) -> None:
    clock = TimeStyle(way)
    lines = [as_line(Message("$.A"), 0, clock.text(time_ns)) for time_ns in (5, 7)]
    assert [parse(line).time_ns for line in lines] == expected


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("", "not a line of `kbus listen`: ''"),
        ("nothing", "'nothing'"),
        (LINE.replace("A from", "X from"), "not a line"),
        (LINE.replace("$.A", "A"), "not a line"),
        (LINE.replace("kbus0", "kbus²"), "not a line"),
        (LINE + "\n", "not a line"),
        (LINE.replace("A from", "Ax from"), "the letter 'x' can not be among 'x'"),
        (LINE.replace("A from", "Auu from"), "the letter 'u' can not be among 'uu', or is there twice"),
        (LINE.replace("A from", "R from"), "kind R needs 're'"),
        (LINE.replace(" $.A", " re [0:3] $.A"), "kind A can not have 're'"),
        (LINE.replace("4 ", "5 "), "the data has 4 bytes, and the line says 5"),
        (LINE.replace('"22.5"', '"22.5'), "neither a JSON string nor pairs of hex digits"),
        (LINE.replace('"22.5"', "22.5"), "neither a JSON string nor pairs of hex digits"),
        (LINE.replace(' "22.5"', ""), "the data has 0 bytes, and the line says 4"),
        (
            LINE.replace("1700000000.123456789", "2023-11-15 00:13:20.123456789"),
            "not seconds with nine decimals",
        ),
        (LINE.replace(".123456789", ".123"), "not seconds with nine decimals"),
        (LINE.replace("from 3", "from 4294967296"), "not between 0 and 4294967295"),
        (LINE.replace("A from", "A:ffff from"), "bits 30 and 31"),
    ],
)
def test_lines_that_are_wrong(line: str, cause: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse(line)
    assert cause in str(refused.value)


def test_a_log_may_have_comments() -> None:
    log = ["# the kitchen, on Tuesday\n", "\n", LINE + "\n", LINE]
    assert [each.message.data for each in read(log, "kitchen.log")] == [b"22.5", b"22.5"]


def test_a_wrong_line_of_a_log_is_named() -> None:
    found = read([LINE + "\n", "(torn"], "kitchen.log")
    assert next(found).device == 0
    with pytest.raises(ValueError, match=r"^kitchen\.log:2: not a line of `kbus listen`: '\(torn'$"):
        next(found)
