# SPDX-License-Identifier: MIT
"""Why something was refused, in the words of the bus, and what to do about it.

Each function returns an OSError with the errno of another one. Its ``strerror`` is the reason, its
``filename`` what was refused: a message name or a path. One without an errno is returned as it is.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from typing import Optional, Protocol

from . import _abi as abi
from . import inspect, names
from ._device import stand_in
from ._processes import command_of, group_name, has_ended, holders, user_name
from ._settings import NEEDS_RW, PeerInfo
from .messages import Message

HOW_TO_LOAD = "load it with `modprobe kbus`, or with `insmod kbus.ko` where it was built"
_HOW_TO_MAKE_MORE = "its parameter num_kbus_devices and the ioctl NEWDEVICE make more"
_HOW_TO_STAND_IN_FOR_MORE = "this is a bus for tests: Bus(devices=N) and `kbus-testbus --devices N` have more"
_NO_MEMORY = (
    "this user's queues and messages would take more memory than they may (module parameter max_user_bytes)"
)
_WHY_NO_PIECES = {
    errno.EADDRNOTAVAIL: "this Request has no replier, or the requester of this reply has gone;"
    " `kbus bindings` shows what is bound",
    errno.EBADMSG: "its name is illegal, or a wildcard",
    errno.EINVAL: "what has been written is not a whole message",
    errno.ENAMETOOLONG: f"a message name has {abi.MAX_NAME_LEN} bytes at most",
}
_NO_DEVICE = (errno.ENOENT, errno.ENXIO, errno.ENODEV)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM)


class Subject(Protocol):
    """What these functions ask a Ksock."""

    which: int

    @property
    def name(self) -> str:
        """The path of its device."""

    @property
    def is_real(self) -> bool:
        """Whether that is a device of the module."""

    def find_replier(self, name: str) -> Optional[int]:
        """The id of the KSock that is bound as replier to exactly this name."""

    def peer(self, ksock_id: int) -> PeerInfo:
        """The process and the user that opened it."""

    def max_message_size(self) -> int:
        """How long a message can be."""

    def max_messages(self) -> int:
        """How many messages its queue takes."""


def opening(error: OSError, path: str, device: int) -> OSError:
    """Opening a device has been refused."""
    reasons = {
        errno.EMFILE: "this user has too many KSocks (module parameter max_user_ksocks),"
        " or this process too many open files (ulimit -n)",
        errno.ENOBUFS: _NO_MEMORY,
        **{number: _why_no_device(device) for number in _NO_DEVICE if number == error.errno},
        **{number: _who_may_open(path) for number in _NOT_ALLOWED if number == error.errno},
    }
    return _because(error, reasons, path)


def binding(error: OSError, ksock: Subject, name: str, is_replier: bool) -> OSError:
    """Binding has been refused."""
    reasons = {
        **_wrong_name(name),
        errno.EBADF: NEEDS_RW,
        errno.EINVAL: "a Ksock that is an observer by one name is so by all that it listens to",
        errno.ENOSPC: "too many bindings"
        " (module parameters max_ksock_bindings, max_user_bindings, max_name_bindings)",
        errno.ENOBUFS: _NO_MEMORY,
        errno.EAGAIN: "a listener to $.KBUS.ReplierBindEvent has no room for the event; try again",
    }
    if error.errno == errno.EADDRINUSE and is_replier:
        reasons[errno.EADDRINUSE] = _who_replies(ksock, name)
    return _because(error, reasons, name)


def unbinding(error: OSError, name: str, is_replier: bool) -> OSError:
    """Unbinding has been refused."""
    reasons = {
        **_wrong_name(name),
        errno.EINVAL: f"this Ksock is not bound to it as a {'replier' if is_replier else 'listener'}",
        errno.EAGAIN: "a listener to $.KBUS.ReplierBindEvent has no room for the event; try again",
    }
    return _because(error, reasons, name)


def looking_up(error: OSError, name: str) -> OSError:
    """A question about a name has been refused."""
    return _because(error, _wrong_name(name, "no Request has the name of a wildcard"), name)


def sending(error: OSError, ksock: Subject, message: Optional[Message]) -> OSError:
    """Writing or sending a message has been refused; None is one that was written in pieces."""
    reasons = {
        errno.EAGAIN: "a recipient that must get it has no room; poll for POLLOUT, then send() or discard()",
        errno.EALREADY: "another message has been written and not sent; send() or discard() that first",
        errno.EACCES: "names that begin with $.KBUS. are KBUS's own",
        errno.EBADF: NEEDS_RW,
        errno.EBUSY: "a recipient that must get it has a full queue, so it was not delivered",
        errno.ECONNREFUSED: "this reply is not expected: the Request has been answered or abandoned",
        errno.ENOBUFS: _NO_MEMORY,
        errno.ENOMSG: "nothing has been written",
        errno.EPIPE: "its replier is not the one that it was sent to",
        **(_why_not_this(message) if message else _WHY_NO_PIECES),
    }
    if error.errno == errno.EMSGSIZE:
        reasons[errno.EMSGSIZE] = _why_too_long(ksock, message)
    if error.errno == errno.ENOLCK:
        reasons[errno.ENOLCK] = _why_no_answer(ksock, message)
    return _because(error, reasons, message.name if message else None)


def _why_not_this(message: Message) -> dict[int, str]:
    reasons = {
        **_wrong_name(message.name, "no message is sent to a wildcard"),
        errno.EADDRNOTAVAIL: "it has no replier; `kbus bindings` shows what is bound",
        errno.EINVAL: "a flag is unknown, or flags exclude each other: ALL_OR_WAIT and ALL_OR_FAIL,"
        " or WANT_A_REPLY and in_reply_to",
    }
    if message.is_reply():
        reasons[errno.EADDRNOTAVAIL] = "the requester has gone"
        reasons[errno.ENOBUFS] = "the requester has no room for it"
    elif message.flags & Message.ALL_OR_WAIT:
        reasons[errno.EBUSY] = "a recipient that must get it can never have room, so it was not delivered"
    return reasons


def _why_too_long(ksock: Subject, message: Optional[Message]) -> str:
    longest = ksock.max_message_size()
    if message and message.total_length() <= longest:
        return "another message had been written and not sent; both are dropped"
    or_else = "" if message else "its header says, or than "
    return f"it is longer than {or_else}the {longest} bytes that a message may have"


def _why_no_answer(ksock: Subject, message: Optional[Message]) -> str:
    if message and message.id and message.id.network_id:
        return f"16 Requests with the id {message.id} wait for answers already; give it another id"
    most = ksock.max_messages()
    return (
        f"the queue of this Ksock is full: it takes {most} messages, answers to come included;"
        " read them, wait for answers, or let it take more (set_max_messages)"
    )


def reading_proc(error: OSError) -> OSError:
    """Reading a file of ``/proc/kbus`` has been refused."""
    reasons = {
        errno.ENOENT: f"the kbus module is not loaded; {HOW_TO_LOAD}",
        **{number: _who_may_look() for number in _NOT_ALLOWED if number == error.errno},
    }
    return _because(error, reasons, error.filename and str(error.filename))


def _because(error: OSError, reasons: dict[int, str], what: Optional[str]) -> OSError:
    number = error.errno
    if number is None:
        # The bus has refused nothing: a signal handler has raised this.
        return error
    return OSError(number, reasons.get(number, error.strerror), what)


def _wrong_name(name: str, otherwise: str = "") -> dict[int, str]:
    """What is wrong with a name, or else ``otherwise``, by errno."""
    reason = otherwise or "KBUS itself sends messages of that name, and they have no replier"
    try:
        names.check(name)
    except ValueError as wrong:
        reason = str(wrong)
    return {errno.EBADMSG: reason, errno.ENAMETOOLONG: reason}


def _why_no_device(number: int) -> str:
    try:
        there = inspect.devices()
    except PermissionError:
        return f"the module has not made it; {_HOW_TO_MAKE_MORE}"
    except OSError:
        return f"the kbus module is not loaded; {HOW_TO_LOAD}"
    if number in there:
        return "the module has made it, but it has no node; udev, or mknod, makes one"
    shown = ", ".join(f"/dev/kbus{each}" for each in there)
    if stand_in():
        return f"there is {shown}; {_HOW_TO_STAND_IN_FOR_MORE}"
    return f"the module has made {shown}; {_HOW_TO_MAKE_MORE}"


def _who_may_look() -> str:
    directory = str(inspect.STATS.parent)
    try:
        status = os.stat(directory)
    except OSError:
        return "not every user may read this /proc"
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


def _who_replies(ksock: Subject, name: str) -> str:
    """Say which KSock is the replier; it may have left by now."""
    replier = ksock.find_replier(name)
    if not replier:
        return "a KSock that has just left was the replier for it"
    try:
        pid = ksock.peer(replier).pid
    except OSError:
        return f"KSock {replier} is the replier for it"
    if not has_ended(pid):
        return f"KSock {replier} (process {pid}, {command_of(pid)}) is the replier for it"
    heirs = " or ".join(f"{heir} ({command_of(heir)})" for heir in _heirs(ksock))
    return (
        f"KSock {replier} is the replier for it: its opener, process {pid}, has ended;"
        f" another process has inherited it{heirs and ', perhaps '}{heirs}, and keeps the name until it ends"
    )


def _heirs(ksock: Subject) -> list[int]:
    """The processes that have the device open more often than they have opened it."""
    if not ksock.is_real:
        return []
    try:
        opened = Counter(each.pid for device in inspect.stats(ksock.which) for each in device.ksocks)
    except OSError:
        return []
    return [pid for pid, count in holders(ksock.name).items() if count > opened[pid]]
