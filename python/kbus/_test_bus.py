# SPDX-License-Identifier: MIT
"""The bus of another process, a ``kbus-testbus``, in the place of the module.

Its socket carries a line of JSON for each call, and one for the result. Bytes are text in it, each
character a byte.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from contextlib import suppress
from typing import Any, Optional

from ._device import TEST_BUS
from ._stand_in import BusGone, StandInFile, TransferAsked, TransferResult

_LATIN = "latin-1"


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
        """Whether every process has closed the other end, and all that was sent there has been received."""
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


_PATIENCE = 5.0  # seconds

#: Errors that mean that the other end has closed a connection
_GONE = (EOFError, BrokenPipeError, ConnectionResetError)


class RemoteBus:
    """Reaches the bus whose socket has this path. Raises OSError if it is not there."""

    def __init__(self, path: str) -> None:
        self._path = path

    def open(self, number: int, mode: str, nonblocking: bool) -> StandInFile:
        """Open a device, as a Ksock does. Raises OSError."""
        handle = RemoteHandle(self._path)
        try:
            descriptor = handle.open(number, mode)
        except BaseException:
            handle.close()
            raise
        return StandInFile(f"/dev/kbus{number}", handle, descriptor, mode, nonblocking)

    def proc_text(self, name: str) -> str:
        """Return the text of the file of this name in ``/proc/kbus``."""
        handle = RemoteHandle(self._path)
        try:
            return bytes(handle.do("proc_text", name.encode())).decode()
        finally:
            handle.close()


class RemoteHandle:
    """An open KSock of the other process.

    Each call that is under way has a connection of its own, so that threads and signal handlers can make
    calls meanwhile; the first one keeps the KSock open.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._first = self._connect()
        self._idle: list[Connection] = []
        self._token = b""

    def _connect(self, limit: Optional[float] = None) -> Connection:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(limit)
            sock.connect(self._path)
        except OSError:
            sock.close()
            raise self._gone() from None
        except BaseException:
            sock.close()
            raise
        return Connection(sock)

    def _gone(self) -> OSError:
        reason = f"there is no kbus-testbus at {self._path}, the path in {TEST_BUS}"
        return BusGone(errno.ENOTCONN, reason)

    def open(self, number: int, mode: str) -> int:
        """Open a device, and return a descriptor to poll."""
        owner = [os.getpid(), os.geteuid(), os.getegid()]
        try:
            self._first.send(["open", number, mode.encode(), *owner])
            message, descriptors, _, _ = socket.recv_fds(self._first.socket, 1, 1)
            found = self._first.receive()
        except _GONE:
            raise self._gone() from None
        if message != b"+":
            self._raise(found)
        self._token = found
        if not descriptors:
            # The kernel drops a descriptor that this process has no number for.
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        (descriptor,) = descriptors
        os.set_inheritable(descriptor, False)
        return descriptor

    def _call(self, *words: Any) -> Any:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            connection.send([words[0], self._token, *words[1:]])
            is_good, found = connection.receive()
        except _GONE:
            connection.close()
            raise self._gone() from None
        except BaseException:
            # The next value on this connection would be the answer to this call.
            connection.close()
            raise
        self._idle.append(connection)
        if not is_good:
            self._raise(found)
        return found

    @staticmethod
    def _raise(error: list[Any]) -> None:
        number, text = error
        raise OSError(number, text.decode())

    def do(self, method: str, *arguments: Any) -> Any:
        """Call a method of the model's KSock."""
        found = self._call("do", method.encode(), *arguments)
        return found

    def new_device(self) -> int:
        """NEWDEVICE."""
        return int(self._call("new_device"))

    def send(self, nonblocking: bool) -> tuple[int, int]:
        """SEND."""
        network_id, serial_num = self._call("send", nonblocking)
        return network_id, serial_num

    def transfer(self, asked: TransferAsked, nonblocking: bool, delivered: Any = None) -> TransferResult:
        """TRANSFER."""
        outcome = TransferResult(*self._call("transfer", *asked, nonblocking))
        if delivered:
            delivered(outcome)
        return outcome

    def close(self) -> None:
        """Close it. When this returns the bus has closed it, unless a forked process has it too.

        If the bus does not answer, this returns after a while all the same.
        """
        for connection in (*self._idle, self._first):
            connection.close()
        self._idle.clear()
        if self._token:
            with suppress(OSError, EOFError):
                self._wait_until_closed()

    def _wait_until_closed(self) -> None:
        # By a connection of its own, since a process that was forked shares the others with its parent.
        connection = self._connect(_PATIENCE)
        try:
            connection.send(["closed", self._token])
            connection.receive()
        finally:
            connection.close()
