# SPDX-License-Identifier: MIT
"""``kbus-testbus``: a bus for the tests of several processes, reached by a socket.

The processes find it by ``KBUS_TEST_BUS``, which has the path of the socket.
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Optional

from .._device import TEST_BUS
from .._stand_in import TransferAsked
from .._test_bus import Connection
from ..terminal.output import tell
from ..terminal.streams import close_stdout, forget_stdout, replace_closed_streams
from .core import MOST_DEVICES, Core
from .handle import Handle, caller
from .model.bus import DeviceLimits
from .model.parts import Owner

#: Signals that end it
_ENDS = (signal.SIGTERM, signal.SIGHUP)

_RETRY_AFTER = 0.1  # seconds


class CannotServe(Exception):
    """The text says why."""


class BusServer:
    """Serves a bus at a socket, in threads, until it is closed; then it stops the bus."""

    def __init__(self, path: str, core: Core) -> None:
        self._core = core
        #: by token, with the connection that keeps each open
        self._handles: dict[bytes, tuple[Handle, Connection]] = {}
        self._numbers = count(1)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(path)
        except OSError:
            self._listener.close()
            raise
        os.chmod(path, 0o600)
        self._listener.listen(100)
        self._path = path
        self._is_closed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections, and delete the socket."""
        self._is_closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        self._core.stop()

    def _accept(self) -> None:
        while not self._is_closed.is_set():
            try:
                connected, _ = self._listener.accept()
            except OSError:
                # A client that connects while there is no descriptor left stays queued until there is one.
                self._is_closed.wait(_RETRY_AFTER)
                continue
            connection = Connection(connected)
            try:
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            except RuntimeError:
                # There can be no more threads now. To this client the bus is gone.
                connection.close()

    def _serve(self, connection: Connection) -> None:
        opened: Optional[bytes] = None
        caller.has_gone = connection.is_at_end
        try:
            while True:
                what, *arguments = connection.receive()
                if what == b"open":
                    opened = self._open(connection, *arguments)
                else:
                    self._answer(connection, what, *arguments)
        except (EOFError, OSError, ValueError):
            # It has gone, or the bus has.
            pass
        except Exception as error:
            tell("kbus-testbus", f"a call failed: {error!r}")
        finally:
            if opened:
                self._close(opened)
            connection.close()

    def _close(self, token: bytes) -> None:
        # In this order, so that a handle that is not found is closed.
        self._handles[token][0].close()
        del self._handles[token]

    def _open(
        self, connection: Connection, number: int, mode: bytes, pid: int, uid: int, gid: int
    ) -> Optional[bytes]:
        try:
            handle = Handle(self._core, number, mode.decode(), Owner(pid, uid, gid))
        except OSError as error:
            connection.socket.sendall(b"-")
            connection.send([error.errno, os.strerror(error.errno or 0).encode()])
            return None
        token = str(next(self._numbers)).encode()
        self._handles[token] = handle, connection
        try:
            descriptor = handle.ready.descriptor()
            try:
                socket.send_fds(connection.socket, [b"+"], [descriptor])
            finally:
                os.close(descriptor)
            connection.send(token)
        except BaseException:
            # The client has gone, or there is no descriptor left: no client knows of this KSock.
            self._close(token)
            raise
        return token

    def _answer(self, connection: Connection, what: bytes, token: bytes, *arguments: Any) -> None:
        try:
            found = self._call(what, token, *arguments)
        except OSError as error:
            connection.send([False, [error.errno, os.strerror(error.errno or 0).encode()]])
        else:
            connection.send([True, found])

    def _call(self, what: bytes, token: bytes, *arguments: Any) -> Any:
        if what == b"do" and arguments[0] == b"proc_text":
            return self._core.proc_text(arguments[1].decode()).encode()
        handle, opener = self._handles.get(token, (None, None))
        if what == b"closed":
            if handle and opener and opener.is_at_end():
                handle.close()
            return None
        if handle is None:
            # The connection that has opened it is closed, as when a process is killed in the middle of this.
            raise OSError(errno.EBADF, "it is closed")
        if what == b"do":
            method, *rest = arguments
            # A message id is a pair.
            pairs = (tuple(each) if isinstance(each, list) else each for each in rest)
            return handle.do(method.decode(), *pairs)
        if what == b"send":
            return handle.send(*arguments)
        if what == b"transfer":
            *asked, nonblocking = arguments
            return handle.transfer(TransferAsked(*asked), nonblocking)
        if what == b"new_device":
            return handle.new_device()
        raise ValueError(f"there is no call {what!r}")


