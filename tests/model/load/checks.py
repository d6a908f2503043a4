# SPDX-License-Identifier: MIT
"""What must be true of the notes of processes that have used one device: each check raises AssertionError."""

from __future__ import annotations

from collections import Counter

from kbus import _abi as abi

from .notes import ABANDONED, READ, SENT, Note


def _of(kind: int, notes: list[Note]) -> list[Note]:
    return [note for note in notes if note.kind == kind]


def _is_urgent(note: Note) -> bool:
    return bool(note.flags & abi.BIT_URGENT)


def order_of_sends(sends: list[Note]) -> None:
    """Axiom 'Order': if one SEND returned before another began, its id is lower. All ids are local."""
    by_end = sorted(_of(SENT, sends), key=lambda note: note.end)
    returned, highest = 0, 0
    for note in sorted(by_end, key=lambda note: note.begin):
        while by_end[returned].end < note.begin:
            highest = max(highest, by_end[returned].id.serial_num)
            returned += 1
        assert note.id.serial_num > highest, f"{note}, though id {highest} had been given"


def order_of_reads(readers: list[list[Note]]) -> None:
    """Axiom 'Order': every queue holds its non-urgent messages in ascending order, so that any two agree."""
    for reads in readers:
        serials = [note.id.serial_num for note in _of(READ, reads) if not _is_urgent(note)]
        for earlier, later in zip(serials, serials[1:]):
            assert earlier < later, f"{later} was read after {earlier}"


def urgency(sends: list[Note], reads: list[Note]) -> None:
    """Axiom 'Urgency': what was queued when an urgent message was sent is read after it.

    So no message whose SEND had returned before that of the urgent one began may be read before it, by a
    NEXTMSG that began after the SEND of the urgent one had returned.
    """
    sent = {note.id: note for note in _of(SENT, sends)}
    before: list[Note] = []
    for read in _of(READ, reads):
        if _is_urgent(read):
            urgent = sent[read.id]
            for other in reversed(before):
                if other.begin <= urgent.end:
                    break  # and so did all those read before it
                assert sent[other.id].end >= urgent.begin, f"{other} was read before the urgent {urgent}"
        before.append(read)


def nothing_lost_in_silence(sent: int, reads: list[Note], missed: int) -> None:
    """Axiom 'Nothing is lost in silence', for a listener with one binding that all the messages match."""
    received = len(_of(READ, reads))
    assert sent == received + missed, f"of {sent} messages {received} were read, {missed} counted as lost"


def an_answer(asker: list[Note]) -> None:
    """Axiom 'An answer': one Reply or Status for each accepted Request, none for what was abandoned."""
    expected = Counter(note.id for note in _of(SENT, asker))
    expected.subtract(note.id for note in _of(ABANDONED, asker))
    answers = Counter(note.in_reply_to for note in _of(READ, asker))
    assert answers == +expected, f"too few: {+expected - answers}; too many: {answers - +expected}"
