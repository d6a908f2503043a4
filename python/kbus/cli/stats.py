# SPDX-License-Identifier: MIT
"""``kbus stats``: show what devices and KSocks hold and have done."""

from __future__ import annotations

import argparse
import dataclasses

from .. import inspect
from .._processes import command_of
from ..terminal import options
from ..terminal.failures import no_device, proc_failure
from ..terminal.output import put_json, put_line, put_table
from . import metrics

_KSOCK_HEAD = (
    *("KSOCK", "PID", "COMMAND", "QUEUED", "LIMIT", "MOST", "BYTES"),
    *("SENT", "RECEIVED", "LOST", "BINDINGS", "AWAITING", "OWED"),
)


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "stats",
        help="show what devices and KSocks hold and have done",
        description="Show each device and its KSocks: messages in the queue, most that it takes, most that it"
        " ever held, bytes in it; messages sent, received and lost; bindings; answers awaited and owed."
        " --json has more.",
    )
    options.add_device_filter(parser)
    form = parser.add_mutually_exclusive_group()
    options.add_json(form)
    form.add_argument("--prometheus", action="store_true", help="print metrics in Prometheus' text format")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    try:
        found = inspect.stats(args.device)
    except OSError as error:
        raise proc_failure(error) from error
    if not found and args.device is not None:
        raise no_device(args.device)
    if args.prometheus:
        for line in metrics.lines(found):
            put_line(line)
        return
    for device in found:
        if args.json:
            put_json(dataclasses.asdict(device))
        else:
            _show(device)


def _show(device: inspect.DeviceStats) -> None:
    put_line(
        f"kbus{device.device}: {device.sent} messages sent, the last serial number is {device.last_serial},"
        f" a message may have {device.max_message_size} bytes, {device.waiting} messages wait for room"
    )
    put_table(
        _KSOCK_HEAD,
        [
            (
                *(each.ksock_id, each.pid, command_of(each.pid)),
                *(each.queued, each.queue_limit, each.queued_max, each.bytes),
                *(each.sent, each.received, each.lost, each.bindings, each.awaiting, each.owed),
            )
            for each in device.ksocks
        ],
    )
