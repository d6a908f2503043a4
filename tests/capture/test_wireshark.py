# SPDX-License-Identifier: MIT
"""The dissector, by tshark, on files of the recorder's writer. Source: pipeline, 'Capture files'."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import unicodedata
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kbus import Announcement, Data, Message, MessageId, OrigFrom, Reply, Request, Status
from kbus import _abi as abi
from kbus.capture import Frame, Writer, frame, pcapng
from kbus.capture.header import recording_of
from kbus.cli.lines import as_line
from kbus.terminal.output import printable
from tests.capture.captures import INFO, START, as_recorded, capture, read
from tests.capture.tshark import fields, tshark
from tests.python.strategies import messages

ORDERS = pytest.mark.parametrize("order", [pcapng.LITTLE, pcapng.BIG], ids=["little", "big"])
GONE, NO_ROOM = "$.KBUS.Replier.GoneAway", "$.KBUS.Replier.NoRoom"

BOOLEANS = {
    "want_a_reply": Message.WANT_A_REPLY,
    "want_you_to_reply": Message.WANT_YOU_TO_REPLY,
    "synthetic": Message.SYNTHETIC,
    "urgent": Message.URGENT,
    "all_or_wait": Message.ALL_OR_WAIT,
    "all_or_fail": Message.ALL_OR_FAIL,
    "extended": Message.EXTENDED,
}


def number(serial: int) -> MessageId:
    return MessageId(0, serial)


def asked_and_answered() -> list[Message]:
    """Two requests at the same time and their answers, one that KBUS answers, one that nobody does."""
    return [
        Request("$.A", from_=4, id=number(1)),
        Request("$.A", from_=5, id=number(2)),
        Reply("$.A", to=5, from_=3, in_reply_to=number(2), id=number(3)),
        Reply("$.A", to=4, from_=3, in_reply_to=number(1), id=number(4)),
        Request("$.A", from_=4, id=number(5)),
        Status(GONE, to=4, from_=3, in_reply_to=number(5), id=number(6)),
        Request("$.A", from_=4, id=number(7)),
        Reply("$.A", to=4, from_=3, in_reply_to=number(99), id=number(8)),
        Request("$.A", from_=4, id=number(9)),
        Status(NO_ROOM, to=4, from_=3, in_reply_to=number(9), id=number(10)),
    ]


def expected(message: Message, order: str) -> dict[str, str]:
    """What the fields of the message must be."""
    raw = message.to_bytes()
    data = message.data or b""
    id = message.id or MessageId(0, 0)
    answered = message.in_reply_to or MessageId(0, 0)
    flags = message.flags | (-len(data) % 4) << abi.DATA_PAD_SHIFT
    extended = bool(message.flags & Message.EXTENDED)

    def end_point(pair: OrigFrom | None) -> tuple[str, str]:
        whole = pair or OrigFrom(0, 0)
        return (str(whole.network_id), str(whole.local_id)) if extended else ("", "")

    origin, final = end_point(message.orig_from), end_point(message.final_to)
    return {
        "frame.len": str(frame.LENGTH + len(raw)),
        "kbus.start_guard": "0x7375626b",
        "kbus.id.network": str(id.network_id),
        "kbus.id.serial": str(id.serial_num),
        "kbus.in_reply_to.network": str(answered.network_id),
        "kbus.in_reply_to.serial": str(answered.serial_num),
        "kbus.to": str(message.to),
        "kbus.from": str(message.from_),
        "kbus.flags": f"0x{flags:08x}",
        **{f"kbus.flags.{name}": str(int(bool(flags & bit))) for name, bit in BOOLEANS.items()},
        "kbus.flags.user": f"0x{(flags & abi.BITS_USER) >> 16:08x}",
        "kbus.flags.data_pad": str(flags >> abi.DATA_PAD_SHIFT),
        "kbus.name_len": str(len(message.name)),
        "kbus.data_len": str((len(data) + 3) // 4),
        "kbus.orig_from.network": origin[0],
        "kbus.orig_from.local": origin[1],
        "kbus.final_to.network": final[0],
        "kbus.final_to.local": final[1],
        "kbus.name": message.name,
        "kbus.data": data.hex(),
        "kbus.end_guard": "0x6b627573",
    }


@ORDERS
@settings(
    max_examples=2,
    # To look for a smaller example would start tshark hundreds of times.
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(sent=st.lists(messages, min_size=60, max_size=90))
def test_every_field_of_any_message(order: str, sent: list[Message], tmp_path: Path) -> None:
    file = tmp_path / "any.pcapng"
    file.write_bytes(capture(sent, order))
    names = list(expected(sent[0], order))
    assert fields(file, *names) == [expected(message, order) for message in sent]


@ORDERS
def test_the_frame_header(order: str, tmp_path: Path) -> None:
    file = tmp_path / "frames.pcapng"
    sent: list[Message] = [Announcement("$.A", id=number(1)), Announcement("$.A", id=number(2))]
    with file.open("wb") as opened:
        writer = Writer(opened, INFO, [0], order)
        # 2^53 and more nanoseconds are more than a double can tell apart.
        facts = [Frame(2**40 + 7, 10_000_000_123_456_789, 3), Frame(2**64 - 1, 10_000_000_123_456_791, 5)]
        for said, message in zip(facts, sent):
            writer.write(0, START, said, [as_recorded(message, order)])
    origin = ["0", f"0x{recording_of(INFO):08x}"]
    assert [list(row.values()) for row in fields(
        file,
        "kbus.frame.version",
        "kbus.frame.header_len",
        "kbus.frame.crc.status",
        "kbus.frame.sequence",
        "kbus.frame.monotonic",
        "kbus.frame.lost",
        "kbus.frame.bus",
        "kbus.frame.recording",
        "kbus.frame.lost_here",
        "_ws.expert.message",
    )] == [
        ["1", "40", "good", str(2**40 + 7), "10000000.123456789", "3", *origin, "", ""],
        [
            *("1", "40", "good", str(2**64 - 1), "10000000.123456791", "5", *origin, "2"),
            "2 messages were lost since the packet before",
        ],
    ]  # fmt: skip


LINKS = ("kbus.kind", "kbus.answer_in", "kbus.answer_to", "kbus.response_time", "_ws.expert.message")


@ORDERS
def test_requests_and_answers_are_linked(order: str, tmp_path: Path) -> None:
    file = tmp_path / "links.pcapng"
    file.write_bytes(capture(asked_and_answered(), order))
    linked = [
        ["request", "4", "", "", ""],
        ["request", "3", "", "", ""],
        ["reply", "", "2", "0.000001000", ""],
        ["reply", "", "1", "0.000003000", ""],
        ["request", "6", "", "", ""],
        ["status", "", "5", "0.000001000", f"{GONE}: KBUS answers for a replier who did not"],
        ["request", "", "", "", "The answer is not in this file"],
        ["reply", "", "", "", "The request is not in this file"],
        ["request", "10", "", "", ""],
        ["status", "", "9", "0.000001000", f"{NO_ROOM}: the requester had no room for the answer"],
    ]
    assert [list(row.values()) for row in fields(file, *LINKS)] == linked
    # Two passes are needed to know what comes later, but not more.
    assert [list(row.values()) for row in fields(file, *LINKS, options=("-2",))] == linked
    backwards = [[kind, "", to, time, text] for kind, _, to, time, text in linked]
    backwards[6][4] = ""
    assert [list(row.values()) for row in fields(file, *LINKS, options=())] == backwards


def test_devices_are_kept_apart(tmp_path: Path) -> None:
    """On two devices everything has the same ids."""
    file = tmp_path / "two.pcapng"
    asked = Request("$.A", from_=4, id=number(1))
    answer = Reply("$.A", to=4, from_=3, in_reply_to=number(1), id=number(2))
    file.write_bytes(capture([asked, asked, answer, answer], buses=(0, 1)))
    rows = fields(file, "frame.interface_name", *LINKS[1:4])
    assert [list(row.values()) for row in rows] == [
        ["kbus0", "3", "", ""],
        ["kbus1", "4", "", ""],
        ["kbus0", "", "1", "0.000002000"],
        ["kbus1", "", "2", "0.000002000"],
    ]


def test_ids_that_come_again(tmp_path: Path) -> None:
    """Serial numbers wrap, and begin again with the module: an answer is to the latest request."""
    file = tmp_path / "again.pcapng"
    asked = Request("$.A", from_=4, id=number(1))
    answer = Reply("$.A", to=4, from_=3, in_reply_to=number(1), id=number(2))
    file.write_bytes(capture([asked, answer, asked, answer]))
    assert [row["kbus.answer_to"] for row in fields(file, "kbus.answer_to")] == ["", "1", "", "3"]


def recorded(*, first: int, mono_ns: int, lost: int, answers: bool) -> bytes:
    """A file of a recorder: a request of id 1, or its answer, and how many messages had been lost by then."""
    file = io.BytesIO()
    writer = Writer(file, INFO, [0])
    asked = Request("$.A", from_=4, id=number(1))
    answer = Reply("$.A", to=4, from_=3, in_reply_to=number(1), id=number(2))
    writer.write(0, START, Frame(first, mono_ns, lost), [(answer if answers else asked).to_bytes()])
    return file.getvalue()


@pytest.mark.parametrize("options", [("-2", "-R", "kbus"), ("-2",), ()], ids=["two passes", "-2", "one pass"])
@pytest.mark.parametrize(
    ("second", "is_the_same"),
    [
        ({"first": 8, "mono_ns": 10_000_001_000, "lost": 55}, True),
        ({"first": 1, "mono_ns": 2_000_000_000, "lost": 55}, False),
        ({"first": 8, "mono_ns": 2_000_000_000, "lost": 55}, False),
    ],
    ids=["next file", "other boot", "other boot that counts on"],
)
def test_recordings_one_after_the_other(
    second: dict[str, int], is_the_same: bool, options: tuple[str, ...], tmp_path: Path
) -> None:
    """A recorder's next file goes on with the one before; another recording has other numbers and clocks."""
    file = tmp_path / "both.pcapng"
    begin = recorded(first=7, mono_ns=10_000_000_000, lost=5, answers=False)
    file.write_bytes(begin + recorded(**second, answers=True))
    rows = fields(
        file,
        "kbus.frame.lost_here",
        "kbus.answer_to",
        "kbus.response_time",
        "kbus.answer_in",
        options=options,
    )
    linked = ["50", "1", "0.000001000", ""] if is_the_same else ["", "", "", ""]
    assert list(rows[1].values()) == linked
    assert rows[0]["kbus.answer_in"] == ("2" if is_the_same and options else "")


