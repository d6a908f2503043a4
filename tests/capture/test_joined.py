# SPDX-License-Identifier: MIT
"""``cat a.gz b.gz``: damage in the one costs nothing of the other."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from kbus.capture import CaptureError, Damage, Record
from kbus.capture.input import MaybeGzip, Window
from kbus.capture.recover import recover

from . import joined
from .captures import capture, numbered, read


def check(found: list[Record], damage: list[Damage], what: str, is_whole: bool) -> int:
    """All of the second one are there, and those of the first are right; return how many these are."""
    count = len(found) - joined.COUNT
    numbers = [each.facts.sequence for each in found]
    assert numbers[count:] == list(range(joined.SECOND, joined.SECOND + joined.COUNT)), what
    assert [each.message for each in found[count:]] == numbered(joined.COUNT), what
    assert {each.facts.section.info.get("device") for each in found[count:]} == {"press"}, what
    assert numbers[:count] == sorted(set(numbers[:count])), what
    for each in found[:count]:
        assert each.message == numbered(joined.COUNT)[each.facts.sequence - joined.FIRST], what
        assert each.facts.section.info.get("device") in (None, "lathe"), what
    assert is_whole or damage, what
    return count


def test_a_wrong_bit_or_a_cut_in_the_first_costs_none_of_the_second() -> None:
    for what, first in joined.damaged(step=5):
        is_whole = joined.as_before(first)
        found, damage = read(first + joined.B_GZIP, strict=False)
        count = check(found, damage, what, is_whole)
        assert not is_whole or (count, damage) == (joined.COUNT, []), what


def test_uncompressed_captures_behind_compressed_ones_are_read() -> None:
    """As ``cat`` of a directory joins them, where the last one is still being written."""
    b = gzip.decompress(joined.B_GZIP)
    found, damage = read(joined.A_GZIP + b + b)
    assert (len(found), damage) == (3 * joined.COUNT, [])
    found, damage = read(joined.flipped(300, 2) + joined.A_GZIP + b, strict=False)
    check(found, damage, "a bit", is_whole=False)


def test_a_wrong_bit_in_its_first_bytes_makes_the_first_no_other_file() -> None:
    for bit in range(16):
        found, damage = read(joined.flipped(bit // 8, bit % 8) + joined.B_GZIP, strict=False)
        assert check(found, damage, str(bit), is_whole=False) == 0


def test_members_inside_members_cost_no_more_than_the_file_is_long() -> None:
    """Each would be unzipped to its end: who does that with all of them is not done for hours."""
    count, tail = 400, 66_000
    nested = bytearray()
    for number in range(count):
        # One stored block, which covers the members behind it; what comes then is no block.
        covered = min(65_000, 15 * (count - number - 1) + tail)
        nested += joined.A_GZIP[: joined.HEADER] + b"\0" + struct.pack("<2H", covered, covered ^ 0xFFFF)
    reader = MaybeGzip(io.BytesIO(nested + tail * b"\xff" + joined.B_GZIP))
    unzipped, ends = 0, False
    while not ends:
        with suppress(zlib.error, EOFError):
            data = reader.read(1 << 16)
            unzipped, ends = unzipped + len(data), not data
    assert unzipped < 3 << 20


def test_what_is_left_is_not_copied_for_each_piece() -> None:
    """Where much is asked for again and again, as by what claims to be a large packet."""
    size = 16 << 20
    window = Window(MaybeGzip(io.BytesIO(gzip.compress(bytes(size)))))
    copied, before = 0, b""
    while window.have(4 << 20):
        if window.data is not before:
            before = window.data
            copied += len(before)
        window.at += 1 << 16
    assert copied < 10 * size


def test_a_wrong_trailer_costs_nothing() -> None:
    """All data are there; that they are not what they were would have been told by the packets."""
    end = len(joined.A_GZIP)
    for at in range(end - joined.TRAILER, end):
        for first in (joined.flipped(at, 0), joined.flipped(at, 7)):
            found, damage = read(first + joined.B_GZIP, strict=False)
            assert check(found, damage, str(at), is_whole=False) == joined.COUNT
    for cut in range(end - joined.TRAILER, end):
        found, damage = read(joined.A_GZIP[:cut] + joined.B_GZIP, strict=False)
        assert check(found, damage, str(cut), is_whole=False) == joined.COUNT


@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "bit"])
def test_what_is_before_the_damage_is_there(is_cut: bool) -> None:
    """But for the last pieces, of which some are unzipped together: 128 KiB at most."""
    zipped = gzip.compress(joined.LONG, mtime=0)
    each = len(joined.LONG) // 400
    for at in range(150_000, len(zipped), 37_001):
        damaged = bytearray(zipped)
        damaged[at] ^= 0x10
        first = zipped[:at] if is_cut else bytes(damaged)
        found, damage = read(first + joined.B_GZIP, strict=False)
        numbers = [record.facts.sequence for record in found[: -joined.COUNT]]
        least = (at - (128 << 10)) // each
        assert numbers[:least] == list(range(1, least + 1)), at
        assert [record.facts.sequence for record in found[-joined.COUNT :]] == list(
            range(joined.SECOND, joined.SECOND + joined.COUNT)
        ), at
        assert damage, at


def test_of_three_the_second_is_damaged() -> None:
    first = gzip.compress(capture(numbered(5)))
    found, damage = read(first + joined.flipped(len(joined.A_GZIP) // 2, 3) + joined.B_GZIP, strict=False)
    assert [each.message for each in found[:5]] == numbered(5)
    check(found[5:], damage, "", is_whole=False)


def test_strict_reading_refuses_it() -> None:
    with pytest.raises(CaptureError):
        read(joined.flipped(len(joined.A_GZIP) - 1, 0) + joined.B_GZIP)


def test_what_is_recovered_has_both(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng.gz"
    for number, first in enumerate((joined.flipped(300, 2), joined.A_GZIP[:300], joined.A_GZIP[:-3])):
        path.write_bytes(first + joined.B_GZIP)
        target = tmp_path / f"{number}.pcapng"
        messages, done = recover(path, target)
        found, damage = read(target)
        check(found, done.damage, str(number), is_whole=False)
        assert (len(found), damage) == (messages, [])
