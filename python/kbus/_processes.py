# SPDX-License-Identifier: MIT
"""Processes, users and groups by their numbers."""

from __future__ import annotations

import glob
import grp
import os
import pwd
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["ENDED", "command_of", "group_name", "has_ended", "holders", "user_name"]

#: in place of a program's name: the process has ended, and another has inherited what it opened
ENDED = "ended"

#: Interpreters of scripts, and the letter of the option that is followed by the program itself
_INTERPRETERS = (
    (re.compile(r"(python|pypy)[0-9.]*|(ba|da|z|k|)sh|busybox"), "c"),
    (re.compile(r"(perl|ruby|lua|node)[0-9.]*"), "e"),
)
#: Options that are followed by an argument of their own
_WITH_ARGUMENT = ("-W", "-X", "-o", "-O")
#: Several options in one word, as in ``-lc``
_LETTERS = re.compile("-[A-Za-z]+")


def command_of(pid: int) -> str:
    """The name of the program that the process runs, ENDED, or ``?`` if it can't be seen.

    Where that is an interpreter of scripts, such as ``python3``, it is the script's name, or the module's.
    """
    if has_ended(pid):
        return ENDED
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


def has_ended(pid: int) -> bool:
    """Whether a process has ended or is a zombie; False for 0, a process of another namespace."""
    try:
        # The name, in brackets, can have brackets too.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2][0] in "ZX"
    except OSError:
        pass
    # A process of another user may be hidden there.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def holders(path: str) -> Counter[int]:
    """The processes that have a file open, and with how many descriptors, as far as that can be seen."""
    found: Counter[int] = Counter()
    for descriptor in glob.iglob("/proc/[0-9]*/fd/*"):
        with suppress(OSError):
            if os.readlink(descriptor) == path:
                found[int(descriptor.split("/")[2])] += 1
    return found


def _script(words: Sequence[str], letter: str) -> str:
    """What an interpreter with these arguments runs; "" if that has no name.

    A program without one follows an option with this ``letter``.
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
