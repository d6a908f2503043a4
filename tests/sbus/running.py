# SPDX-License-Identifier: MIT
"""Daemons that run for a test, and sockets of clients that do what they should not."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kbus.sbus import Client
from kbus.sbus import daemon as command
from kbus.sbus.telling import ask
from tests.kernel.helpers import PATIENCE

DAEMON = [sys.executable, "-m", "kbus.sbus"]
SNDBUFFORCE = 32
"""The kernel's number, which Python does not name."""


def _nothing() -> None:
    pass


class Daemon:
    """A daemon in the foreground, on a path of its own unless `-a` is among the options.

    It is forked, as Python takes seconds to start in an emulated machine. `stop` ends it. It does
    `prepare` first.
    """

    def __init__(
        self, directory: Path, *options: str, name: str = "sbus", prepare: Callable[[], None] = _nothing
    ) -> None:
        self.path = str(directory / f"{name}.socket")
        self.log = directory / f"{name}.log"
        self.status: int | None = None
        where = () if "-a" in options else ("-a", self.path)
        ready = str(directory / f"{name}.notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(ready)
            os.chmod(ready, 0o777)
            self.pid = os.fork()
            if self.pid == 0:
                _run(prepare, ["-f", "-p", "/dev/null", *where, *options], self.log, ready)
            is_ready = _is_told(notify, self.pid)
        os.unlink(ready)
        if not is_ready:
            self.kill()
            raise AssertionError(self.said())

    def client(self, **more: str) -> Client:
        """One more client."""
        return Client(self.path, **more)

    def socket(self) -> socket.socket:
        """A bare connection."""
        return connected(self.path)

    def stats(self) -> list[dict[str, Any]]:
        """What it tells of itself: all of it, then each client. The one who asks is one of them."""
        return [json.loads(line) for line in ask(self.path).splitlines()]

    def dropped(self) -> dict[str, int]:
        """What it has dropped in all, by cause."""
        found: dict[str, int] = self.stats()[0]["dropped"]
        return found

    def said(self) -> str:
        """Its log."""
        return self.log.read_text()

    def memory(self) -> int:
        """Bytes that are resident."""
        words = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(words[1]) * os.sysconf("SC_PAGESIZE")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, unless it has ended."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def wait(self) -> int:
        """Its exit status, when it has ended."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def stop(self) -> None:
        """SIGTERM, unless it has ended; it must end well."""
        if self.status is None:
            self.signal(signal.SIGTERM)
            # A test that failed may have left it stopped.
            self.signal(signal.SIGCONT)
        assert self.wait() == 0, self.said()
        assert "Traceback" not in self.said()


def _is_told(notify: socket.socket, pid: int) -> bool:
    """Whether the process says that it is ready, before it ends."""
    process = os.pidfd_open(pid)
    try:
        poll = select.poll()
        for each in (notify.fileno(), process):
            poll.register(each, select.POLLIN)
        return notify.fileno() in dict(poll.poll(PATIENCE * 1000)) and notify.recv(100) == b"READY=1"
    finally:
        os.close(process)


def _run(prepare: Callable[[], None], arguments: list[str], log: Path, notify: str) -> None:
    """In the child: be the daemon."""
    try:
        _close_what_is_not_passed()
        prepare()
        with log.open("wb") as stderr:
            os.dup2(stderr.fileno(), 2)
        sys.stdout, sys.stderr = (os.fdopen(fd, "w", closefd=False) for fd in (1, 2))
        os.environ["NOTIFY_SOCKET"] = notify
        status = command.main(arguments)
        sys.stderr.flush()
        os._exit(status)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(70)


def _close_what_is_not_passed() -> None:
    """Have the descriptors that a program which is started would have: limits count those of the daemon."""
    # What is garbage already would close descriptors that are the daemon's by then.
    gc.freeze()
    for fd in map(int, os.listdir("/proc/self/fd")):
        # The one that was read is closed.
        with suppress(OSError):
            if fd > 2 and not os.get_inheritable(fd):
                os.close(fd)


@contextmanager
def daemon(
    directory: Path, *options: str, name: str = "sbus", prepare: Callable[[], None] = _nothing
) -> Iterator[Daemon]:
    """A daemon, which must end well."""
    running = Daemon(directory, *options, name=name, prepare=prepare)
    try:
        yield running
        running.stop()
    finally:
        running.kill()


def connected(path: str) -> socket.socket:
    """A connection that does not know the protocol."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    connection.settimeout(PATIENCE)
    return connection


def has_ended(pid: int) -> bool:
    """Whether a daemon in the background has ended; it is no child of whoever asks."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def settle(client: Client) -> None:
    """Come back when the daemon has done all that this client has sent."""
    client.whoami(PATIENCE)


def receive(client: Client, count: int) -> list[tuple[bytes, bytes]]:
    """The next messages, each as key and payload; all of them must come."""
    found: list[tuple[bytes, bytes]] = []
    for _ in range(count):
        message = client.receive(PATIENCE)
        assert message is not None, f"{len(found)} of {count} have come"
        found.append((message.key, message.payload))
    return found


def nothing_more(client: Client) -> None:
    """Nothing that was published before this is on its way to the client."""
    settle(client)
    assert client.receive(0) is None


def is_closed(connection: socket.socket) -> bool:
    """Whether the daemon closes the connection, after whatever it had sent."""
    deadline = time.monotonic() + PATIENCE
    try:
        while connection.recv(1 << 20):
            assert time.monotonic() < deadline
    except ConnectionResetError:
        pass
    return True


def closed(command: str, running: Daemon) -> str:
    """What `kbus-sbus` says when the daemon has closed the connection."""
    return (
        f"kbus-sbus {command}: the daemon at {running.path} has closed the connection;"
        " if it has not ended, its log says why\n"
    )