def test_a_new_recording_after_a_gap_in_the_numbers(tmp_path: Path) -> None:
    """Its numbers and its clock may be greater by chance, and its ids are the same."""
    file = tmp_path / "gap.pcapng"
    file.write_bytes(
        recorded(first=7, mono_ns=10, lost=5, answers=False)
        + recorded(first=9, mono_ns=20, lost=55, answers=True)
    )
    (_, row) = fields(file, "kbus.frame.lost_here", "kbus.answer_to")
    assert list(row.values()) == ["", ""]


def test_recordings_in_one_section(tmp_path: Path) -> None:
    """mergecap -a leaves one section, and one interface for all that are alike."""
    paths = [tmp_path / "a.pcapng", tmp_path / "b.pcapng"]
    paths[0].write_bytes(recorded(first=7, mono_ns=10_000_000_000, lost=5, answers=False))
    paths[1].write_bytes(recorded(first=1, mono_ns=20_000_000_000, lost=55, answers=True))
    merged = tmp_path / "m.pcapng"
    subprocess.run(["mergecap", "-a", "-w", merged, *paths], check=True)
    (_, row) = fields(merged, "kbus.frame.lost_here", "kbus.answer_to")
    assert list(row.values()) == ["", ""]


def test_an_answer_is_to_who_asked(tmp_path: Path) -> None:
    file = tmp_path / "other.pcapng"
    file.write_bytes(
        capture(
            [
                Request("$.A", from_=4, id=number(1)),
                Reply("$.A", to=5, from_=3, in_reply_to=number(1), id=number(2)),
            ]
        )
    )
    assert [row["kbus.answer_to"] for row in fields(file, "kbus.answer_to")] == ["", ""]


