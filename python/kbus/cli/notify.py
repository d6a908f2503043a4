# SPDX-License-Identifier: MIT
"""Telling systemd how a service is: sd_notify without a library."""

from __future__ import annotations

import contextlib
import os
import socket

__all__ = ["notify"]


def notify(*states: str) -> None:
    """Tell whoever started this, if they asked for it with ``NOTIFY_SOCKET``: ``READY=1`` and the like.

    Source: sd_notify(3).
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
        contextlib.suppress(OSError),
    ):
        sock.sendto("\n".join(states).encode(), address)
