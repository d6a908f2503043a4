# SPDX-License-Identifier: MIT
"""Who is behind a number: processes, users and groups."""

from __future__ import annotations

import grp
import pwd
from pathlib import Path

__all__ = ["command_of", "group_name", "user_name"]


def command_of(pid: int) -> str:
    """The name of the program that the process runs, or ``?`` if it is gone or can't be seen."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="backslashreplace").rstrip("\n")
    except OSError:
        return "?"


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
