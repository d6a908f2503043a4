# SPDX-License-Identifier: MIT
"""Which files of a directory are captures, and which of them belong together."""

from __future__ import annotations

import math
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Optional, TypeVar

from .blocks import first_block
from .compress import GZIP, is_own
from .gunzip import MaybeGzip
from .header import encodable
from .identity import bus_of, file_prefix
from .part import PART
from .reader import Reader, info_of, open_file

SUFFIX = ".pcapng"
#: What the name of a recovered capture has before SUFFIX
RECOVERED = ".recovered"
_SEALED = (SUFFIX, SUFFIX + GZIP)
#: What names of captures end in. Of files whose names differ in that alone, the first has all that there is,
#: or that is undamaged.
SUFFIXES = (*(RECOVERED + each for each in _SEALED), *_SEALED, *(each + PART for each in _SEALED))
_CHUNK = 1 << 18

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
        # As ``info_in`` gives it: the name may have bytes that are not UTF-8.
        self._whose = encodable(device), bus_of(buses)
        self._known: dict[str, bool] = {}

    def sealed(self) -> list[Path]:
        """Return the paths of those that are done, by name."""
        found = self.directory.glob(f"{self.prefix}*")
        names = sorted(path.name for path in found if path.name.endswith(_SEALED))
        self._known = {name: self._known[name] for name in names if name in self._known}
        return [self.directory / name for name in names if self._has(name)]

    def _has(self, name: str) -> bool:
        if name not in self._known:
            info = _first_info(self.directory / name) or {}
            self._known[name] = (info.get("device"), info.get("bus")) == self._whose
        return self._known[name]

    def tidy(self, say: Callable[[str], None]) -> None:
        """Remove what a crash has left: second names, and what compressed files have all of."""
        for path in self.directory.glob(f"{self.prefix}*{PART}"):
            done = path.with_name(path.name[: -len(PART)])
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and os.path.samestat(status, done.lstat()):
                    path.unlink()
        for path in sorted(self.directory.glob(f"{self.prefix}*{SUFFIX}{GZIP}")):
            for suffix in (SUFFIX, SUFFIX + PART):
                twin = path.with_name(stem(path.name) + suffix)
                # A link, or one that may not be deleted, stays, and is no reason to leave the others.
                with suppress(OSError):
                    if twin.exists() and self._has(path.name) and begins_with(path, twin):
                        twin.unlink()
                        say(f"{twin.name} is removed: {path.name} has all of it")


def begins_with(zipped: Path, part: Path) -> bool:
    """Return whether a compressed file, which is whole, begins with all that the other one has.

    Raises OSError.
    """
    with open_file(zipped, os.O_NOFOLLOW) as file, open_file(part, os.O_NOFOLLOW) as other:
        whole = MaybeGzip(file)
        rest = b""
        try:
            while wanted := other.read(_CHUNK):
                while len(rest) < len(wanted) and (more := whole.read(_CHUNK)):
                    rest += more
                if not rest.startswith(wanted):
                    return False
                rest = rest[len(wanted) :]
            while whole.read(_CHUNK):
                pass
        except (EOFError, zlib.error):
            return False
    return True


def _first_info(path: Path) -> Optional[dict[str, Any]]:
    """Return what the header of an own capture says; None if it is none, or has no header."""
    try:
        with open_file(path, os.O_NOFOLLOW) as file:
            block = first_block(MaybeGzip(file)) if is_own(os.fstat(file.fileno())) else None
            return info_of(block) if block else None
    except (OSError, ValueError, zlib.error):
        pass
    return None
