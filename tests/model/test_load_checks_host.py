# SPDX-License-Identifier: MIT
"""The checks of the load tests accept what is right, and each finds what it is there to find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kbus import _abi as abi
from kbus.testing.model.wire import NO_ID, MsgId

from .load import checks
from .load.notes import ABANDONED, READ, SENT, Note, Notebook, notes

URGENT = abi.BIT_URGENT


def sent(serial: int, begin: int, end: int, flags: int = 0) -> Note:
    return Note(SENT, begin, end, MsgId(0, serial), flags=flags)


def read(serial: int, begin: int, end: int, flags: int = 0, answers: int = 0) -> Note:
    return Note(READ, begin, end, MsgId(0, serial), MsgId(0, answers) if answers else NO_ID, flags)


def refuses(check: Callable[[], None]) -> bool:
    with pytest.raises(AssertionError):
        check()
    return True


def test_notes_come_back_as_they_were_made(tmp_path: Path) -> None:
    made = [read(2, 3, 4, URGENT, answers=5), Note(ABANDONED, 2**63, 2**64 - 1, MsgId(7, 8), missed=9)]
    notebook = Notebook(tmp_path / "notes")
    for note in made:
        notebook.add(note)
    assert notes(tmp_path / "notes") == made


def test_order_of_sends() -> None:
    at_once = [sent(1, 0, 10), sent(2, 0, 9), sent(4, 11, 20), sent(3, 10, 30)]
    checks.order_of_sends(at_once)
    checks.order_of_sends(at_once[::-1])
    assert refuses(lambda: checks.order_of_sends([*at_once, sent(5, 5, 8)]))
    assert refuses(lambda: checks.order_of_sends([sent(2, 0, 1), sent(1, 2, 3)]))


def test_order_of_reads() -> None:
    checks.order_of_reads([[read(1, 0, 1), read(9, 2, 3, URGENT), read(5, 4, 5)], [read(5, 0, 1)]])
    assert refuses(lambda: checks.order_of_reads([[read(1, 0, 1)], [read(5, 0, 1), read(4, 2, 3)]]))
    assert refuses(lambda: checks.order_of_reads([[read(5, 0, 1), read(5, 2, 3)]]))


def test_urgency() -> None:
    sends = [sent(1, 0, 1), sent(2, 2, 3), sent(3, 4, 5, URGENT), sent(4, 6, 7, URGENT)]
    checks.urgency(sends, [read(4, 8, 9, URGENT), read(3, 10, 11, URGENT), read(1, 12, 13), read(2, 14, 15)])
    checks.urgency(sends, [read(1, 3, 8), read(4, 9, 10, URGENT), read(3, 11, 12, URGENT)])
    assert refuses(lambda: checks.urgency(sends, [read(1, 8, 9), read(3, 10, 11, URGENT)]))
    assert refuses(lambda: checks.urgency(sends, [read(3, 8, 9, URGENT), read(4, 10, 11, URGENT)]))


def test_nothing_lost_in_silence() -> None:
    checks.nothing_lost_in_silence(3, [read(1, 0, 1), read(3, 2, 3)], 1)
    assert refuses(lambda: checks.nothing_lost_in_silence(3, [read(1, 0, 1), read(3, 2, 3)], 0))


def test_an_answer() -> None:
    asked = [sent(1, 0, 1), sent(2, 2, 3), Note(ABANDONED, 4, 5, MsgId(0, 2))]
    checks.an_answer([*asked, read(3, 6, 7, answers=1)])
    assert refuses(lambda: checks.an_answer(asked))
    assert refuses(lambda: checks.an_answer([*asked, read(3, 6, 7, answers=1), read(4, 6, 7, answers=1)]))
    assert refuses(lambda: checks.an_answer([*asked, read(3, 6, 7, answers=1), read(4, 6, 7, answers=2)]))
    assert refuses(lambda: checks.an_answer([*asked, read(3, 6, 7, answers=1), read(4, 6, 7, answers=9)]))
