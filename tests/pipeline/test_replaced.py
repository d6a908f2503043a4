# SPDX-License-Identifier: MIT
"""A file of an inbox that is replaced by another under its name is read from its beginning."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbus import Announcement
from kbus.pipeline.ingest.stream import inspected
from kbus.pipeline.source.streaming import FORGOTTEN, section_at
from tests.pipeline.captures import capture, info
from tests.pipeline.inbox import LONG_AGO, Inbox

NAME = "X.pcapng"
#: What no other has: the numbers of its messages
PUMP = capture([Announcement("$.A")] * 100)
SHORT = capture([Announcement("$.A")] * 5, info("valve"), first=1001)
LONG = capture([Announcement("$.A")] * 300, info("valve"), first=1001)
OF_PUMP = list(range(1, 101))


def numbers_of(raw: bytes) -> list[int]:
    return list(range(1001, 1006 if raw is SHORT else 1301))


def replace(inbox: Inbox, raw: bytes, is_old: bool = False) -> None:
    """Move a file over the one that is there."""
    other = inbox.where.parent / "other"
    other.write_bytes(raw)
    if is_old:
        os.utime(other, (LONG_AGO, LONG_AGO))
    other.replace(inbox.where / NAME)


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    (tmp_path / "inbox").mkdir()
    inbox = Inbox(tmp_path / "inbox")
    inbox.put(NAME, PUMP)
    assert inbox.take() == 100
    return inbox


@pytest.mark.parametrize("then", [bytes, gzip.compress])
@pytest.mark.parametrize("now", [bytes, gzip.compress])
@pytest.mark.parametrize("other", [SHORT, LONG], ids=["shorter", "longer"])
def test_another_recording_under_the_same_name(
    tmp_path: Path, other: bytes, then: Callable[[bytes], bytes], now: Callable[[bytes], bytes]
) -> None:
    """The field's case P3."""
    (tmp_path / "inbox").mkdir()
    inbox = Inbox(tmp_path / "inbox")
    inbox.put(NAME, then(PUMP))
    inbox.take()
    replace(inbox, now(other))
    for _ in range(2):
        inbox.take()
    assert (inbox.numbers, inbox.damage) == ([*OF_PUMP, *numbers_of(other)], [])


def test_another_recording_with_as_long_a_header(tmp_path: Path) -> None:
    said = info("pump", bindings=[f"$.Some.Name.Number{number}" for number in range(300)])
    inbox = Inbox(tmp_path)
    for first in (1, 1001):
        inbox.put(NAME, capture([Announcement("$.A")] * 5, said, first=first))
        inbox.take()
    assert (inbox.numbers, inbox.damage) == ([*range(1, 6), *range(1001, 1006)], [])


def test_an_upload_of_the_future_is_settled(tmp_path: Path) -> None:
    """Its time is that of a clock that was wrong."""
    inbox = Inbox(tmp_path)
    inbox.put(NAME, PUMP[:-10])
    inbox.take()
    assert inbox.damage == []
    os.utime(tmp_path / NAME, (4e9, 4e9))
    inbox.take()
    assert inbox.damage == [FORGOTTEN]


def test_the_same_recording_once_more(inbox: Inbox) -> None:
    """Compressed, and as it was."""
    for raw in (gzip.compress(PUMP), PUMP):
        replace(inbox, raw)
        assert inbox.take() == 100
    assert inbox.damage == []


def test_a_file_is_empty_for_a_while(inbox: Inbox) -> None:
    """As when somebody uploads it again."""
    replace(inbox, b"", is_old=True)
    assert inbox.take() == 100
    replace(inbox, PUMP)
    assert inbox.take() == 100
    replace(inbox, b"")
    inbox.take()
    replace(inbox, SHORT)
    inbox.take()
    assert (inbox.numbers, inbox.damage) == ([*OF_PUMP, *numbers_of(SHORT)], [])


@pytest.mark.parametrize(
    ("raw", "reason"),
    [(b"notes" * 9000, FORGOTTEN), (b"PK\x03\x04" * 9000, "it is a zip archive: `unzip` makes readable")],
    ids=["notes", "zip"],
)
def test_no_capture_comes_and_goes(inbox: Inbox, raw: bytes, reason: str) -> None:
    for _ in range(2):
        replace(inbox, raw, is_old=True)
        assert inbox.take() == 100
    assert [each[: len(reason)] for each in inbox.damage] == [reason]
    replace(inbox, SHORT)
    inbox.take()
    assert inbox.numbers == [*OF_PUMP, *numbers_of(SHORT)]


def test_an_empty_file_is_told(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path)
    inbox.put(NAME, b"")
    assert (inbox.take(), inbox.damage) == (0, []), "it may be about to be written"
    os.utime(tmp_path / NAME, (LONG_AGO, LONG_AGO))
    for _ in range(2):
        inbox.take()
    assert inbox.damage == ["it is empty"]
    inbox.put(NAME, PUMP)
    assert inbox.take() == 100


@pytest.mark.parametrize("other", [SHORT, LONG], ids=["shorter", "longer"])
def test_replaced_before_it_is_read(inbox: Inbox, other: bytes) -> None:
    more = capture([Announcement("$.A")] * 200)
    inbox.put(NAME, more)
    tasks = inbox.plan()
    replace(inbox, other)
    assert inbox.read(tasks) == 100
    assert inbox.damage == ["it has been replaced before it was read"]
    inbox.take()
    assert inbox.numbers == [*OF_PUMP, *numbers_of(other)]


def test_uploaded_anew_beside_the_old_one(inbox: Inbox) -> None:
    inbox.put(f"{NAME}.part", LONG[: len(LONG) // 2])
    inbox.take()
    inbox.put(f"{NAME}.part", LONG)
    (inbox.where / f"{NAME}.part").replace(inbox.where / NAME)
    inbox.take()
    assert set(inbox.numbers) == {*OF_PUMP, *numbers_of(LONG)}


def test_a_checkpoint_of_an_earlier_version(inbox: Inbox) -> None:
    """It has no more than how far each file was read."""
    inbox.offset = {path: f"{len(PUMP)},0,0,0,-1" for path in inbox.offset}
    assert inbox.take() == 100
    replace(inbox, SHORT)
    assert inbox.take() == 105


def test_a_later_section_of_a_file_that_is_compressed_meanwhile() -> None:
    assert section_at(io.BytesIO(PUMP + PUMP), len(PUMP), 2 * len(PUMP)) is not None
    assert section_at(io.BytesIO(gzip.compress(PUMP + PUMP)), len(PUMP), 2 * len(PUMP)) is None


def test_what_is_read_in_part_is_not_known_to_ingest(inbox: Inbox) -> None:
    """It compares size and time."""
    path = str(inbox.where / NAME)
    row = SimpleNamespace(path=path, begin=0, end=1000, section=-1, length=None, digest=None)
    assert inspected([row])[0].upload.size == 1000
