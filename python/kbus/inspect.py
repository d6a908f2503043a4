# SPDX-License-Identifier: MIT
"""What ``/proc/kbus`` shows, as Python values.

A later kernel module may add ``key=value`` pairs to a line of ``stats``; they are ignored here. Anything
else that is malformed is a ValueError that names the file and the line. Source: semantics, rule 35, and for
``stats`` the project's design decisions.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

from ._device import proc_text, refused

__all__ = ["BINDINGS", "STATS", "Binding", "DeviceStats", "KsockStats", "bindings", "devices", "stats"]

BINDINGS = Path("/proc/kbus/bindings")
STATS = Path("/proc/kbus/stats")

PathLike = Union[str, Path]

_BINDING = re.compile(r" *([0-9]+): +([0-9]+) +([0-9]+) +([RL]) +(\S+)")


@dataclasses.dataclass(frozen=True)
class Binding:
    """One binding, a line of ``/proc/kbus/bindings``."""

    #: number of the device, N of /dev/kbusN
    device: int
    #: the KSock that is bound
    ksock_id: int
    #: process that opened the KSock, in the reader's pid namespace; 0 if it has no pid there
    pid: int
    #: True as replier, False as listener
    is_replier: bool
    #: the message name, or the wildcard
    name: str


@dataclasses.dataclass(frozen=True)
class KsockStats:
    """What one KSock holds and has done, a ``ksock`` line of ``/proc/kbus/stats``."""

    #: number of the device
    device: int
    #: the KSock's id
    ksock_id: int
    #: process that opened it, in the reader's pid namespace; 0 if it has no pid there
    pid: int
    #: user that opened it
    uid: int
    #: group that opened it
    gid: int
    #: messages in its queue
    queued: int
    #: most messages that its queue takes
    queue_limit: int
    #: bytes in its queue
    bytes: int
    #: most bytes that its queue takes
    bytes_limit: int
    #: most messages that its queue ever held
    queued_max: int
    #: most bytes that its queue ever held
    bytes_max: int
    #: messages that it sent
    sent: int
    #: messages that it began to read
    received: int
    #: copies that it missed
    lost: int
    #: its bindings
    bindings: int
    #: Requests it sent that have no answer yet
    awaiting: int
    #: Requests that it must answer, whether it has read them or not
    owed: int
    #: those of them that it has read
    unreplied: int
    #: True if it takes a message once, however many of its bindings match
    only_once: bool
    #: True while a message of its own waits for room
    waiting: bool


@dataclasses.dataclass(frozen=True)
class DeviceStats:
    """What one device holds and has done: a ``device`` line of ``/proc/kbus/stats`` and those below it."""

    #: number of the device
    device: int
    #: the KSocks, in the order of their ids
    ksocks: tuple[KsockStats, ...]
    #: bindings of all of them
    bindings: int
    #: messages sent, those of KBUS itself included
    sent: int
    #: serial number of the last message, 0 if there was none
    last_serial: int
    #: most bytes that a message may have
    max_message_size: int
    #: True if binds and unbinds of repliers are reported as messages
    report_replier_binds: bool
    #: True if the kernel logs what happens
    verbose: bool
    #: messages that wait for room
    waiting: int
    #: events of unbinding that are set aside
    events_aside: int


def bindings(device: Optional[int] = None, path: PathLike = BINDINGS) -> list[Binding]:
    """The bindings of all devices, or of one, as the file has them: the newest of a device first.

    OSError if the file can't be read: ENOENT if the module is not loaded, EACCES if it is not for this user;
    ValueError if a line is malformed.
    """
    found = []
    for where, line in _lines(path):
        if line.startswith("#"):
            continue
        match = _BINDING.fullmatch(line)
        if match is None:
            raise ValueError(f"{where}: this is not a binding: {line!r}")
        binding = Binding(int(match[1]), int(match[2]), int(match[3]), match[4] == "R", match[5])
        if device is None or binding.device == device:
            found.append(binding)
    return found


def stats(device: Optional[int] = None, path: PathLike = STATS) -> list[DeviceStats]:
    """The numbers of all devices, or of one; an empty list if there is no such device.

    OSError if the file can't be read: ENOENT if the module is not loaded, EACCES if it is not for this user;
    ValueError if a line is malformed.
    """
    found: list[tuple[dict[str, Any], list[KsockStats]]] = []
    for where, line in _lines(path):
        kind, *words = line.split()
        if kind == "device":
            found.append((_fields(DeviceStats, ("device",), words, where), []))
        elif kind == "ksock":
            ksock = KsockStats(**_fields(KsockStats, ("device", "ksock_id"), words, where))
            if not found or found[-1][0]["device"] != ksock.device:
                raise ValueError(f"{where}: KSock {ksock.ksock_id} is not below its device {ksock.device}")
            found[-1][1].append(ksock)
        else:
            raise ValueError(f"{where}: a line begins with 'device' or 'ksock', not with {kind!r}")
    return [
        DeviceStats(ksocks=tuple(ksocks), **fields)
        for fields, ksocks in found
        if device is None or fields["device"] == device
    ]


def devices(path: PathLike = STATS) -> list[int]:
    """The numbers of the devices that there are; errors as those of :func:`stats`."""
    return [each.device for each in stats(path=path)]


def _lines(path: PathLike) -> list[tuple[str, str]]:
    """The lines that are not blank, each with its place for errors to name."""
    try:
        text = proc_text(Path(path))
    except OSError as error:
        raise refused("reading_proc", error) from None
    return [(f"{path}:{number}", line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _fields(
    cls: type[Union[DeviceStats, KsockStats]], leading: Sequence[str], words: Sequence[str], where: str
) -> dict[str, Any]:
    """The values of a line: ``leading`` names the bare numbers it begins with, then come key=value pairs."""
    given = dict(zip(leading, words))
    for word in words[len(leading) :]:
        key, equals, value = word.partition("=")
        if not equals or key in given:
            raise ValueError(f"{where}: {word!r} is not key=value, or is there twice")
        given[key] = value
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.name == "ksocks":
            continue
        if field.name not in given:
            raise ValueError(f"{where}: {field.name!r} is missing")
        if not _is_number(given[field.name]):
            raise ValueError(f"{where}: {field.name!r} is {given[field.name]!r}, which is no number")
        number = int(given[field.name])
        fields[field.name] = bool(number) if field.type == "bool" else number
    return fields


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()
