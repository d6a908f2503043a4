# SPDX-License-Identifier: MIT
"""What /proc/kbus shows of a device of the model (rule 35, and 'stats' in the decisions)."""

from __future__ import annotations

from . import answers
from .bus import Device
from .ksock import ModelKsock

HEADER = "# <device> is bound to <Ksock-ID> in <process-PID> as <Replier|Listener> for <message-name>\n"


def bindings_text(device: Device, number: int = 0) -> str:
    """The lines of /proc/kbus/bindings for the device with this number, the newest binding first."""
    rows = ""
    for binding in reversed(device.bindings):
        kind = "R" if binding.replier else "L"
        rows += (
            f"{number:3}: {binding.ksock.id:8} {binding.ksock.owner.pid:8}  {kind}  {binding.name.decode()}\n"
        )
    return HEADER + rows


def stats_text(device: Device, number: int = 0) -> str:
    """The lines of /proc/kbus/stats: the device, then its KSocks in the order of their ids."""
    lines = [f"device {number} " + in_pairs(of_device(device))]
    for ksock in sorted(device.ksocks, key=lambda ksock: ksock.id):
        lines.append(f"ksock {number} {ksock.id} " + in_pairs(of_ksock(ksock)))
    return "".join(f"{line}\n" for line in lines)


def in_pairs(numbers: dict[str, int]) -> str:
    """``key=value``, separated by blanks."""
    return " ".join(f"{name}={value}" for name, value in numbers.items())


def of_device(device: Device) -> dict[str, int]:
    """The numbers of a device's line."""
    return {
        "ksocks": len(device.ksocks),
        "bindings": len(device.bindings),
        "sent": device.sent,
        "last_serial": device.last_serial,
        "max_message_size": device.max_message_size,
        "report_replier_binds": device.report_binds,
        "verbose": device.verbose,
        "waiting": sum(ksock.waits for ksock in device.ksocks),
        "events_aside": device.events_aside,
    }


def of_ksock(ksock: ModelKsock) -> dict[str, int]:
    """The numbers of a KSock's line."""
    queue = ksock.queue
    return {
        **ksock.owner._asdict(),
        "queued": len(queue.copies),
        "queue_limit": queue.limit,
        "bytes": queue.bytes,
        "bytes_limit": queue.max_bytes,
        "queued_max": queue.highest_count,
        "bytes_max": queue.highest_bytes,
        "sent": ksock.sent,
        "received": ksock.received,
        "lost": ksock.lost,
        "bindings": sum(binding.ksock is ksock for binding in ksock.device.bindings),
        "awaiting": ksock.reserved,
        "owed": len(answers.owed_by(ksock)),
        "unreplied": ksock.unreplied,
        "only_once": ksock.only_once,
        "waiting": int(ksock.waits),
    }
