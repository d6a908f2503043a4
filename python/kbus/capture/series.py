# SPDX-License-Identifier: MIT
"""Which files of a directory are captures, and which of them belong together."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from .part import GZIP, PART

SUFFIX = ".pcapng"
#: What the name of a recovered capture has before SUFFIX
RECOVERED = ".recovered"
_SEALED = (SUFFIX, SUFFIX + GZIP)
_DONE = (*(RECOVERED + each for each in _SEALED), *_SEALED)
#: What names of captures end in. Of files whose names differ in that alone, the first has all that there is,
#: or that is undamaged.
SUFFIXES = (*_DONE, *(each + PART for each in _SEALED))

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


def sealed(directory: Path, prefix: str) -> dict[Path, int]:
    """Return which captures of a recorder are done, in the order of their names, and their sizes in bytes.

    Their names begin with ``prefix``, see ``file_prefix``, and they belong to the user who asks: what else is
    called like that is another user's.
    """
    own = re.compile(rf"{re.escape(prefix)}\d{{8}}T\d{{6}}Z-\d{{4,}}({'|'.join(map(re.escape, _DONE))})")
    found: dict[Path, int] = {}
    for path in sorted(directory.iterdir()):
        if own.fullmatch(path.name):
            # It may have gone.
            with suppress(FileNotFoundError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    found[path] = status.st_size
    return found
