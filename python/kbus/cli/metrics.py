# SPDX-License-Identifier: MIT
"""What ``/proc/kbus/stats`` says, as metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._processes import command_of
from ..inspect import DeviceStats
from ..terminal.monitoring import Metric, family
from ..terminal.output import printable

__all__ = ["OF_DEVICES", "OF_KSOCKS", "lines"]

OF_DEVICES = (
    Metric("sent", "sent_messages_total", "Messages sent on a device, those of KBUS itself included."),
    Metric("last_serial", "last_serial", "The last serial number that a device has given a message."),
    Metric("bindings", "bindings", "Bindings of all KSocks of a device."),
    Metric("waiting", "waiting_messages", "Messages that wait for room in the queues of listeners."),
    Metric("events_aside", "aside_events", "Events of unbinding that wait for room."),
    Metric("max_message_size", "max_message_bytes", "The most bytes that a message may have."),
    Metric("report_replier_binds", "report_replier_binds", "1 if binds of repliers are reported, else 0."),
    Metric("verbose", "verbose", "1 if the kernel logs what happens, else 0."),
)
OF_KSOCKS = (
    Metric("sent", "ksock_sent_messages_total", "Messages that a KSock has sent."),
    Metric("received", "ksock_received_messages_total", "Messages that a KSock has begun to read."),
    Metric("lost", "ksock_lost_messages_total", "Messages that a KSock has missed."),
    Metric("queued", "ksock_queued_messages", "Messages in the queue of a KSock."),
    Metric("queued_max", "ksock_queued_max_messages", "The most messages that the queue has held."),
    Metric("queue_limit", "ksock_queue_limit_messages", "The most messages that the queue takes."),
    Metric("bytes", "ksock_queued_bytes", "Bytes in the queue of a KSock."),
    Metric("bytes_max", "ksock_queued_max_bytes", "The most bytes that the queue has held."),
    Metric("bytes_limit", "ksock_queue_limit_bytes", "The most bytes that the queue takes."),
    Metric("bindings", "ksock_bindings", "Bindings of a KSock."),
    Metric("awaiting", "ksock_awaited_answers", "Requests of a KSock that have no answer yet."),
    Metric(
        "owed", "ksock_owed_answers", "Requests that a KSock must answer, whether it has read them or not."
    ),
    Metric("unreplied", "ksock_unreplied_requests", "Those of them that it has read."),
    Metric("only_once", "ksock_only_once", "1 if a KSock takes a message once, else 0."),
    Metric("waiting", "ksock_waiting_messages", "1 while a message of a KSock waits for room, else 0."),
)
_PREFIX = "kbus_"


def lines(devices: Sequence[DeviceStats]) -> Iterator[str]:
    """Yield the metrics of some devices, and of each of their KSocks, as printable lines."""
    # The escapes are for a terminal; those of the format come on top, so that readers get these.
    commands = {each.pid: printable(command_of(each.pid)) for device in devices for each in device.ksocks}
    ksocks = [
        (
            {
                "device": each.device,
                "ksock": each.ksock_id,
                "pid": each.pid,
                "uid": each.uid,
                "command": commands[each.pid],
            },
            each,
        )
        for device in devices
        for each in device.ksocks
    ]
    number = Metric("", "ksocks", "KSocks of a device.")
    yield from family(_PREFIX, number, [({"device": each.device}, len(each.ksocks)) for each in devices])
    for metric in OF_DEVICES:
        values = [({"device": each.device}, int(getattr(each, metric.field))) for each in devices]
        yield from family(_PREFIX, metric, values)
    for metric in OF_KSOCKS:
        yield from family(
            _PREFIX, metric, [(labels, int(getattr(each, metric.field))) for labels, each in ksocks]
        )
