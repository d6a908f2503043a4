# SPDX-License-Identifier: MIT
"""Captures as Wireshark's tools see them: tshark, capinfos, editcap and mergecap."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kbus import Message
from kbus.capture import Frame, Reader, Writer, frame, pcapng
from kbus.capture.player import timed
from kbus.capture.summary import summarize

from .captures import INFO, START, as_recorded, capture, numbered, read

MESSAGES = numbered(200)
ORDERS = [pcapng.LITTLE, pcapng.BIG]


def tool(*arguments: str | Path) -> str:
    """What one of them prints; it must end well."""
    return subprocess.run(
        arguments, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def frames(path: Path) -> list[list[str]]:
    """Time, length, device and hex bytes of each packet as tshark sees it."""
    fields = ("frame.time_epoch", "frame.len", "frame.interface_name", "data.data")
    told = tool(
        *("tshark", "-n", "-r", path, "-o", 'uat:user_dlts:"User 0 (DLT=147)","data","0","","0",""'),
        *("-T", "fields"),
        *(word for field in fields for word in ("-e", field)),
    )
    return [line.split("\t") for line in told.splitlines()]


@pytest.mark.parametrize("order", ORDERS)
def test_tshark_has_every_message_time_and_device(order: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(capture(MESSAGES, order, buses=[0, 3]))
    found = frames(path)
    for number, (message, (when, length, device, data)) in enumerate(zip(MESSAGES, found)):
        raw = as_recorded(message, order)
        assert when == f"{START // 10**9}.{1000 * number:09d}"
        assert (int(length), device) == (frame.LENGTH + len(raw), f"kbus{3 * (number % 2)}")
        assert bytes.fromhex(data)[frame.LENGTH :] == raw
    assert len(found) == len(MESSAGES)


@pytest.mark.parametrize("order", ORDERS)
def test_capinfos_has_the_facts(order: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(capture(MESSAGES, order, buses=[0, 3]))
    facts = {
        key.strip(): value.strip()
        for key, colon, value in (line.partition(":") for line in tool("capinfos", "-M", path).splitlines())
        if colon
    }
    assert facts["Number of packets"] == "200"
    assert facts["File type"] == "pcapng"
    assert facts["Number of interfaces in file"] == "2"
    assert facts["File timestamp precision"] == "nanoseconds (9)"
    assert facts["Strict time order"] == "True"
    assert facts["Capture comment"].startswith('{"device":"' + INFO["device"])
    assert facts["File encapsulation"] == "user0"


@pytest.mark.parametrize("order", ORDERS)
def test_a_file_that_a_crash_has_cut_is_read_up_to_there(order: str, tmp_path: Path) -> None:
    data = capture(MESSAGES, order)
    records, _ = read(data)
    path = tmp_path / "a.pcapng.part"
    path.write_bytes(data[: records[150].facts.offset + 33])
    told = subprocess.run(["tshark", "-n", "-r", path], capture_output=True, text=True, check=False)
    assert len(told.stdout.splitlines()) == 150
    assert "cut short" in told.stderr


def messages_in(path: Path) -> list[Message]:
    """The messages of a whole capture."""
    with Reader(path) as reader:
        return [each.message for each in reader]


@pytest.mark.parametrize("order", ORDERS)
def test_what_editcap_and_mergecap_make_is_read(order: str, tmp_path: Path) -> None:
    """They write sections in the byte order of this machine, whatever that of the packets is."""
    first, second, merged, part = (
        tmp_path / name for name in ("a.pcapng", "b.pcapng", "m.pcapng", "p.pcapng")
    )
    first.write_bytes(capture(MESSAGES[:100], order))
    second.write_bytes(capture(MESSAGES[100:], order, buses=[1], first=101))
    tool("mergecap", "-a", "-w", merged, first, second)
    assert messages_in(merged) == MESSAGES
    tool("editcap", "-r", first, part, "11-20")
    assert messages_in(part) == MESSAGES[10:20]
    with Reader(part) as reader:
        assert [each.facts.sequence for each in reader] == list(range(11, 21))


def test_machines_that_mergecap_has_put_together_are_not_taken_for_one(tmp_path: Path) -> None:
    """Their recordings' facts are gone. What is left is the time of day, and that is right."""
    second = 1_000_000_000
    recorded = {"lathe": (10, 5_000_000 * second), "press": (90_000, 7 * second)}
    paths = []
    for which, (device, (sequence, uptime)) in enumerate(recorded.items()):
        paths.append(tmp_path / f"{device}.pcapng")
        with paths[-1].open("wb") as file:
            writer = Writer(file, {**INFO, "device": device}, [0])
            for count, message in enumerate(numbered(3)):
                since = (2 * count + which) * second
                frame = Frame(sequence + count, uptime + since, 5 * which)
                writer.write(0, START + since, frame, [message.to_bytes()])
    merged = tmp_path / "m.pcapng"
    tool("mergecap", "-I", "none", "-w", merged, *paths)
    with Reader(merged) as reader:
        assert [seconds for seconds, _ in timed(reader)] == [0, 1, 2, 3, 4, 5]
        assert len(reader.sections[0].interfaces) == 2
    summary = summarize(merged)
    assert (summary.messages, summary.missing, summary.lost, summary.seconds) == (6, 0, 0, 0)
    assert summary.last_ns == START + 5 * second


def test_tshark_reads_files_that_were_put_together(tmp_path: Path) -> None:
    path = tmp_path / "both.pcapng"
    path.write_bytes(capture(MESSAGES[:100]) + capture(MESSAGES[100:], first=101))
    assert len(frames(path)) == 200
