# SPDX-License-Identifier: MIT
"""Reading back what ``kbus listen`` has written: lines of the grammar in :mod:`kbus.cli.lines`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Optional

from .. import Message, MessageId, OrigFrom
from ..terminal.times import NANOSECONDS
from .lines import FLAGS
from .peers import Opener

__all__ = ["Logged", "parse", "read"]

_PAIR = r"\[(\d+):(\d+)\]"
_LINE = re.compile(
    rf"\((?P<time>[^)]*)\) kbus(?P<device>\d+) (?P<id>{_PAIR})"
    r" (?P<kind>[AQRS])(?P<letters>[a-z]*)(?::(?P<user>[0-9a-f]{4}))? from (?P<from>\d+)"
    r'(?: by (?P<pid>\d+) (?P<command>"(?:[^"\\]|\\.)*"))?'
    rf"(?: to (?P<to>\d+))?(?: re (?P<re>{_PAIR}))?"
    rf"(?: origin (?P<origin>{_PAIR}))?(?: final (?P<final>{_PAIR}))?"
    r" (?P<name>\$\.\S+) (?P<length>\d+)(?: (?P<data>\S.*))?",
    re.ASCII,
)
_TIME = re.compile(r"(-?)(\d+)\.(\d{9})", re.ASCII)
_OF_KIND = {"A": 0, "Q": Message.WANT_A_REPLY, "R": 0, "S": Message.SYNTHETIC}
_LETTERS = {letter: bit for bit, letter, _ in FLAGS if letter}


class Logged(NamedTuple):
    """A line that was read back."""

    #: nanoseconds, since whatever ``listen -t`` counted from: 1970 for ``abs``
    time_ns: int
    #: number of the device
    device: int
    message: Message
    #: the process that opened the sender's KSock, if the line says
    peer: Optional[Opener]


def parse(line: str) -> Logged:
    """The message of a line, given without its end.

    It equals the one that was shown, but that one which had EXTENDED and neither ``origin`` nor ``final`` has
    lost that flag. Raises ValueError, which names the cause, if the line is not of the grammar or contradicts
    itself. What ``-t date`` wrote is refused too, as a local time can be ambiguous.
    """
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"not a line of `kbus listen`: {line[:200]!r}")
    kind = match["kind"]
    if (kind in "RS") != (match["re"] is not None):
        raise ValueError(f"kind {kind} {'needs' if kind in 'RS' else 'can not have'} 're': {line[:200]!r}")
    message = Message(
        match["name"],
        _data(match["data"] or "", int(match["length"])),
        to=int(match["to"] or 0),
        from_=int(match["from"]),
        orig_from=OrigFrom(*_numbers(match["origin"])),
        final_to=OrigFrom(*_numbers(match["final"])),
        in_reply_to=MessageId(*_numbers(match["re"])),
        flags=_OF_KIND[kind] | _flags(match["letters"]) | int(match["user"] or "0", 16) << 16,
        id=MessageId(*_numbers(match["id"])),
    )
    peer = Opener(int(match["pid"]), json.loads(match["command"])) if match["pid"] else None
    return Logged(_time(match["time"]), int(match["device"]), message, peer)


def read(lines: Iterable[str], name: str) -> Iterator[Logged]:
    """The messages of a log, line by line. Empty lines and those that begin with # do not count.

    Raises ValueError for a line that is wrong, with the log's ``name``, the line's number and the cause.
    """
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\n")
        if not line or line.startswith("#"):
            continue
        try:
            yield parse(line)
        except ValueError as error:
            raise ValueError(f"{name}:{number}: {error}") from None


def _time(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"the time {text!r} is not seconds with nine decimals, as of -t abs, delta or zero")
    sign, whole, nanoseconds = match.groups()
    return int(sign + str(int(whole) * NANOSECONDS + int(nanoseconds)))


def _numbers(pair: Optional[str]) -> tuple[int, int]:
    if pair is None:
        return 0, 0
    first, second = pair[1:-1].split(":")
    return int(first), int(second)


def _flags(letters: str) -> int:
    flags = 0
    for letter in letters:
        if letter not in _LETTERS or flags & _LETTERS[letter]:
            raise ValueError(f"the letter {letter!r} can not be among {letters!r}, or is there twice")
        flags |= _LETTERS[letter]
    return flags


def _data(shown: str, length: int) -> bytes:
    try:
        data = json.loads(shown).encode() if shown.startswith('"') else bytes.fromhex(shown)
    except ValueError:
        raise ValueError(
            f"the data is neither a JSON string nor pairs of hex digits: {shown[:200]!r}"
        ) from None
    if len(data) != length:
        raise ValueError(f"the data has {len(data)} bytes, and the line says {length}")
    return data
