# SPDX-License-Identifier: MIT
"""The socket that a daemon listens on: made, taken over from whoever started it, and taken away again."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from typing import NamedTuple, Optional

from .address import Address, made_up

#: Connections that wait to be accepted; others wait in connect(), each process in its turn. A new client
#: waits for all of them, and one user can fill this, so it is short.
_BACKLOG = 16
#: How many wait to be accepted at most: the kernel takes one more than it is asked for.
MOST_WAITING = _BACKLOG + 1
#: the kernel's number, which Python does not name; since Linux 6.16
_SO_PASSRIGHTS = 83
#: the first descriptor that systemd passes
_FIRST_PASSED = 3


class CannotListen(Exception):
    """The text says why."""


class Access(NamedTuple):
    """Who may open the path: the bits of the socket's mode, and its group (an id) if not the daemon's."""

    mode: int = 0o700
    group: Optional[int] = None


class Listening:
    """A listening socket. ``address`` is where it is.

    A path appears with the right mode, and with somebody listening, or not at all. Raises CannotListen.
    """

    def __init__(self, address: Address, access: Access, replace: bool) -> None:
        self._made: Optional[tuple[int, int]] = None
        if address.fd is not None:
            self.socket = _inherited(address.fd)
        elif address.path is not None:
            self.socket = _new_socket()
            try:
                self._appear(address.path, access, replace)
            except BaseException:
                self.socket.close()
                raise
        else:
            address = address if address.abstract is not None else made_up()
            self.socket = _new_socket()
            _bind(self.socket, address.to_connect(), str(address))
            self.socket.listen(_BACKLOG)
        self.address = address
        self.socket.setblocking(False)

    def _appear(self, path: str, access: Access, replace: bool) -> None:
        temporary = f"{path}.{os.getpid()}"
        with _only_one(path):
            _make_way(path, replace)
            try:
                # Under a short name in its directory, as the temporary one may be too long for an address.
                before = os.umask(0o777)
                try:
                    _bind_in_directory(self.socket, temporary)
                finally:
                    os.umask(before)
                if access.group is not None:
                    os.chown(temporary, -1, access.group)
                os.chmod(temporary, access.mode)
                self.socket.listen(_BACKLOG)
                os.rename(temporary, path)
            except OSError as error:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise CannotListen(f"{path}: {error.strerror}") from error
            status = os.stat(path)
            self._made = (status.st_dev, status.st_ino)

    def close(self) -> None:
        """Close the socket, and take the path away. Can be repeated."""
        self.take_away()
        self.socket.close()

    def take_away(self) -> None:
        """Take the path away if it is still this socket's, so that nobody connects any more."""
        if self._made is not None and self.address.path is not None:
            with contextlib.suppress(OSError):
                status = os.lstat(self.address.path)
                if (status.st_dev, status.st_ino) == self._made:
                    os.unlink(self.address.path)
            self._made = None


def passed() -> Optional[Address]:
    """Return the socket that systemd has passed to this process, or None if it has not.

    Raises CannotListen if there are several.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    count = os.environ.pop("LISTEN_FDS", "0")
    for name in ("LISTEN_PID", "LISTEN_FDNAMES"):
        os.environ.pop(name, None)
    if count != "1":
        raise CannotListen(f"{count} sockets were passed, and not one")
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
        if (taken.family, taken.type) != (socket.AF_UNIX, socket.SOCK_SEQPACKET):
            taken.detach()
            raise CannotListen(f"/dev/fd/{fd} is no SEQPACKET socket of the family UNIX")
        if not taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            taken.listen(_BACKLOG)
    except OSError as error:
        raise CannotListen(f"/dev/fd/{fd}: {error.strerror}") from error
    os.set_inheritable(fd, False)
    return taken


def _bind(unbound: socket.socket, address: bytes, shown: str) -> None:
    try:
        unbound.bind(address)
    except OSError as error:
        unbound.close()
        raise CannotListen(f"{shown}: {error.strerror}") from error


def _bind_in_directory(unbound: socket.socket, path: str) -> None:
    directory = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        unbound.bind(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    finally:
        os.close(directory)


@contextlib.contextmanager
def _only_one(path: str) -> Iterator[None]:
    """Keep other daemons from making a socket in the same directory meanwhile."""
    try:
        directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise CannotListen(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def _make_way(path: str, replace: bool) -> None:
    """Leave alone what is not to be replaced; the new socket replaces the rest. Raises CannotListen."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotListen(f"{path}: {error.strerror}") from error
    if stat.S_ISSOCK(status.st_mode):
        if _is_live(path):
            raise CannotListen(f"{path}: somebody listens there")
    elif not replace:
        raise CannotListen(f"{path}: it is there already, and no socket (-r replaces it)")
    elif stat.S_ISDIR(status.st_mode):
        raise CannotListen(f"{path}: it is a directory")


def _is_live(path: str) -> bool:
    """Whether the socket there is somebody's. Connecting by another type tells, and makes nobody a client."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        return probe.connect_ex(path) != errno.ECONNREFUSED
