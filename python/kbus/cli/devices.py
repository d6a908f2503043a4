# SPDX-License-Identifier: MIT
"""``kbus devices``: show which devices there are, and who may open them."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
from typing import Any

from .. import inspect
from .._processes import group_name, user_name
from ..terminal import options
from ..terminal.failures import proc_failure
from ..terminal.output import put_json, put_table


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "devices",
        help="show which devices there are, and who may open them",
        description="Show the devices, who owns their nodes, and how many KSocks they have.",
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    try:
        found = inspect.stats()
    except OSError as error:
        raise proc_failure(error) from error
    records = [_record(device) for device in found]
    if args.json:
        for record in records:
            put_json(record)
        return
    put_table(("NODE", "USER", "GROUP", "MODE", "KSOCKS"), [_row(record) for record in records])


def _row(record: dict[str, Any]) -> list[Any]:
    """Without the number, which is in the node's name; of a node that is not there, hyphens."""
    return ["-" if value is None else value for value in list(record.values())[1:]]


def _record(device: inspect.DeviceStats) -> dict[str, Any]:
    """What is shown of a device; of a node that is not there, null."""
    node = f"/dev/kbus{device.device}"
    user = group = mode = None
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(node)
        user, group = user_name(status.st_uid), group_name(status.st_gid)
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
    return {
        "device": device.device,
        "node": node,
        "user": user,
        "group": group,
        "mode": mode,
        "ksocks": len(device.ksocks),
    }
