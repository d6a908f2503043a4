# SPDX-License-Identifier: MIT
"""Where captures are."""

from __future__ import annotations

import glob
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kbus.capture.input import begins_like_gzip, open_file
from kbus.capture.series import SUFFIXES

#: How the name of a capture ends that is still being written
PART = ".part"
_FILE = re.compile(r"^file:(//)?(?=/)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class Upload(NamedTuple):
    """A file, its size in bytes, and when it was last written, ns since 1970."""

    path: str
    size: int
    mtime_ns: int


def local(text: str, what: str, or_else: str = "and nowhere else") -> Path:
    """Return the path of a file or directory, whatever directory is the current one later, on other machines.

    Raises ValueError for what is no path: ``what`` says what it is for, ``or_else`` where else it may be.
    """
    path = _FILE.sub("", text)
    if has_scheme(path):
        raise ValueError(f"{text}: {what} must be in a directory, which all machines see, {or_else}")
    return Path(os.path.abspath(path))


def has_scheme(text: str) -> bool:
    """Return whether a text is no path, but says how to get there, like hdfs://host/path."""
    return bool(_SCHEME.match(text))


def uploads(where: str) -> list[Upload]:
    """Return the regular files that ``where`` names, in the order of their names: a file, a directory, or a
    pattern.

    All files below a directory are taken, but those that are hidden, and what is in hidden directories: the
    name begins with ``.`` or ``_``, and is no capture's. ``unusable`` tells them. Raises FileNotFoundError if
    there is nothing of that name.
    """
    listed = []
    for file in filter(_is_text, _named(where)):
        # It may have been renamed meanwhile, as when a recorder seals it: it is there next time.
        try:
            status = os.stat(file)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            listed.append(Upload(file, status.st_size, status.st_mtime_ns))
    return listed


def unusable(where: str) -> dict[str, str]:
    """Return why what ``where`` names is not read, by path, as ``uploads`` does not tell.

    Raises FileNotFoundError if there is nothing of that name.
    """
    found = dict.fromkeys(_named(where, hidden=True), "its name begins with . or _, and is no capture's")
    for file in _named(where):
        if not _is_text(file):
            found[file] = "its name is not UTF-8"
            continue
        try:
            open_file(file).close()
        except OSError as error:
            if os.path.lexists(file):
                found[file] = error.strerror or str(error)
    return found


def _named(where: str, hidden: bool = False) -> list[str]:
    """Return the files, or else what is ``hidden`` in directories."""
    path = str(local(where, "recordings"))
    found = [path] if os.path.exists(path) else glob.glob(path, recursive=True)
    if not found:
        raise FileNotFoundError(f"{where}: no such file or directory")
    files: set[str] = set()
    for each in found:
        if os.path.isdir(each):
            files.update(_below(each, hidden))
        elif not hidden:
            files.add(os.path.abspath(each))
    return sorted(files)


def _below(directory: str, hidden: bool) -> list[str]:
    found = []
    for top, directories, names in os.walk(os.path.abspath(directory)):
        passed_over = list(filter(_is_hidden, directories))
        directories[:] = [name for name in directories if name not in passed_over]
        found += [str(Path(top, name)) for name in (*passed_over, *names) if _is_hidden(name) == hidden]
    return found


def _is_text(name: str) -> bool:
    # Tables have no other text.
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_")) and not name.endswith(SUFFIXES)


def is_gzip(file: BinaryIO) -> bool:
    """Return whether a file is of gzip, whatever its name is. It stands at its beginning then."""
    file.seek(0)
    begin = file.read(2)
    file.seek(0)
    return begins_like_gzip(begin)


def existing(path: str) -> str:
    """Return under which name the file is there: this, or one that it has before or after it is sealed, and
    compressed.

    Raises FileNotFoundError if it is gone.
    """
    names = [path, path + PART, path.removesuffix(PART)]
    for suffix in SUFFIXES:
        if path.endswith(suffix):
            names += [path.removesuffix(suffix) + each for each in SUFFIXES]
    for name in names:
        if Path(name).exists():
            return name
    raise FileNotFoundError(f"{path} has been taken away before it was read")