def test_the_columns_show_what_listen_shows(tmp_path: Path) -> None:
    sent: list[Message] = [
        Announcement("$.A", 'grün "x" \\\n', from_=3, id=number(1)),
        Announcement("$.A", b"\x00\xff", from_=3, id=MessageId(0xFFFFFFFF, 0xFFFFFFFF)),
        Announcement("$.A", b"\xc2\x80", from_=0xFFFFFFFF, orig_from=OrigFrom(1, 2), id=number(1)),
        Announcement("$.A", b"\xed\xa0\x80", final_to=OrigFrom(0, 0xFFFFFFFF), id=number(1)),
        Announcement("$.A", "☃🙂", id=number(1)),
        Announcement("$.A", "zero\u200bwidth", id=number(1)),
        Announcement("$.A", "\u202eright to left\u2069", id=number(1)),
        Announcement("$.A", b"\xf4\x90\x80\x80", id=number(1)),
        Announcement("$.A", b"\xe0\x9f\xbf", id=number(1)),
        Announcement("$.A", b"\xc3", id=number(1)),
        Request("$.A", to=7, flags=Message.WANT_YOU_TO_REPLY | Message.URGENT | 0x2A5C0000, id=number(1)),
        Announcement("$.A", flags=Message.ALL_OR_WAIT, id=number(1)),
        Announcement("$.A", flags=Message.ALL_OR_FAIL, id=number(1)),
        Reply("$.A", to=4, from_=3, in_reply_to=number(9), id=number(1)),
        Status(GONE, to=4, from_=3, in_reply_to=number(5), id=number(6)),
        Status("$.KBUS.UnbindEventsLost", id=number(6)),
    ]
    file = tmp_path / "lines.pcapng"
    file.write_bytes(capture(sent))
    found = tshark(file, "-T", "fields", "-e", "_ws.col.Info").splitlines()
    assert found == [as_line(message, 0, "").removeprefix("() kbus0 ") for message in sent]


