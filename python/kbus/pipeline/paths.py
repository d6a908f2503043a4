# SPDX-License-Identifier: MIT
"""Where captures are."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import BinaryIO, NamedTuple

#: How the name of a capture ends that is still being written
PART = ".part"
_GZIP = b"\x1f\x8b"


class Upload(NamedTuple):
    """A file, its size in bytes, and when it was last written, ns since 1970."""

    path: str
    size: int
    mtime_ns: int


def uploads(where: str) -> list[Upload]:
    """Return the files that ``where`` names, in the order of their names: a file, a directory, or a pattern.

    All files below a directory are taken, but those whose name, or that of a directory on the way, begins
    with ``.`` or ``_``. Raises FileNotFoundError if there is nothing of that name.
    """
    path = where.removeprefix("file://")
    found = [path] if os.path.exists(path) else glob.glob(path, recursive=True)
    if not found:
        raise FileNotFoundError(f"{path}: no such file or directory")
    files: set[str] = set()
    for each in found:
        files.update(_below(each) if os.path.isdir(each) else [os.path.abspath(each)])
    listed = []
    for file in sorted(files):
        # It may have been renamed meanwhile, as when a recorder seals it: it is there next time.
        try:
            status = os.stat(file)
        except FileNotFoundError:
            continue
        listed.append(Upload(file, status.st_size, status.st_mtime_ns))
    return listed


def _below(directory: str) -> list[str]:
    files = []
    for top, directories, names in os.walk(os.path.abspath(directory)):
        directories[:] = [name for name in directories if not name.startswith((".", "_"))]
        files += [str(Path(top, name)) for name in names if not name.startswith((".", "_"))]
    return files


def is_gzip(file: BinaryIO) -> bool:
    """Return whether a file is of gzip, whatever its name is. It stands at its beginning then."""
    file.seek(0)
    begin = file.read(len(_GZIP))
    file.seek(0)
    return begin == _GZIP


def existing(path: str) -> str:
    """Return under which name the file is there: this, or that of one that is still written.

    Raises FileNotFoundError if it is gone.
    """
    for name in (path, path + PART):
        if Path(name).exists():
            return name
    raise FileNotFoundError(f"{path} has been taken away before it was read")
