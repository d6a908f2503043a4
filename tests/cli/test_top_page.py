# SPDX-License-Identifier: MIT
"""What `kbus top` shows, and what its keys do, without a terminal. test_top_vm.py has that."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbus import MessageId
from kbus.cli.top.page import HELP, Page, ScreenLine
from kbus.cli.top.rates import KsockRates
from kbus.cli.top.tables import Order
from kbus.cli.top.traffic import NameCounts, Waiting
from kbus.cli.top.views import VIEWS, Look, WaitingFor, amount, duration
from kbus.terminal.output import printable
from tests.cli.test_top_traffic import ksock

FAST = NameCounts("$.Fast", 500, 4000, 50.0, 400.0)
SLOW = NameCounts(
    "$.Slow", 3, 1_234_567, 0.5, 2_500_000.0, answered=2, failed=1, answer_time=0.5, longest=0.4
)


def look(**changed: object) -> Look:
    usual = Look(
        device=0,
        clock="12:34:56",
        messages=50.5,
        bytes=2_500_400.0,
        names=[SLOW, FAST],
        ksocks=[
            KsockRates(ksock(3, sent=9), "sensor", 1.0, 0.0, 0.0),
            KsockRates(ksock(4, sent=1, lost=7), "bad\nname", 0.5, 2.0, 0.1),
        ],
        waiting=[WaitingFor(Waiting(MessageId(0, 12), "$.Slow", 4, 3.0), 2.5, "panel")],
        unseen=0,
        lost=7,
        lost_here=0,
        not_followed=0,
    )
    return usual._replace(**changed)  # type: ignore[arg-type]


def page(*keys: str) -> Page:
    shown = Page()
    shown.update(look())
    shown.lines(100, 24)
    for key in keys:
        assert shown.press(key)
    return shown


def text(shown: Page, width: int = 100, height: int = 24) -> list[str]:
    return [line.text for line in shown.lines(width, height)]


def rows(shown: Page) -> list[str]:
    """The last word of each row of the table."""
    return [line.split()[-1] for line in text(shown)[3:]]


def test_names() -> None:
    assert page().lines(100, 24) == [
        ScreenLine("kbus0 12:34:56  50 messages/s, 2.5M bytes/s  2 KSocks  1 waiting  7 lost"),
        ScreenLine("names: 1-2 of 2  h help, q quit"),
        ScreenLine("RATEv  BYTES/S  MSGS  BYTES  ANSWERED  FAILED  LATENCY  LONGEST  NAME", stands_out=True),
        ScreenLine("   50      400   500   4.0K         0       0        -        -  $.Fast"),
        ScreenLine("  0.5     2.5M     3   1.2M         2       1    250ms    400ms  $.Slow"),
    ]


def test_ksocks() -> None:
    assert text(page("k"))[1:] == [
        "ksocks: 1-2 of 2  h help, q quit",
        "KSOCK  PID  QUEUEDv  LIMIT  MOST  BYTES  SENT/S  READ/S  LOST  LOST/S  AWAITS  OWES  COMMAND",
        "    3  103        0      0     0      0       1       0     0       0       0     0  sensor",
        "    4  104        0      0     0      0     0.5       2     7     0.1       0     0  bad\\nname",
    ]


def test_waiting() -> None:
    assert text(page("w"))[1:] == [
        "waiting requests: 1-1 of 1  h help, q quit",
        "WAITSv  ID      FROM  COMMAND  NAME",
        "  2.5s  [0:12]     4  panel    $.Slow",
    ]


def test_what_it_does_not_know_is_said() -> None:
    shown = Page()
    shown.update(look(unseen=2, lost=7, lost_here=5, not_followed=3))
    assert text(shown, 200)[0].endswith("  3 waiting (2 unseen)  7 lost (5 here)  3 not followed")


def test_before_anything_is_known() -> None:
    assert text(Page()) == ["looking ..."]


@pytest.mark.parametrize(
    ("keys", "view"),
    [("", 0), ("k", 1), ("w", 2), ("wn", 0), ("\t", 1), ("\t\t", 2), ("\t\t\t", 0), ("kk", 1)],
)
def test_views(keys: str, view: int) -> None:
    assert page(*keys).view == view


@pytest.mark.parametrize(
    ("keys", "order", "first"),
    [
        ([], Order(0, True), "$.Fast"),
        (["r"], Order(0, False), "$.Slow"),
        (["r", "r"], Order(0, True), "$.Fast"),
        ([">"], Order(1, True), "$.Slow"),
        (["KEY_RIGHT", "KEY_RIGHT"], Order(2, True), "$.Fast"),
        (["<"], Order(8, False), "$.Fast"),
        (["KEY_LEFT", "r"], Order(8, True), "$.Slow"),
        ([">"] * 9, Order(0, True), "$.Fast"),
        # What is not known comes last, in both directions.
        ([">"] * 6, Order(6, True), "$.Slow"),
        ([">"] * 6 + ["r"], Order(6, False), "$.Slow"),
    ],
)
def test_sorting(keys: list[str], order: Order, first: str) -> None:
    shown = page(*keys)
    assert (shown.orders[0], rows(shown)[0]) == (order, first)


def test_each_view_has_an_order_of_its_own() -> None:
    assert page(">", "k", "r", "n").orders == [Order(1, True), Order(2, False), Order(0, True)]


def test_the_column_that_sorts_is_marked() -> None:
    assert "  NAME^" in text(page("<"))[2]
    assert "  BYTES/Sv" in text(page(">"))[2]


def test_filtering() -> None:
    shown = page("/", "S", "l")
    assert (rows(shown), text(shown)[1]) == (["$.Slow"], "names: 1-1 of 1  /Sl_")
    assert shown.press("KEY_BACKSPACE")
    assert rows(shown) == ["$.Fast", "$.Slow"]
    for key in "LOW\n":
        shown.press(key)
    assert (rows(shown), text(shown)[1]) == (["$.Slow"], 'names: 1-1 of 1  only "SLOW"  h help, q quit')
    shown.press("\x1b")
    assert rows(shown) == ["$.Fast", "$.Slow"]


def test_keys_are_text_while_one_types() -> None:
    shown = page("/", "q", "k", "KEY_DOWN")
    assert (shown.view, shown.wanted) == (0, "qk")
    assert text(shown)[1] == "names: none  /qk_"
    shown.press("\x1b")
    assert (shown.wanted, shown.view) == ("", 0)


def test_pause() -> None:
    shown = page("p")
    shown.update(look(clock="12:34:57"))
    assert "12:34:56" in text(shown)[0]
    assert text(shown)[1] == "names: 1-2 of 2  paused  h help, q quit"
    shown.press("p")
    shown.update(look(clock="12:34:58"))
    assert "12:34:58" in text(shown)[0]


def test_help_tells_every_key_and_any_key_goes_back() -> None:
    shown = page("h")
    assert text(shown, 80) == HELP.splitlines()
    assert shown.press("q")
    assert text(shown)[1].startswith("names")
    assert not shown.press("q")


def test_clear_is_asked_for() -> None:
    assert not page().wants_clear
    assert page("c").wants_clear


def test_help_fits_a_small_terminal() -> None:
    lines = HELP.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24


def many() -> Page:
    shown = Page()
    shown.update(look(names=[NameCounts(f"$.N{number}", rate=100.0 - number) for number in range(50)]))
    shown.lines(100, 13)
    return shown


def test_moving() -> None:
    shown = many()
    places = []
    for key in (
        "",
        "KEY_DOWN",
        "KEY_NPAGE",
        "KEY_UP",
        "KEY_END",
        "KEY_DOWN",
        "KEY_PPAGE",
        "KEY_HOME",
        "KEY_UP",
    ):
        if key:
            shown.press(key)
        places.append(text(shown, 100, 13)[1].split("  ")[0].removeprefix("names: "))
    assert places == [
        *("1-10 of 50", "2-11 of 50", "12-21 of 50", "11-20 of 50", "41-50 of 50"),
        *("41-50 of 50", "31-40 of 50", "1-10 of 50", "1-10 of 50"),
    ]


def test_the_place_stays_where_there_are_rows() -> None:
    shown = many()
    shown.press("KEY_END")
    shown.lines(100, 13)
    shown.update(look())
    assert rows(shown) == ["$.Fast", "$.Slow"]


KEYS = st.sampled_from(
    [
        *"nkw<>r/pch?x\t\n\x1b",
        "KEY_UP",
        "KEY_DOWN",
        "KEY_PPAGE",
        "KEY_NPAGE",
        "KEY_HOME",
        "KEY_END",
        "KEY_F(1)",
    ]
)


@settings(deadline=None)
@given(keys=st.lists(KEYS, max_size=20), width=st.integers(0, 120), height=st.integers(0, 30))
def test_it_fits_every_screen(keys: list[str], width: int, height: int) -> None:
    shown = many()
    for key in keys:
        assert shown.press(key)
        lines = shown.lines(width, height)
        assert len(lines) <= height
        assert all(len(line.text) <= width and line.text.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        *((0, "0"), (0.04, "0.0"), (1.25, "1.2"), (5, "5"), (42.4, "42"), (999, "999"), (999.6, "1.0K")),
        *(
            (1000, "1.0K"),
            (9949, "9.9K"),
            (9950, "10K"),
            (999_400, "999K"),
            (999_500, "1.0M"),
            (2.5e9, "2.5G"),
        ),
    ],
)
def test_amounts(number: float, expected: str) -> None:
    assert amount(number) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0us"),
        (1.5e-6, "1.5us"),
        (999e-6, "999us"),
        (0.0012345, "1.23ms"),
        (1, "1s"),
        (61.26, "61.3s"),
        (4321, "4321s"),
    ],
)
def test_durations(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def test_all_views_sort_by_all_columns() -> None:
    for view, table in enumerate(VIEWS):
        for column in range(len(table.columns)):
            shown = table.lines(look().rows(view), table.order_by(column))
            assert len(shown.rows) == len(look().rows(view))


WIDTHS = [50, 80, 200]
#: Some that are longer than a line, and the same but for a letter in the beginning, the middle or the end
ALIKE = [
    *("$.A", "$.Long." + "x" * 100, "$.Long." + "x" * 99 + "y", "$.Lang." + "x" * 100),
    *("$." + "x" * 998, "$." + "x" * 500 + "y" + "x" * 497),
]


def column(shown: Page, head: str, width: int) -> list[str]:
    """What stands below a head, the lines of each row together; a row has text in the first column."""
    lines = text(shown, width, 1000)
    assert all(len(line) <= width for line in lines)
    begin = lines[2].index(head)
    following = lines[2][begin:].split("  ", 1)
    end = (
        begin + len(following[0]) + len(following[1]) - len(following[1].lstrip()) if following[1:] else None
    )
    found: list[str] = []
    for line in lines[3:]:
        if line[:5].strip():
            found.append("")
        found[-1] += line[begin:end].rstrip()
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_names_are_whole_in_every_width(width: int) -> None:
    shown = Page()
    shown.update(look(names=[NameCounts(name, rate=1.0) for name in ALIKE]))
    assert column(shown, "NAME", width) == ALIKE
    (whole,) = (line for line in text(shown, width, 1000) if line.endswith("$.A"))
    assert whole.split()[0] == "1"


@pytest.mark.parametrize("width", WIDTHS)
def test_commands_are_whole_in_every_width(width: int) -> None:
    commands = ["exactly-fifteen", "exactly-fiftee2", "\x1b" * 15, "\x1b" * 14 + "\x1c"]
    shown = Page()
    rates = [KsockRates(ksock(10 + n, sent=0), command, 1.0, 0.0, 0.0) for n, command in enumerate(commands)]
    waiting = [
        WaitingFor(Waiting(MessageId(0, 12), name, 4, 3.0), 2.5, command)
        for command in commands
        for name in ALIKE
    ]
    shown.update(look(ksocks=rates, waiting=waiting))
    shown.press("k")
    assert column(shown, "COMMAND", width) == [printable(command) for command in commands]
    shown.press("w")
    # Each has a name that ends its lines, so lines are not as wide as the columns.
    lines = text(shown, width, 10_000)
    assert all(len(line) <= width for line in lines)
    begin = lines[2].index("NAME")
    assert "".join(line[begin:] for line in lines[3:]) == "".join(each.request.name for each in waiting)


def test_what_there_is_no_room_for_is_said() -> None:
    assert text(page(), 50) == [
        "kbus0 12:34:56  50 messages/s, 2.5M bytes/s  2 KSo",
        "names: 1-2 of 2  h help, q quit  3 columns hidden",
        "RATEv  BYTES/S  MSGS  FAILED  LATENCY  NAME",
        "   50      400   500       0        -  $.Fast",
        "  0.5     2.5M     3       1    250ms  $.Slow",
    ]
    assert text(page("k"), 80)[1] == "ksocks: 1-2 of 2  h help, q quit  3 columns hidden"


def test_the_column_that_sorts_is_never_left_out() -> None:
    for number, name in enumerate(
        ("RATE", "BYTES/S", "MSGS", "BYTES", "ANSWERED", "FAILED", "LATENCY", "LONGEST")
    ):
        head = text(page(*">" * number), 50)[2]
        assert f"{name}v" in head.split()


def test_moving_among_rows_of_several_lines() -> None:
    """Each is seen on its way, and none is left half below the screen but one that is higher than that."""
    names = [f"$.N{number}." + "x" * (13 * number) for number in range(40)]
    shown = Page()
    shown.update(look(names=[NameCounts(name, rate=100.0 - number) for number, name in enumerate(names)]))
    seen: list[str] = []
    for _ in range(100):
        lines = text(shown, 50, 12)
        assert len(lines) <= 12
        begin = lines[2].index("NAME")
        found = [line[begin:] for line in lines[3:] if line[:5].strip()]
        if found and found[-1] in seen:
            break
        seen += [each for each in found if each not in seen]
        shown.press("KEY_NPAGE")
    assert [each.split(".")[1] for each in seen] == [f"N{number}" for number in range(40)]
    shown.press("KEY_END")
    assert text(shown, 50, 12)[1].startswith("names: 40-40 of 40")
