# SPDX-License-Identifier: MIT
"""Who is behind a number: processes, users and groups."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["command_of", "group_name", "user_name"]


#: Interpreters of scripts, and the letter of the option behind which one has the program itself
_INTERPRETERS = (
    (re.compile(r"(python|pypy)[0-9.]*|(ba|da|z|k|)sh|busybox"), "c"),
    (re.compile(r"(perl|ruby|lua|node)[0-9.]*"), "e"),
)
#: Options that are followed by an argument of their own
_WITH_ARGUMENT = ("-W", "-X", "-o", "-O")
#: Several options in one word, as in ``-lc``
_LETTERS = re.compile("-[A-Za-z]+")


def command_of(pid: int) -> str:
    """The name of the program that the process runs, or ``?`` if it is gone or can't be seen.

    Where that is an interpreter of scripts, such as ``python3``, it is the script's name, or the module's.
    """
    proc = Path(f"/proc/{pid}")
    try:
        name = (proc / "comm").read_text(encoding="utf-8", errors="backslashreplace").rstrip("\n")
        letter = next((each for names, each in _INTERPRETERS if names.fullmatch(name)), "")
        if not letter:
            return name
        words = (proc / "cmdline").read_text(encoding="utf-8", errors="backslashreplace").split("\0")
    except OSError:
        return "?"
    return _script(words[1:-1], letter) or name


def _script(words: Sequence[str], letter: str) -> str:
    """What an interpreter with these arguments runs; "" if that has no name.

    A program without one is behind an option with this ``letter``.
    """
    rest = iter(words)
    for word in rest:
        last = word[-1] if _LETTERS.fullmatch(word) else ""
        if last == letter:
            return ""
        if last == "m":
            return next(rest, "")
        if word in _WITH_ARGUMENT:
            next(rest, "")
        elif not word.startswith("-"):
            return os.path.basename(word)
    return ""


def user_name(uid: int) -> str:
    """The user's name, or the number if there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """The group's name, or the number if there is none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
