# SPDX-License-Identifier: MIT
"""A connection that outlives the process that made it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from kbus.sbus import Client
from tests.kernel.helpers import PATIENCE
from tests.kernel.processes import in_child
from tests.sbus.running import Daemon, settle


def orphan(running: Daemon, prepare: Callable[[Client], None]) -> tuple[socket.socket, int]:
    """A connection whose process has ended, after it has done this, and the id that this had."""
    ours, theirs = socket.socketpair()

    def connect_and_pass() -> int:
        client = Client(running.path)
        prepare(client)
        settle(client)
        socket.send_fds(theirs, [b"."], [client.fileno()])
        return os.getpid()

    pid = in_child(connect_and_pass)
    _, (fd,), _, _ = socket.recv_fds(ours, 1, 1)
    ours.close()
    theirs.close()
    connection = socket.socket(fileno=fd)
    connection.settimeout(PATIENCE)
    return connection, pid
