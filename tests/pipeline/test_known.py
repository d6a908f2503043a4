# SPDX-License-Identifier: MIT
"""What is in the tables already is known by the recorder's own numbers, wherever in a file it is."""

from __future__ import annotations

import io
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from kbus import Announcement
from kbus.capture import Frame, Reader, Writer
from kbus.capture.recover import recover
from kbus.pipeline.tables.warehouse import Warehouse
from tests.pipeline.captures import NOON, capture, info
from tests.pipeline.test_once import SECOND, rows, take_in

COUNT = 100
WHOLE = capture([Announcement("$.Count", str(number)) for number in range(COUNT)])
ALL = Counter(range(1, COUNT + 1))


def offsets(raw: bytes) -> list[int]:
    return [findings.offset for _, _, findings in Reader(io.BytesIO(raw))]


class Tables:
    """Tables, and what is taken into them."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self.warehouse = Warehouse.create(str(where / "tables"), buckets=1)
        self._turn = 0

    def take(self, raw: bytes, split: int = 1 << 20) -> None:
        self._turn += 1
        path = self._where / f"{self._turn}.pcapng"
        path.write_bytes(raw)
        take_in(self.warehouse, path, split)

    def numbers(self) -> Counter[int]:
        return Counter(row["rec_seq"] for row in rows(self.warehouse, "messages"))


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


@pytest.mark.parametrize("order", list(permutations("dry")))
@pytest.mark.parametrize("split", [1 << 20, 4000])
def test_a_recovered_recording(tmp_path: Path, order: tuple[str, ...], split: int) -> None:
    """What is behind damage is elsewhere in the file that `kbus recover` makes."""
    tables, found = Tables(tmp_path), offsets(WHOLE)
    damaged = bytearray(WHOLE)
    for number in (30, 60, 61, 98):
        damaged[found[number] + 70] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    recover(tmp_path / "damaged", tmp_path / "recovered")
    uploads = {"d": bytes(damaged), "r": (tmp_path / "recovered").read_bytes(), "y": WHOLE}
    for which in order:
        tables.take(uploads[which], split)
    assert tables.numbers() == ALL


@pytest.mark.parametrize("order", ["dy", "yd", "dyr", "yr"])
def test_a_wrong_time_makes_no_other_message(tmp_path: Path, order: str) -> None:
    """The time of a packet stands outside its checksum."""
    tables, found = Tables(tmp_path), offsets(WHOLE)
    damaged = bytearray(WHOLE)
    damaged[found[30] + 12] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    recover(tmp_path / "damaged", tmp_path / "recovered")
    uploads = {"d": bytes(damaged), "r": (tmp_path / "recovered").read_bytes(), "y": WHOLE}
    for which in order:
        tables.take(uploads[which])
    assert tables.numbers() == ALL


def test_a_long_message_hides_nothing(tables: Tables) -> None:
    """Somebody's capture begins as another does, and goes on with one message as long as all of it."""
    first = offsets(WHOLE)[1]
    forged = Announcement("$.Forged", b"x" * (len(WHOLE) - first))
    file = io.BytesIO()
    Writer(file, info(), [0]).write(0, NOON, Frame(COUNT * 2, SECOND, 0), [forged.to_bytes()])
    tables.take(WHOLE[:first] + file.getvalue()[offsets(file.getvalue())[0] :])
    tables.take(WHOLE)
    assert tables.numbers() == ALL + Counter([COUNT * 2])


def merged(runs: list[list[tuple[int, int]]]) -> bytes:
    """One section with the messages of several runs of a recorder, or several: number, second."""
    file = io.BytesIO()
    writer = Writer(file, info(), [0])
    for run in runs:
        for number, second in run:
            frame = Frame(number, second * SECOND, 0)
            writer.write(0, NOON + second * SECOND, frame, [Announcement("$.A", str(second)).to_bytes()])
    return file.getvalue()


RUN = [(number, number) for number in range(1, 11)]
AGAIN = [(number, 1000 + number) for number in range(1, 11)]
OTHERS = [[(number, number * 3 + which)] for number in range(1, 11) for which in range(3)]


@pytest.mark.parametrize("runs", [[RUN, AGAIN], [AGAIN, RUN], OTHERS, [*OTHERS, AGAIN]])
def test_recorders_that_mergecap_has_put_together(tables: Tables, runs: list[list[tuple[int, int]]]) -> None:
    """The same numbers come again, and are other messages."""
    raw = merged(runs)
    found = offsets(raw)
    for count in (len(found) // 3, len(found) // 2 + 2):
        tables.take(raw[: found[count]])
    tables.take(raw)
    tables.take(raw + raw)
    assert tables.numbers() == Counter(number for run in runs for number, _ in run)
    assert len({row["ts"] for row in rows(tables.warehouse, "messages")}) == len(found)
