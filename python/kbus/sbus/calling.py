# SPDX-License-Identifier: MIT
"""Requests of a client, and Requests that it answers: an extension that other daemons do not know.

Each client that uses it has a KSock of its own. So what it has not been answered, and what it has not
answered, ends when it leaves, as that of any KBUS program does.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Optional

from .. import Ksock, Message, MessageId, Request, reply_to
from ..answering import settle
from ..failed import is_good
from . import packets
from .keymap import KeyMap, NameTooLong
from .rules import Denied
from .users import User

# From clients: the payload is a token and a NUL, a key and a NUL, and data; a key; a token, a NUL and data.
CALL, SERVE, UNSERVE, REPLY = b"kbus/call", b"kbus/serve", b"kbus/unserve", b"kbus/reply"
# To clients: token, status and data; key and status; token, key and data.
ANSWER, SERVED, REQUEST = b"kbus/answer", b"kbus/served", b"kbus/request"
#: What ``Calls.take`` is for.
KEYS = frozenset({CALL, SERVE, UNSERVE, REPLY})
#: Those of them that are messages to others.
MESSAGES = frozenset({CALL, REPLY})

#: Bytes of a token at most.
MOST_TOKEN = 64
#: Requests that a client has received and not answered, at most; then it gets no more of them.
MOST_OWED = 1000
#: Keys that a client can serve.
MOST_SERVED = 64
#: Clients of a user that can do any of this: the daemon has so many KSocks for all, and no more.
MOST_CALLERS = 64
#: How many messages are taken from KBUS before others have their turn.
MOST_AT_ONCE = 4

#: As long as the token of a Request to a client may come to be.
_LONGEST_NUMBER = b"9" * 19

# What a status can be beside none, which is success, and the keys of KBUS's own statuses.
NO_REPLIER, BUSY, TOO_LARGE, DENIED = b"no-replier", b"busy", b"too-large", b"denied"
NOT_POSSIBLE, TAKEN, NO_KEY = b"not-possible", b"taken", b"no-key"
_STATUSES = {
    errno.EADDRNOTAVAIL: NO_REPLIER,
    errno.ENOLCK: BUSY,
    errno.EBUSY: BUSY,
    errno.EAGAIN: BUSY,
    errno.EMSGSIZE: TOO_LARGE,
    errno.EADDRINUSE: TAKEN,
}
#: How a Request may have ended before its reply came
_ENDED = {
    errno.EADDRNOTAVAIL: "whoever asked has gone",
    errno.ECONNREFUSED: "whoever asked has given up",
    errno.ENOBUFS: "whoever asked has no room for it",
}


class Unknown(ValueError):
    """A control message that is not as it should be, or about a Request that is not there."""


class Calls:
    """The calls of one client, and the keys that it serves.

    ``may_call`` and ``may_serve`` raise Denied for a key with which the client may not do that, and
    PermissionError for one with which nobody may. ``most`` bytes have the packets of clients at most, so what
    would make a longer one for another client is refused, and an answer that would is without its data.
    """

    def __init__(
        self,
        device: int,
        user: User,
        keymap: KeyMap,
        most: int,
        may_call: Callable[[bytes], None],
        may_serve: Callable[[bytes], None],
    ) -> None:
        self._device = device
        self._user = user
        self._ksock: Optional[Ksock] = None
        self._keymap = keymap
        self._most = most
        self._may_call = may_call
        self._may_serve = may_serve
        #: the tokens of Requests that have no answer yet
        self._asked: dict[MessageId, bytes] = {}
        #: Requests that the client is to answer, without their data, by the tokens that they have there
        self._owed: dict[bytes, Message] = {}
        self._served: set[bytes] = set()
        self._next = 1

    def fileno(self) -> int:
        """Return the descriptor of the KSock, -1 if there is none. It is readable when something has come."""
        return -1 if self._ksock is None else self._ksock.fileno()

    def close(self) -> None:
        """Whoever waits for an answer of this client gets a status of KBUS's."""
        if self._ksock is not None:
            self._ksock.close()
            self._ksock = None
            self._user.callers -= 1

    @property
    def is_full(self) -> bool:
        """Whether the client owes so many answers that it gets no more Requests."""
        return len(self._owed) >= MOST_OWED

    def take(self, kind: bytes, payload: bytes) -> Optional[bytes]:
        """Do what a control message says, and return the packet that it is answered with at once, if any.

        Raises Unknown.
        """
        if kind == CALL:
            token, nul, rest = payload.partition(b"\0")
            key, other, data = rest.partition(b"\0")
            if not nul or not other or len(token) > MOST_TOKEN:
                raise Unknown(f"a {CALL.decode()} without a token, a NUL, a key and a NUL")
            status = self._call(token, key, data)
            return _packet(ANSWER, token, status) if status else None
        if kind == SERVE:
            return _packet(SERVED, payload, self._serve(payload))
        if kind == UNSERVE:
            self._unserve(payload)
        else:
            token, nul, data = payload.partition(b"\0")
            if not nul:
                raise Unknown(f"a {REPLY.decode()} without a NUL after its token")
            self._reply(token, data)
        return None

    def receive(self) -> list[bytes]:
        """Return packets for what has come, as many as may be at once."""
        found: list[bytes] = []
        while self._ksock is not None and len(found) < MOST_AT_ONCE and not self.is_full:
            message = self._ksock.read_next_msg()
            if message is None:
                break
            packet = self._packet(message)
            if packet is not None:
                found.append(packet)
        return found

    # What the client asks for.

    def _call(self, token: bytes, key: bytes, data: bytes) -> bytes:
        """Send a Request. Returns the status if it fails."""

        def call() -> None:
            self._may_call(key)
            self._check_length(_packet(REQUEST, _LONGEST_NUMBER, key), data)
            request = Request(self._keymap.name(key).decode(), data)
            self._asked[self._opened().send_msg(request)] = token

        return _status_of(call)

    def _serve(self, key: bytes) -> bytes:
        """Become the replier of a key. Returns the status."""

        def serve() -> None:
            self._may_serve(key)
            self._opened().bind(self._keymap.name(key).decode(), replier=True)
            self._served.add(key)

        return NOT_POSSIBLE if len(self._served) >= MOST_SERVED else _status_of(serve)

    def _unserve(self, key: bytes) -> None:
        if key not in self._served:
            raise Unknown(f"{key[:40]!r} is not served")
        try:
            self._opened().unbind(self._keymap.name(key).decode(), replier=True)
        except OSError as error:
            # A listener to bind events has no room for this one: the client may try again.
            raise Unknown(f"cannot unbind {key[:40]!r}: {error.strerror}") from error
        self._served.discard(key)

    def _reply(self, token: bytes, data: bytes) -> None:
        request = self._owed.get(token)
        if request is None:
            raise Unknown(f"no Request has the token {token[:40]!r}")
        try:
            self._check_length(_packet(ANSWER, bytes(MOST_TOKEN), b""), data)
            ended = _send_reply(self._opened(), reply_to(request, data))
        except OSError as error:
            # It still owes one.
            raise Unknown(f"the reply fails: {error.strerror}") from error
        del self._owed[token]
        if ended:
            raise Unknown(f"the reply fails: {_ENDED.get(ended, os.strerror(ended))}")

    def _check_length(self, begin: bytes, data: bytes) -> None:
        """Raise OSError if a packet that begins like that, and has this data, is too long for a client."""
        if len(begin) + len(data) > self._most:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))

    def _opened(self) -> Ksock:
        """The KSock, from the first use on. Raises OSError if there can be no further one."""
        if self._ksock is None:
            if self._user.callers >= MOST_CALLERS:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            self._ksock = Ksock(self._device, nonblocking=True)
            self._user.callers += 1
        return self._ksock

    # What KBUS brings.

    def _packet(self, message: Message) -> Optional[bytes]:
        data = message.data or b""
        if message.wants_us_to_reply():
            token = str(self._next).encode()
            self._next += 1
            message.data = None
            self._owed[token] = message
            return _packet(REQUEST, token, self._keymap.key(message.name.encode()), data)
        asked = message.in_reply_to
        if asked is None or asked not in self._asked:
            return None
        token = self._asked.pop(asked)
        packet = _packet(ANSWER, token, self._status(message), data)
        return packet if len(packet) <= self._most else _packet(ANSWER, token, TOO_LARGE)

    def _status(self, message: Message) -> bytes:
        """What an answer says: the key of one of KBUS's statuses, that of an error, or none for a Reply."""
        if is_good(message):
            return b""
        return message.name[2:].encode().replace(b".", self._keymap.separator)


def _packet(kind: bytes, first: bytes, second: bytes, data: bytes = b"") -> bytes:
    return packets.build(packets.CMSG, kind, b"\0".join((first, second, data)))


def _send_reply(ksock: Ksock, reply: Message) -> int:
    """Return the errno with which the Request is over, 0 if it is answered. Raises OSError if it is not."""
    try:
        ksock.send_msg(reply)
    except OSError as error:
        return settle(ksock, reply, error)
    return 0


def _status_of(do: Callable[[], None]) -> bytes:
    """Do something, and return the status that says how it went."""
    try:
        do()
    except (NameTooLong, PermissionError):
        return NO_KEY
    except Denied:
        return DENIED
    except OSError as error:
        return _STATUSES.get(error.errno or 0, NOT_POSSIBLE)
    return b""
