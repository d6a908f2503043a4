# SPDX-License-Identifier: MIT
"""What went wrong, and what to do about it."""

from __future__ import annotations

import errno
import os
import stat
from typing import Optional

from .. import Ksock, inspect
from .processes import command_of, group_name, user_name

__all__ = ["Failure", "bind_failure", "open_failure", "proc_failure", "send_failure"]

FAILED = 1
USAGE = 2
TIMED_OUT = 124

_HOW_TO_LOAD = "load it with `modprobe kbus`, or with `insmod kbus.ko` where it was built"
_HOW_TO_MAKE_MORE = "its parameter num_kbus_devices and the ioctl NEWDEVICE make more"
_NO_MEMORY = (
    "this user's messages and bindings would take more memory than they may (module parameter max_user_bytes)"
)


class Failure(Exception):
    """The command can't do what it was asked to. The text says why; ``status`` is what it ends with."""

    def __init__(self, text: str, status: int = FAILED) -> None:
        super().__init__(text)
        self.status = status

    @classmethod
    def usage(cls, text: str) -> Failure:
        """The command line is wrong in a way that only a look at all of it shows."""
        return cls(text, USAGE)

    @classmethod
    def timed_out(cls, text: str) -> Failure:
        """``--timeout`` has run out."""
        return cls(text, TIMED_OUT)


def open_failure(error: OSError, device: int) -> Failure:
    """Opening a device has failed."""
    node = f"/dev/kbus{device}"
    if error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
        return Failure(f"there is no device {node}: {_why_no_device()}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Failure(f"{node} may not be opened: {_who_may_open(node)}")
    if error.errno == errno.EMFILE:
        return Failure(f"can't open {node}: this user has too many KSocks (module parameter max_user_ksocks)")
    return Failure(f"can't open {node}: {error.strerror}")


def proc_failure(error: OSError) -> Failure:
    """Reading a file of /proc/kbus has failed."""
    if error.errno == errno.ENOENT:
        return Failure(f"{error.filename} is not there: the kbus module is not loaded; {_HOW_TO_LOAD}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Failure(f"{error.filename} may not be read: {_who_may_look()}")
    return Failure(f"can't read {error.filename}: {error.strerror}")


def bind_failure(error: OSError, ksock: Optional[Ksock], name: str) -> Failure:
    """Binding ``ksock`` to a legal ``name`` has failed; None is a listener that is closed by now."""
    reasons = {
        errno.EBADMSG: "KBUS itself sends messages of that name, and nobody replies to them",
        errno.ENOSPC: "too many bindings"
        " (module parameters max_ksock_bindings, max_user_bindings, max_name_bindings)",
        errno.ENOBUFS: _NO_MEMORY,
        errno.EAGAIN: "a listener to $.KBUS.ReplierBindEvent, who must be told, has no room; try again",
    }
    if error.errno == errno.EADDRINUSE and ksock:
        reasons[errno.EADDRINUSE] = f"{_who_replies(ksock, name)} is the replier for it"
    return _failure(f"can't bind to {name}", error, reasons)


def send_failure(error: OSError, ksock: Ksock, name: str, waits: bool = False) -> Failure:
    """Sending a message with the legal ``name`` has failed, one that ``waits`` for room or not."""
    busy = "can never have room for it" if waits else "has a full queue"
    reasons = {
        errno.EACCES: "names that begin with $.KBUS. are KBUS's own",
        errno.EADDRNOTAVAIL: "nobody replies to it; `kbus bindings` shows who is there",
        errno.EBUSY: f"somebody who must get it {busy}, so nobody got it",
        errno.EMSGSIZE: f"it is longer than the {ksock.max_message_size()} bytes that a message may have",
        errno.ENOBUFS: _NO_MEMORY,
    }
    return _failure(f"can't send {name}", error, reasons)


def _failure(what: str, error: OSError, reasons: dict[int, str]) -> Failure:
    return Failure(f"{what}: {reasons.get(error.errno or 0, error.strerror)}")


def _why_no_device() -> str:
    try:
        numbers = inspect.devices()
    except PermissionError:
        return f"the module has not made it; {_HOW_TO_MAKE_MORE}"
    except OSError:
        return f"the kbus module is not loaded; {_HOW_TO_LOAD}"
    there = ", ".join(f"/dev/kbus{number}" for number in numbers)
    return f"the module has made {there}; {_HOW_TO_MAKE_MORE}"


def _who_may_look() -> str:
    directory = str(inspect.STATS.parent)
    try:
        status = os.stat(directory)
    except OSError:
        return "this /proc is not for everybody"
    if status.st_gid == 0:
        return (
            f"{directory} belongs to root alone; be root, or load the module with proc_gid= the id of a group"
            " such as kbus"
        )
    group = group_name(status.st_gid)
    return f"{directory} belongs to the group {group}; {_how_to_join(group)}"


def _how_to_join(group: str) -> str:
    return f"`sudo adduser {user_name(os.geteuid())} {group}`, then log in again"


def _who_may_open(node: str) -> str:
    status = os.stat(node)
    mode = f"mode {stat.S_IMODE(status.st_mode):04o}"
    if status.st_gid == 0:
        return f"it belongs to root alone ({mode}); be root, or give it to a group with a udev rule"
    group = group_name(status.st_gid)
    return f"it belongs to the group {group} ({mode}); {_how_to_join(group)}"


def _who_replies(ksock: Ksock, name: str) -> str:
    """The replier, who may be gone by now."""
    replier = ksock.find_replier(name)
    if not replier:
        return "somebody who has just left"
    try:
        pid = ksock.peer(replier).pid
    except OSError:
        return f"KSock {replier}"
    return f"KSock {replier} (process {pid}, {command_of(pid)})"