@contextmanager
def serving(devices: int = 1, core: Optional[Core] = None) -> Iterator[str]:
    """In the block there is a bus, that of ``core`` if it is given, at a socket, whose path is given."""
    with tempfile.TemporaryDirectory(prefix="kbus-testbus-") as directory:
        path = str(Path(directory) / "bus")
        try:
            server = BusServer(path, core or Core(DeviceLimits(), devices))
        except OSError as error:
            raise CannotServe(f"there can be no socket {path}: {error.strerror or error}") from None
        try:
            yield path
        finally:
            server.close()


def _devices(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= MOST_DEVICES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_DEVICES}")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    one = argparse.ArgumentParser(
        prog="kbus-testbus",
        usage="kbus-testbus [-h] [--devices N] [COMMAND...]",
        description="Run a bus for tests, without the kernel module. COMMAND is run with KBUS_TEST_BUS set,"
        " and when it ends this ends with its status. Without one, print the line that sets KBUS_TEST_BUS,"
        " and serve until SIGINT, SIGTERM or SIGHUP.",
    )
    one.add_argument("--devices", type=_devices, default=1, metavar="N", help="number of devices")
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="command to run")
    return one


def main(argv: Optional[list[str]] = None) -> int:
    """Run ``kbus-testbus``; return its exit status."""
    replace_closed_streams()
    args = parser().parse_args(argv)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    tell("kbus-testbus", "this is no module, but a bus for tests")
    try:
        return _serve_for(command, args.devices)
    except CannotServe as error:
        tell("kbus-testbus", str(error))
        return 1


def _serve_for(command: list[str], devices: int) -> int:
    if command:
        return _status_of(command, devices)
    with suppress(KeyboardInterrupt):
        for number in (*_ENDS, signal.SIGINT):
            _handle(number, signal.default_int_handler)
        with serving(devices) as path:
            try:
                print(f"export {TEST_BUS}={shlex.quote(path)}")
                # A shell that evaluates this waits for the end of it.
                close_stdout()
            except OSError as error:
                forget_stdout()
                raise CannotServe(f"can't write to standard output: {error.strerror}") from None
            signal.pause()
    return 0


def _status_of(command: list[str], devices: int) -> int:
    child: Optional[subprocess.Popen[bytes]] = None
    came: list[int] = []

    def end(number: int, frame: Optional[FrameType]) -> None:
        if child is None:
            came.append(number)
        elif number != signal.SIGINT:
            # Without its bus it is of no use. A terminal sends SIGINT to it as well, and it may need its bus
            # to shut down.
            child.send_signal(number)

    # Before anything is made that a signal could leave behind.
    for each in (*_ENDS, signal.SIGINT):
        _handle(each, end)
    with serving(devices) as path:
        if came:
            return 128 + came[0]
        try:
            child = subprocess.Popen(command, env={**os.environ, TEST_BUS: path})
        except OSError as error:
            raise CannotServe(f"can't run {command[0]}: {error.strerror}") from None
        # Those that came while it was being started.
        for number in came:
            child.send_signal(number)
        status = child.wait()
    return status if status >= 0 else 128 - status


def _handle(number: int, handler: Callable[[int, Optional[FrameType]], None]) -> None:
    """Have a signal handled, unless it is to be ignored, as by nohup."""
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
