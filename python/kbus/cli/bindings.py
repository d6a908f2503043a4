# SPDX-License-Identifier: MIT
"""``kbus bindings``: show who is bound to what."""

from __future__ import annotations

import argparse
import dataclasses

from .. import inspect
from . import options
from .failures import proc_failure
from .output import put_json, put_table
from .processes import command_of


def add(subparsers: options.Subparsers) -> None:
    """Tell argparse of this subcommand."""
    parser = subparsers.add_parser(
        "bindings",
        help="show who is bound to what",
        description="Show all bindings, the newest first.",
    )
    options.add_device_filter(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    try:
        found = inspect.bindings(args.device)
    except OSError as error:
        raise proc_failure(error) from error
    if args.json:
        for each in found:
            put_json(dataclasses.asdict(each))
        return
    put_table(
        ("DEVICE", "KSOCK", "PID", "COMMAND", "AS", "NAME"),
        [
            (
                f"kbus{each.device}",
                each.ksock_id,
                each.pid,
                command_of(each.pid),
                "replier" if each.is_replier else "listener",
                each.name,
            )
            for each in found
        ],
    )
