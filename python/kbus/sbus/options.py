# SPDX-License-Identifier: MIT
"""The option that the daemon and the command have in common."""

from __future__ import annotations

import argparse

from . import packets

__all__ = ["add_protocol"]


def add_protocol(parser: argparse._ActionsContainer) -> None:
    """``--protocol NAME``, one of ``packets.PROTOCOLS``."""
    parser.add_argument(
        "--protocol",
        choices=sorted(packets.PROTOCOLS),
        default="slash",
        help="dot is revisions 1 and 2, slash 3 and 4 (default: slash)",
    )