def test_text_is_what_python_calls_printable(tmp_path: Path) -> None:
    """Of what Unicode has assigned, a sample of what is printable, and nearly all that is not."""
    kinds = ("Cc", "Cf", "Zs", "Zl", "Zp")
    codes = [code for code in range(0x20000) if unicodedata.category(chr(code)) in kinds]
    codes += [
        code for code in range(0x20, 0x30000, 61) if unicodedata.category(chr(code)) not in ("Cn", "Cs")
    ]
    sent: list[Message] = [Announcement("$.A", chr(code), id=number(1)) for code in codes]
    file = tmp_path / "all.pcapng"
    file.write_bytes(capture(sent))
    found = tshark(file, "-T", "fields", "-e", "_ws.col.Info").splitlines()
    assert found == [as_line(message, 0, "").removeprefix("() kbus0 ") for message in sent]


@pytest.mark.parametrize(
    "form", [(), ("-V",), ("-T", "fields", "-e", "kbus.name"), ("-T", "json"), ("-T", "pdml")]
)
def test_no_name_does_anything_to_the_terminal(form: tuple[str, ...], tmp_path: Path) -> None:
    hostile = "$.A\x1b[2J\n\x7f\x9b\u202eü"
    wrong = Announcement("$.A")
    wrong.name = hostile
    bound = struct.pack("=3I", 1, 9, len(hostile.encode())) + hostile.encode()
    file = tmp_path / "hostile.pcapng"
    file.write_bytes(capture([wrong, Status(abi.NAME_REPLIER_BIND_EVENT, bound)]))
    printed = tshark(file, *form)
    assert all(line.expandtabs().isprintable() for line in printed.split("\n"))
    assert printable(hostile) in printed.replace("\\\\", "\\")


