# SPDX-License-Identifier: MIT
"""Telling systemd how a service is: sd_notify without a library."""

from __future__ import annotations

import os
import socket

__all__ = ["notify"]


def notify(state: str, wait: bool = True) -> None:
    """Tell a state such as ``READY=1`` to whoever started this, if they asked for it with ``NOTIFY_SOCKET``.

    Raises OSError if they can't be told; without ``wait`` also if they have to read something else first.
    Source: sd_notify(3).
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.sendto(state.encode(), 0 if wait else socket.MSG_DONTWAIT, address)
