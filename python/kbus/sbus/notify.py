# SPDX-License-Identifier: MIT
"""What systemd is told (sd_notify), without its library."""

from __future__ import annotations

import os
import socket

from . import log


def tell_systemd(state: str) -> None:
    """Tell a state such as ``READY=1``, if systemd has started this process and wants to know."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        try:
            notify.sendto(state.encode(), address)
        except OSError as error:
            log.say(f"systemd cannot be told {state}: {error.strerror}")