def test_long_data_is_cut_between_characters(tmp_path: Path) -> None:
    sent: list[Message] = [
        Announcement("$.A", b"\xff" * 101, id=number(1)),
        Announcement("$.A", "x" + "ü" * 60, id=number(1)),
    ]
    file = tmp_path / "long.pcapng"
    file.write_bytes(capture(sent))
    assert [row["_ws.col.Info"].split()[-1] for row in fields(file, "_ws.col.Info")] == [
        "ff" * 100 + "...",
        '"x' + "ü" * 49 + '"...',
    ]


@ORDERS
def test_events_are_taken_apart(order: str, tmp_path: Path) -> None:
    bound = struct.pack(order + "3I", 1, 9, 6) + b"$.Lamp\0\0"
    sent: list[Message] = [
        Status(abi.NAME_MESSAGES_LOST, struct.pack(order + "I", 3), to=4, id=number(1)),
        Status(abi.NAME_REPLIER_BIND_EVENT, bound, id=number(2)),
        Status(abi.NAME_UNBIND_EVENTS_LOST, id=number(3)),
        # Nobody but KBUS sends these, but a file may have anything.
        Status(abi.NAME_REPLIER_BIND_EVENT, b"short", id=number(4)),
        Status(abi.NAME_MESSAGES_LOST, id=number(5)),
    ]
    file = tmp_path / "events.pcapng"
    file.write_bytes(capture(sent, order))
    names = ("lost", "is_bind", "binder", "name_len", "name")
    rows = fields(file, *(f"kbus.event.{name}" for name in names), "_ws.expert.message")
    assert [list(row.values()) for row in rows] == [
        ["3", "", "", "", "", "The listener lost 3 messages"],
        ["", "1", "9", "6", "$.Lamp", ""],
        ["", "", "", "", "", "The listener lost events of unbinding"],
        ["", "", "", "", "", ""],
        ["", "", "", "", "", ""],
    ]


@ORDERS
def test_a_reply_that_looks_like_an_event_is_none(order: str, tmp_path: Path) -> None:
    """A replier may give its reply any name."""
    bound = struct.pack(order + "3I", 1, 9, 6) + b"$.Lamp\0\0"
    sent: list[Message] = [
        Reply(name, data, to=4, from_=3, in_reply_to=number(1), id=number(2))
        for name, data in (
            (abi.NAME_MESSAGES_LOST, struct.pack(order + "I", 3)),
            (abi.NAME_REPLIER_BIND_EVENT, bound),
            (abi.NAME_UNBIND_EVENTS_LOST, b""),
        )
    ]
    file = tmp_path / "replies.pcapng"
    file.write_bytes(capture(sent, order))
    names = ("lost", "is_bind", "binder", "name_len", "name")
    rows = fields(file, *(f"kbus.event.{name}" for name in names), "_ws.expert.message")
    assert [list(row.values())[:-1] for row in rows] == [[""] * 5] * 3
    assert not any("lost" in row["_ws.expert.message"] for row in rows)


@ORDERS
def test_text_has_a_field_of_its_own(order: str, tmp_path: Path) -> None:
    file = tmp_path / "text.pcapng"
    file.write_bytes(capture([Announcement("$.A", "grün"), Announcement("$.A", b"\xff")], order))
    rows = fields(file, "kbus.data.text")
    assert rows == [{"kbus.data.text": "grün"}, {"kbus.data.text": ""}]


def packets(path: Path, *each: bytes) -> Path:
    """A capture whose packets are these bytes."""
    section = capture([])[: -len(pcapng.interface_statistics(pcapng.NATIVE, 0, 0, 0, 0))]
    path.write_bytes(section + b"".join(map(enhanced_packet, each)))
    return path


def enhanced_packet(content: bytes) -> bytes:
    """A block with the packet."""
    head = pcapng.PACKET[pcapng.NATIVE].pack(0, START >> 32, START & 0xFFFFFFFF, len(content), len(content))
    return pcapng.block(pcapng.NATIVE, pcapng.ENHANCED_PACKET, head + content + b"\0" * (-len(content) % 4))


def framed(raw: bytes, version: int = 1, length: int = 32, wrong: int = 0) -> bytes:
    """The packet of a message of these bytes."""
    rest = struct.pack("=3Q", 1, 2, 0) + b"." * (length - 32) + raw
    return struct.pack("=HHI", version, length, zlib.crc32(rest) ^ wrong) + rest


