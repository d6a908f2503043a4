# SPDX-License-Identifier: MIT
"""What goes over the socket of a ``kbus-testbus``: a line of JSON for each call, and one for what it gives.

Bytes are text in it, each character a byte.
"""

from __future__ import annotations

import json
import socket
from typing import Any

_LATIN = "latin-1"


class BusGone(OSError):
    """There is no bus at the socket, or not any more; the text says where.

    The errno is ENOTCONN, which no call on the module's bus gives.
    """


class Connection:
    """A socket, by which one call at a time is made."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._file = sock.makefile("rb")

    def send(self, value: Any) -> None:
        """Send a value: None, numbers, text as bytes, lists of these."""
        self.socket.sendall(json.dumps(_with_text(value)).encode() + b"\n")

    def receive(self) -> Any:
        """Return the next value; tuples come as lists. Raises EOFError if the other end has closed."""
        line = self._file.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return _with_bytes(json.loads(line))

    def is_at_end(self) -> bool:
        """Whether no process has the other end any more, and all that it has sent has been received."""
        try:
            return not self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close the socket."""
        self._file.close()
        self.socket.close()


def _with_text(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return value.decode(_LATIN)
    if isinstance(value, (list, tuple)):
        return [_with_text(each) for each in value]
    if isinstance(value, dict):
        return {key: _with_text(each) for key, each in value.items()}
    return value


def _with_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(_LATIN)
    if isinstance(value, list):
        return [_with_bytes(each) for each in value]
    if isinstance(value, dict):
        return {key: _with_bytes(each) for key, each in value.items()}
    return value
