# SPDX-License-Identifier: MIT
"""A client of an sbus daemon."""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import time
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, Optional, Union

from ..terminal.signals import polled
from . import address, packets, secret
from .limits import SOCKET_OVERHEAD
from .packets import CMSG, MSG, SUB, UNSUB

#: Text is sent as UTF-8.
Text = Union[str, bytes]


class Received(NamedTuple):
    """A message from the daemon. With ``is_control`` it comes from the daemon itself."""

    key: bytes
    payload: bytes
    is_control: bool = False


class Client:
    """A connection to an sbus daemon.

    ``at`` is a path or ``/dev/unix/abstract/HEX``. ``protocol`` is ``slash`` or ``dot``, as the daemon's.

    Use it with ``with``, or call ``close()``; a ResourceWarning reports one that was forgotten. Iterating
    gives messages as they come, for ever, and ends when the daemon closes the connection. ``fileno()``
    serves ``select``; it does not report messages that ``whoami`` has queued.

    Keys, patterns and payloads are bytes, or text, which is sent as UTF-8. What is received is bytes. Sending
    waits while the daemon has no room.

    Synchronization: each method is for one thread at a time.

    Raises ValueError for an address or protocol that there is not, OSError as connect(2) does. All methods
    raise ConnectionError when the daemon has closed the connection, and OSError with EBADF if closed here.
    """

    def __init__(self, at: str = address.DEFAULT, protocol: str = "slash") -> None:
        if protocol not in packets.PROTOCOLS:
            raise ValueError(f"there is no protocol {protocol!r}")
        self.protocol = packets.PROTOCOLS[protocol]
        where = address.parse(at).to_connect()
        self._aside: deque[Received] = deque()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.connect(where)
        except OSError as error:
            self._socket.close()
            error.filename = at
            raise

    def __repr__(self) -> str:
        return f"<Client, protocol {self.protocol.name}, descriptor {self._socket.fileno()}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Without _socket, __init__ has failed, and raised that itself.
        if hasattr(self, "_socket") and self._socket.fileno() >= 0:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            self.close()

    def close(self) -> None:
        """Leave. What has been published is delivered all the same. Can be repeated."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the descriptor of the socket, -1 if closed."""
        return self._socket.fileno()

    def subscribe(self, pattern: Text) -> None:
        """Receive messages whose keys match a pattern from now on."""
        self.send(SUB, pattern)

    def unsubscribe(self, pattern: Text) -> None:
        """Take back one ``subscribe`` with the same pattern."""
        self.send(UNSUB, pattern)

    def publish(self, key: Text, payload: Text = b"") -> None:
        """Send a message to all subscribers of its key.

        Raises OSError with EMSGSIZE if it does not fit the largest buffer that a socket may have
        (``net.core.wmem_max``).
        """
        self.send(MSG, key, payload)

    def control(self, key: Text, payload: Text = b"") -> None:
        """Send a control message to the daemon, for instance ``blocking/soft/discard`` or ``echo/off``."""
        self.send(CMSG, key, payload)

    def whoami(self, timeout: Optional[float] = None) -> bytes:
        """Return this client's credentials as the beginning of a key, such as ``!/cred/100/1000/1111``.

        Messages that come meanwhile are queued, to be received later in their order. Raises TimeoutError
        after ``timeout`` seconds, and has then closed the connection: the answer could come all the same.
        """
        with self.closed_at(TimeoutError):
            deadline = _after(timeout)
            self._ask(secret.WHOAMI, deadline)
            return self.expect_control(secret.WHOAMI, _until(deadline)).payload

    def expect_control(
        self, key: Union[bytes, tuple[bytes, ...]], timeout: Optional[float] = None
    ) -> Received:
        """Return the next control message with this key, or one of these; queue what comes before it.

        Raises TimeoutError after ``timeout`` seconds.
        """
        keys = (key,) if isinstance(key, bytes) else key
        deadline = _after(timeout)
        while (message := self._take(_until(deadline))) is not None:
            if message.is_control and message.key in keys:
                return message
            self._aside.append(message)
        raise TimeoutError(f"the daemon has not answered {b' or '.join(keys).decode()} in time")

    def dropped(self, timeout: Optional[float] = None) -> Optional[dict[str, int]]:
        """Return how many packets of this client, and copies for it, the daemon has dropped so far, by cause.

        None if the daemon does not report them, because it is not ``kbus-sbusd``. The causes are those of
        ``kbus-sbusd --stats``. All that this client has sent before has been dealt with. What comes
        meanwhile, and TimeoutError, are as with ``whoami``.
        """
        with self.closed_at(TimeoutError):
            deadline = _after(timeout)
            self._ask(packets.DROPPED, deadline)
            # A daemon that does not know that ignores it, but answers this.
            self._ask(secret.WHOAMI, deadline)
            answer = self.expect_control((packets.DROPPED, secret.WHOAMI), _until(deadline))
            if answer.key == secret.WHOAMI:
                return None
            self.expect_control(secret.WHOAMI, _until(deadline))
            dropped: dict[str, int] = json.loads(answer.payload)
            return dropped

    @contextmanager
    def closed_at(self, end: type[BaseException]) -> Iterator[None]:
        """Close, if waiting for an answer ends with this exception: the answer could come all the same."""
        try:
            yield
        except end:
            self.close()
            raise

    def _ask(self, key: bytes, deadline: Optional[float]) -> None:
        waits = deadline is not None and self._socket.getblocking()
        if waits and not _is_ready(self._socket, select.POLLOUT, _until(deadline)):
            raise TimeoutError(f"the daemon has had no room for {key.decode()} in time")
        self.control(key)

    def receive(self, timeout: Optional[float] = None) -> Optional[Received]:
        """Return the next message. Waits up to ``timeout`` seconds, or for ever, then None."""
        return self._aside.popleft() if self._aside else self._take(timeout)

    def __iter__(self) -> Client:
        return self

    def __next__(self) -> Received:
        with suppress(ConnectionError):
            if (message := self.receive()) is not None:
                return message
        raise StopIteration

    def set_blocking(self, waits: bool) -> None:
        """Choose whether sending waits while the daemon has no room, or raises BlockingIOError."""
        self._socket.setblocking(waits)

    def send(self, kind: bytes, key: Text, payload: Text = b"") -> None:
        """Send a packet of a kind that ``kbus.sbus.packets`` names. The other methods do it for you."""
        packet = packets.build(kind, _bytes(key), _bytes(payload))
        try:
            self._socket.send(packet, socket.MSG_NOSIGNAL)
        except OSError as error:
            if error.errno != errno.EMSGSIZE:
                raise
            # The system's net.core.wmem_max is the limit.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(packet) + SOCKET_OVERHEAD)
            self._socket.send(packet, socket.MSG_NOSIGNAL)

    def _take(self, timeout: Optional[float]) -> Optional[Received]:
        if timeout is not None and not _is_ready(self._socket, select.POLLIN, timeout):
            return None
        length = self._socket.recv_into(bytearray(1), 1, socket.MSG_PEEK | socket.MSG_TRUNC)
        packet = self._socket.recv(length) if length else b""
        if not packet:
            raise ConnectionResetError("the daemon has closed the connection")
        kind, key, payload = packets.parse(packet, packets.SLASH)
        return Received(key, payload, kind == CMSG)


def _after(timeout: Optional[float]) -> Optional[float]:
    """When so many seconds from now on are over."""
    return None if timeout is None else time.monotonic() + timeout


def _until(deadline: Optional[float]) -> Optional[float]:
    """Seconds that are left."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _is_ready(connected: socket.socket, events: int, timeout: Optional[float]) -> bool:
    if connected.fileno() < 0:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    poll = select.poll()
    poll.register(connected, events)
    return bool(polled(poll, timeout))


def explain(error: Exception, at: str) -> str:
    """Return the text for what a client of the daemon at this address has raised."""
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {at}"
    if isinstance(error, ConnectionError):
        return f"the daemon at {at} has closed the connection; if it has not ended, its log says why"
    return f"{at}: {getattr(error, 'strerror', None) or error}"


def _bytes(text: Text) -> bytes:
    # bytes() would take a number for how many there are.
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(memoryview(text))