RAW = Announcement("$.Word", b"1234").to_bytes()


def test_damage_is_told(tmp_path: Path) -> None:
    file = packets(
        tmp_path / "damaged.pcapng",
        b"",
        b"\1",
        framed(RAW)[:31],
        framed(RAW, version=2),
        struct.pack("=HHI", 1, 31, 0) + framed(RAW)[8:],
        struct.pack("=HHI", 1, 999, 0) + framed(RAW)[8:],
        framed(b""),
        framed(b"?" + RAW[1:]),
        framed(RAW[:-1] + b"?"),
        framed(RAW + b"1234"),
        framed(RAW[:32] + b"\xff" * 8 + RAW[40:]),
        framed(RAW, wrong=1),
        framed(RAW, length=40),
    )
    rows = fields(file, "kbus.name", "kbus.frame.crc.status", "_ws.expert.message", options=())
    good = framed(RAW)[4:8]
    assert [list(row.values()) for row in rows] == [
        *(["", "", f"No packet of `kbus record`: {wrong}"] for wrong in (
            "too short for a frame header",
            "too short for a frame header",
            "too short for a frame header",
            "layout of version 2",
            "frame header of 31 bytes",
            "frame header of 999 bytes",
        )),
        *(["", "good", f"No packet of `kbus record`: {wrong}"] for wrong in (
            "too short for a message",
            "no start guard",
            "no end guard",
            "its lengths do not match",
            "its lengths do not match",
        )),
        ["$.Word", "bad", f"The CRC is wrong: it should be 0x{int.from_bytes(good, sys.byteorder):08x}"],
        ["$.Word", "good", ""],
    ]  # fmt: skip


def test_crcs_need_not_be_checked(tmp_path: Path) -> None:
    file = packets(tmp_path / "unchecked.pcapng", framed(RAW, wrong=1))
    options = ("-o", "kbus.check_crc:FALSE")
    assert fields(file, "kbus.frame.crc.status", "_ws.expert.message", options=options) == [
        {"kbus.frame.crc.status": "not checked", "_ws.expert.message": ""}
    ]


