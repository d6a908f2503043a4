# SPDX-License-Identifier: MIT
"""The socket that a daemon listens on: made or inherited, and taken away again."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path
from typing import Optional

from ..terminal.failures import Failure
from .address import Address, made_up
from .process import PidFile

#: Connections that wait to be accepted; others wait in connect(), each process in its turn. A new client
#: waits for all of them, and one user can fill this, so it is short.
_BACKLOG = 16
#: How many wait to be accepted at most: the kernel takes one more than it is asked for.
MOST_WAITING = _BACKLOG + 1
#: the kernel's number, which Python does not name; since Linux 6.16
_SO_PASSRIGHTS = 83
#: the first descriptor that systemd passes
_FIRST_PASSED = 3


class Listening:
    """A listening socket. ``address`` is where it is.

    A path appears with these bits of a mode, with this group (an id) if not the daemon's, and listening,
    or not at all. Raises Failure.
    """

    def __init__(self, address: Address, mode: int, group: Optional[int], replace: bool) -> None:
        self._made: Optional[tuple[int, int]] = None
        self.address = address if address != Address() else made_up()
        self.socket = _new_socket() if address.fd is None else _inherited(address.fd)
        try:
            if address.path is not None:
                self._appear(address.path, mode, group, replace)
            elif address.fd is None:
                self.socket.bind(self.address.to_connect())
            if not self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                self.socket.listen(_BACKLOG)
            self.socket.setblocking(False)
        except (OSError, Failure) as error:
            self.socket.close()
            raise Failure(f"{self.address}: {getattr(error, 'strerror', None) or error}") from error

    def _appear(self, path: str, mode: int, group: Optional[int], replace: bool) -> None:
        with contextlib.ExitStack() as stack:
            # One daemon at a time. Other users cannot open this file, and so cannot lock it.
            stack.enter_context(contextlib.closing(PidFile(f"{path}.kbus-sbusd.lock", 0o600)))
            _make_way(path, replace)
            directory = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, directory)
            # An address has room for this, however long the path is.
            temporary = f"/proc/self/fd/{directory}/.{os.urandom(8).hex()}"
            self.socket.bind(temporary)
            stack.callback(Path(temporary).unlink, missing_ok=True)
            # No client can connect before listen(), whatever the mode is.
            if group is not None:
                os.chown(temporary, -1, group)
            os.chmod(temporary, mode)
            self.socket.listen(_BACKLOG)
            os.rename(temporary, path)
            status = os.stat(path)
            self._made = (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Close the socket, and take the path away. Can be repeated."""
        self.take_away()
        self.socket.close()

    def take_away(self) -> None:
        """Take the path away if it is still this socket's, so that no client connects any more."""
        if self._made is not None and self.address.path is not None:
            with contextlib.suppress(OSError):
                status = os.lstat(self.address.path)
                if (status.st_dev, status.st_ino) == self._made:
                    os.unlink(self.address.path)
            self._made = None


def passed() -> Optional[Address]:
    """Return the socket that systemd has passed to this process, or None if it has not.

    Raises Failure if there are several.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    count = os.environ.pop("LISTEN_FDS", "0")
    for name in ("LISTEN_PID", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    if count != "1":
        raise Failure(f"{count} sockets were passed, and not one")
    return Address(fd=_FIRST_PASSED)


def _new_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Descriptors that clients pass are of no use, and closing one may take as long as its owner likes.
    with contextlib.suppress(OSError):
        made.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 0)
    return made


def _inherited(fd: int) -> socket.socket:
    try:
        taken = socket.socket(fileno=fd)
    except OSError as error:
        raise Failure(f"/dev/fd/{fd}: {error.strerror}") from error
    if (taken.family, taken.type) != (socket.AF_UNIX, socket.SOCK_SEQPACKET):
        taken.detach()
        raise Failure(f"/dev/fd/{fd} is no SEQPACKET socket of the family UNIX")
    taken.set_inheritable(False)
    return taken


def _make_way(path: str, replace: bool) -> None:
    """Raise an OSError if what is there is not to be replaced; the new socket replaces the rest."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISSOCK(mode):
        # Connecting by another type shows whether it is in use, and adds no client.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            if probe.connect_ex(path) != errno.ECONNREFUSED:
                raise OSError(errno.EADDRINUSE, "another process listens there")
    elif not replace:
        raise OSError(errno.EEXIST, "it is there already, and no socket (-r replaces it)")
    elif stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a directory")
