# SPDX-License-Identifier: MIT
"""Which files of a directory are captures, which of them belong together, and in which order."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from .header import encodable
from .identity import bus_of, file_prefix
from .part import GZIP, PART, is_own
from .reader import Reader

SUFFIX = ".pcapng"
#: What the name of a recovered capture has before SUFFIX
RECOVERED = ".recovered"
_SEALED = (SUFFIX, SUFFIX + GZIP)
#: What names of captures end in. Of files whose names differ in that alone, the first has all that there is,
#: or that is undamaged.
SUFFIXES = (*(RECOVERED + each for each in _SEALED), *_SEALED, *(each + PART for each in _SEALED))

_T = TypeVar("_T")


def stem(name: str) -> str:
    """Return what is the same in all names that one recording may have, until it is sealed and compressed."""
    return name.rpartition(SUFFIX)[0]


def each_once(names: Iterable[str]) -> list[str]:
    """Return the names of captures, of each recording one: not also what it was made of, or is made into."""
    chosen: dict[str, str] = {}
    # What was recovered several times has the longest name.
    ordered = sorted(names, key=len, reverse=True)
    for suffix in SUFFIXES:
        for name in ordered:
            if name.endswith(suffix):
                chosen.setdefault(_without_recovered(name[: -len(suffix)]), name)
    return sorted(chosen.values())


def by_any_name(path: Path, read: Callable[[Path], _T]) -> _T:
    """Return what ``read`` gives of a capture that is in a directory, also if it gets its next name before.

    Raises OSError.
    """
    while True:
        try:
            return read(path)
        except FileNotFoundError:
            same = [name for name in os.listdir(path.parent) if stem(name) == stem(path.name)]
            now = each_once(same)
            if not now or now[0] == path.name:
                raise
            path = path.with_name(now[0])


def _without_recovered(name: str) -> str:
    while name.endswith(RECOVERED):
        name = name[: -len(RECOVERED)]
    return name


def by_recording(paths: Iterable[Path]) -> list[Path]:
    """Return captures of a directory in the order in which they were recorded.

    Those of one boot are in the order of the monotonic times of their first messages, those without
    messages after them. Boots are in the order of their first names, as nothing else tells. What cannot
    be read is in its place by name.
    """
    firsts = {path: _first(path) for path in sorted(paths)}
    boots: dict[str, int] = {}
    for boot, _ in firsts.values():
        boots.setdefault(boot, len(boots))
    return sorted(firsts, key=lambda path: (boots[firsts[path][0]], firsts[path][1]))


def _first(path: Path) -> tuple[str, float]:
    """The boot id, or the path where there is none, and the time of the first message, in ns."""
    try:
        with by_any_name(path, partial(Reader, strict=False)) as reader:
            record = next(reader, None)
            sections = reader.sections
    except OSError:
        return str(path), math.inf
    section = record.facts.section if record else sections[0] if sections else None
    boot = str(section.info.get("boot_id", path)) if section else str(path)
    return boot, record.facts.mono_ns if record else math.inf


class Series:
    """The captures that recorders of a machine's devices, ``buses``, leave in a directory.

    Their names begin with ``prefix``, their headers tell the same machine and devices, and they belong to the
    user who asks: what else is called like that is somebody else's.
    """

    def __init__(self, directory: Path, device: str, buses: Sequence[int]) -> None:
        self.directory = directory
        self.prefix = file_prefix(device, list(buses))
        # As a Reader gives it: the name may have bytes that are not UTF-8.
        self._whose = encodable(device), bus_of(buses)
        self._known: dict[str, bool] = {}

    def sealed(self) -> dict[Path, int]:
        """Return those that are done, in the order of their names, and their sizes in bytes."""
        found: dict[Path, int] = {}
        known: dict[str, bool] = {}
        for path in sorted(self.directory.glob(f"{self.prefix}*")):
            if path.name.endswith(_SEALED):
                # It may have gone, or be nobody's.
                with suppress(OSError):
                    status = path.lstat()
                    before = self._known.get(path.name)
                    known[path.name] = self._has(path, status) if before is None else before
                    if known[path.name]:
                        found[path] = status.st_size
        self._known = known
        return found

    def _has(self, path: Path, status: os.stat_result) -> bool:
        if not is_own(status):
            return False
        with Reader(path, strict=False) as reader:
            next(reader.blocks(), None)
            info = reader.section.info if reader.section else {}
        return (info.get("device"), info.get("bus")) == self._whose