def test_a_packet_that_another_tool_has_cut(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.pcapng", tmp_path / "cut.pcapng"
    whole.write_bytes(capture(asked_and_answered()[:1]))
    subprocess.run(["editcap", "-s", "60", whole, cut], check=True)
    assert fields(cut, "kbus.name", "_ws.expert.message", options=()) == [
        {
            "kbus.name": "",
            "_ws.expert.message": "No packet of `kbus record`: cut when it was captured",
        }
    ]


@pytest.fixture(scope="module", params=[pcapng.LITTLE, pcapng.BIG], ids=["little", "big"])
def long_messages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of messages that are longer than a packet may be for Wireshark, and of short ones."""
    file = tmp_path_factory.mktemp("long") / "long.pcapng"
    file.write_bytes(capture(LONG, request.param))
    return file


LETTER = "\u00fc"
#: A message with this many bytes of data is as long a packet as Wireshark takes.
MOST_DATA = pcapng.MAX_PACKET - frame.LENGTH - len(Announcement("$.Long", id=number(1)).to_bytes())
LONG = [
    Announcement("$.Long", LETTER * (length // 2), id=number(serial))
    for serial, length in enumerate((2, MOST_DATA, MOST_DATA + 4, 2, 1 << 20, 9 << 20, 2), 1)
]


def test_tshark_shows_the_beginning_of_long_messages(long_messages: Path) -> None:
    rows = fields(
        long_messages,
        "kbus.id.serial",
        "frame.len",
        "frame.cap_len",
        "kbus.data_len",
        "_ws.expert.message",
        options=(),
    )
    lengths = [frame.LENGTH + len(each.to_bytes()) for each in LONG]
    assert [list(row.values()) for row in rows] == [
        [
            str(serial),
            str(length),
            str(min(length, pcapng.MAX_PACKET)),
            str((len(each.data or b"") + 3) // 4),
            "" if length <= pcapng.MAX_PACKET else "Only a part of the packet is here",
        ]
        for serial, (length, each) in enumerate(zip(lengths, LONG), 1)
    ]
    info = tshark(long_messages, "-T", "fields", "-e", "_ws.col.Info").splitlines()
    assert info[4] == f'[0:5] A from 0 $.Long {1 << 20} "{49 * LETTER}"...'


def test_wiresharks_tools_read_long_messages_to_the_end(long_messages: Path, tmp_path: Path) -> None:
    """What they write lacks the rest of these, as they do not know the blocks; that is told."""
    counted = subprocess.run(
        ["capinfos", "-c", "-M", long_messages], check=True, stdout=subprocess.PIPE, text=True
    )
    assert f"Number of packets:   {len(LONG)}" in counted.stdout
    edited, merged = tmp_path / "edited.pcapng", tmp_path / "merged.pcapng"
    subprocess.run(["editcap", long_messages, edited], check=True)
    subprocess.run(["mergecap", "-w", merged, long_messages], check=True)
    for file in (edited, merged):
        records, damage = read(file, strict=False)
        assert [each.message.id for each in records] == [number(serial) for serial in (1, 2, 4, 7)]
        lengths = [frame.LENGTH + len(LONG[index].to_bytes()) for index in (2, 4, 5)]
        assert [each.reason for each in damage] == [
            f"a packet of which {pcapng.MAX_PACKET} bytes are left of {length}" for length in lengths
        ]


def test_files_of_both_orders_together(tmp_path: Path) -> None:
    """mergecap writes blocks in its own order, and leaves packets as they are; cat leaves all."""
    parts = []
    for name, order in (("little", pcapng.LITTLE), ("big", pcapng.BIG)):
        parts.append(tmp_path / f"{name}.pcapng")
        parts[-1].write_bytes(capture([Announcement("$.Of." + name, id=number(1))], order))
    merged, joined = tmp_path / "merged.pcapng", tmp_path / "joined.pcapng"
    subprocess.run(["mergecap", "-a", "-w", merged, *parts], check=True)
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    for file in (merged, joined):
        rows = fields(file, "kbus.name", "kbus.id.serial", "kbus.frame.crc.status")
        assert [list(row.values()) for row in rows] == [
            ["$.Of.little", "1", "good"],
            ["$.Of.big", "1", "good"],
        ]


def test_display_filters(tmp_path: Path) -> None:
    file = tmp_path / "filtered.pcapng"
    file.write_bytes(capture(asked_and_answered()))

    def shown(display_filter: str) -> list[str]:
        rows = fields(file, "frame.number", options=("-2", "-R", "kbus", "-Y", display_filter))
        return [row["frame.number"] for row in rows]

    assert shown('kbus.name contains ".KBUS." || kbus.in_reply_to.serial == 2') == ["3", "6", "10"]
    assert shown("kbus.response_time > 0.000002 && kbus.from == 3") == ["4"]
    assert shown("kbus.flags.want_a_reply == 1 && !kbus.answer_in") == ["7"]
    assert shown("kbus.expert.status || kbus.expert.no_request") == ["6", "8", "10"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("Door.Jammed\nthere is a foot in it", "The replier failed: Door.Jammed: there is a foot in it"),
        (None, "The replier failed: : "),
        (b"\xff\n\xff", "The replier failed: "),
    ],
)
def test_an_error_as_an_answer(data: Data, said: str, tmp_path: Path) -> None:
    file = tmp_path / "failed.pcapng"
    failed = "$.KBUS.Replier.Failed"
    sent = [
        Request("$.Door", from_=4, id=number(1)),
        Reply(failed, data, to=4, from_=3, in_reply_to=number(1), id=number(2)),
        Announcement("$.A", data, id=number(3)),
    ]
    file.write_bytes(capture(sent))
    shown = [row["_ws.expert.message"] for row in fields(file, "_ws.expert.message")]
    assert shown[1].startswith(said)
    assert [bool(each) for each in shown] == [False, True, False]
    assert tshark(file, "-Y", "kbus.expert.failed", "-T", "fields", "-e", "frame.number").split() == ["2"]
