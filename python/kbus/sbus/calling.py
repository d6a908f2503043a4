# SPDX-License-Identifier: MIT
"""Requests of a client, and Requests that it answers: an extension that other daemons do not know.

Each client that uses it has a KSock of its own. So what it has not been answered, and what it has not
answered, ends when it leaves, as that of any KBUS program does.
"""

from __future__ import annotations

import errno
import os
import time
from bisect import bisect_left, insort
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Optional, Union

from .. import Ksock, Message, MessageId, Request, reply_to
from .._answering import settle
from .._failed import failed_reply, is_good
from . import counts, packets
from .access import PUBLISH, SUBSCRIBE, Denied
from .counts import UNKNOWN_REQUEST, Dropped
from .keymap import KeyMap

if TYPE_CHECKING:
    from .peer import Peer

# From clients: the payload is a token and a NUL, a key and a NUL, and data; a key; a token, a NUL and data.
# Behind CALL there may be a separator and how many milliseconds the answer may take.
CALL, SERVE, UNSERVE, REPLY = b"kbus/call", b"kbus/serve", b"kbus/unserve", b"kbus/reply"
# To clients: token, status and data; key and status; token, key and data.
ANSWER, SERVED, REQUEST = b"kbus/answer", b"kbus/served", b"kbus/request"
_KEYS = frozenset({CALL, SERVE, UNSERVE, REPLY})
_TIMED = CALL + b"/"

#: Bytes of a token at most.
MOST_TOKEN = 64
#: Requests that a client has received and not answered, at most; others are answered with an error.
MOST_OWED = 1000
#: Milliseconds that an answer may take at most, if there is a limit: a day.
MOST_WAIT = 86_400_000
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
NOT_POSSIBLE, TAKEN, NO_KEY, TIMEOUT = b"not-possible", b"taken", b"no-key", b"timeout"
_STATUSES = {
    errno.EADDRNOTAVAIL: NO_REPLIER,
    errno.ENOLCK: BUSY,
    errno.EBUSY: BUSY,
    errno.EAGAIN: BUSY,
    errno.ENOBUFS: BUSY,
    errno.EMSGSIZE: TOO_LARGE,
    errno.EADDRINUSE: TAKEN,
}


class Unknown(Dropped):
    """A control message that is not as it should be, or about a Request that is not there."""

    cause = UNKNOWN_REQUEST


def is_about_calls(key: bytes) -> bool:
    """Return whether ``Calls.take`` is for control messages with this key."""
    return key in _KEYS or key.startswith(_TIMED)


def expire(deadlines: Deadlines) -> None:
    """End the calls whose time is over."""
    now = time.monotonic()
    while deadlines and deadlines[0][0] <= now:
        deadlines[0][2].expire(deadlines[0][1])


class Calls:
    """The calls of one client, and the keys that it serves.

    ``check`` is asked about a key and what is to be done with it, PUBLISH, or that and SUBSCRIBE. It raises
    Denied if the client may not do that, another Dropped if no client may. ``most`` bytes have the packets
    of clients at most, so what would make a longer one for another client is refused, and an answer that
    would is without its data.
    """

    def __init__(
        self,
        device: int,
        peer: Peer,
        keymap: KeyMap,
        most: int,
        check: Callable[..., None],
        deadlines: Deadlines,
    ) -> None:
        self._device = device
        self._peer = peer
        self._ksock: Optional[Ksock] = None
        self._keymap = keymap
        self._most = most
        self._check = check
        self._deadlines = deadlines
        #: the tokens of Requests that have no answer yet, and when they end, None for never
        self._asked: dict[MessageId, tuple[bytes, Optional[float]]] = {}
        #: Requests that the client is to answer, without their data, by the tokens that they have there
        self._owed: dict[bytes, Message] = {}
        self._served: set[bytes] = set()
        self._next = 1

    def fileno(self) -> int:
        """Return the descriptor of the KSock, -1 if there is none. It is readable when something has come."""
        return -1 if self._ksock is None else self._ksock.fileno()

    def close(self) -> None:
        """Those that wait for an answer of this client get a status of KBUS's."""
        if self._ksock is not None:
            self._ksock.close()
            self._ksock = None
            self._peer.user.callers -= 1
            self._peer.user.users.callers -= 1
        while self._asked:
            self._end_call(next(iter(self._asked)))
        self._owed.clear()
        self._served.clear()

    def take(self, kind: bytes, payload: bytes) -> None:
        """Do what a control message says. Raises Unknown."""
        status = b""
        if kind == SERVE:
            if b"\0" in payload:
                raise Unknown(f"a {SERVE.decode()} of a key with a NUL")
            if len(_packet(SERVED, payload, NOT_POSSIBLE)) > self._most:
                raise Dropped("the answer has no room for the key", counts.TOO_LARGE)
            try:
                self._serve(payload)
            except (Dropped, OSError) as why:
                status = self._status_of(why)
            self._send(SERVED, payload, status)
        elif kind == UNSERVE:
            self._unserve(payload)
        elif kind == REPLY:
            self._reply(*_fields(payload, 2))
        else:
            limit = _limit(kind)
            token, key, data = _fields(payload, 3)
            if len(token) > MOST_TOKEN:
                raise Unknown(f"a token of over {MOST_TOKEN} bytes")
            try:
                self._call(token, key, data, limit)
            except (Dropped, OSError) as why:
                self._send(ANSWER, token, self._status_of(why))
        # There may be something new to wait for.
        self._peer.has_changed()

    def bring(self) -> None:
        """Bring the client what has come, as much as may be at once."""
        for _ in range(MOST_AT_ONCE):
            message = None if self._ksock is None else self._ksock.read_next_msg()
            if message is None:
                return
            if message.wants_us_to_reply():
                self._bring_request(message)
            elif message.in_reply_to in self._asked:
                self._bring_answer(message)

    def expire(self, request: MessageId) -> None:
        """A call has waited long enough."""
        with suppress(OSError):
            # If its answer has come meanwhile, the client does not wait for that any more.
            self._opened().abandon(request)
        self._send(ANSWER, self._end_call(request), TIMEOUT)

    def _end_call(self, request: MessageId) -> bytes:
        """Forget a call that is over. Returns its token."""
        token, at = self._asked.pop(request)
        if at is not None:
            del self._deadlines[bisect_left(self._deadlines, (at, request))]
        return token

    # What the client asks for.

    def _call(self, token: bytes, key: bytes, data: bytes, limit: Optional[float]) -> None:
        self._check(key, PUBLISH)
        self._check_length(_packet(REQUEST, _LONGEST_NUMBER, key), data)
        sent = self._opened().send_msg(Request(self._keymap.name(key).decode(), data))
        self._peer.counts.published += 1
        at = None if limit is None else time.monotonic() + limit
        self._asked[sent] = token, at
        if at is not None:
            insort(self._deadlines, (at, sent, self))

    def _serve(self, key: bytes) -> None:
        if len(self._served) >= MOST_SERVED:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        self._check(key, PUBLISH, SUBSCRIBE)
        self._opened().bind(self._keymap.name(key).decode(), replier=True)
        self._served.add(key)

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
            cause = counts.TOO_LARGE if error.errno == errno.EMSGSIZE else UNKNOWN_REQUEST
            raise Dropped(f"the reply fails: {error.strerror}", cause) from error
        del self._owed[token]
        if ended:
            raise Unknown(f"the reply fails: {ended}")
        self._peer.counts.published += 1

    def _status_of(self, why: Union[Dropped, OSError]) -> bytes:
        """Return the status that says why something fails."""
        if isinstance(why, OSError):
            return _STATUSES.get(why.errno or 0, NOT_POSSIBLE)
        if not isinstance(why, Denied):
            return NO_KEY
        self._peer.drop(why.cause, why)
        return DENIED

    def _send(self, kind: bytes, first: bytes, second: bytes) -> None:
        self._peer.send(_packet(kind, first, second), None, is_answer=True)

    def _check_length(self, begin: bytes, data: bytes) -> None:
        """Raise OSError if a packet that begins like that, and has this data, is too long for a client."""
        if len(begin) + len(data) > self._most:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))

    def _opened(self) -> Ksock:
        """The KSock, from the first use on. Raises OSError if there can be no further one."""
        if self._ksock is None:
            user = self._peer.user
            if user.callers >= MOST_CALLERS or user.users.left(user.uid) < 1:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            self._ksock = Ksock(self._device, nonblocking=True)
            user.callers += 1
            user.users.callers += 1
        return self._ksock

    # What KBUS brings.

    def _bring_request(self, message: Message) -> None:
        token = str(self._next).encode()
        packet = _packet(REQUEST, token, self._keymap.key(message.name.encode()), message.data or b"")
        if len(self._owed) < MOST_OWED and self._peer.send(packet, None):
            self._next += 1
            message.data = None
            self._owed[token] = message
            return
        if self._peer.is_gone:
            # KBUS answers when the KSock closes.
            return
        # It does not stay in KBUS, where it would take the memory that all clients share.
        ksock = self._opened()
        why = "the client that serves this does not take any more"
        with suppress(OSError):
            _send_reply(ksock, failed_reply(message, "Busy", why, ksock.max_message_size()))

    def _bring_answer(self, message: Message) -> None:
        assert message.in_reply_to is not None
        token = self._end_call(message.in_reply_to)
        # That of a good one is empty, else it is the key of a status of KBUS's, or of an error.
        status = b"" if is_good(message) else message.name[2:].encode().replace(b".", self._keymap.separator)
        packet = _packet(ANSWER, token, status, message.data or b"")
        if len(packet) > self._most:
            packet = _packet(ANSWER, token, TOO_LARGE)
        self._peer.send(packet, None, is_answer=True)


def _packet(kind: bytes, first: bytes, second: bytes, data: bytes = b"") -> bytes:
    return packets.build(packets.CMSG, kind, b"\0".join((first, second, data)))


def _fields(payload: bytes, count: int) -> list[bytes]:
    """The fields of a payload, of which the last may have NULs. Raises Unknown if there are too few."""
    fields = payload.split(b"\0", count - 1)
    if len(fields) < count:
        raise Unknown(f"{len(fields)} fields in place of {count}")
    return fields


def _send_reply(ksock: Ksock, reply: Message) -> str:
    """Return why the Request is over without it, nothing if answered. Raises OSError if it is still open."""
    try:
        ksock.send_msg(reply)
    except OSError as error:
        return error.strerror or str(error) if settle(ksock, reply, error) else ""
    return ""


def _limit(kind: bytes) -> Optional[float]:
    """How many seconds a call may take, None for any number. Raises Unknown."""
    if kind == CALL:
        return None
    digits = kind[len(_TIMED) :]
    if digits.isdigit() and len(digits) < 10 and 0 < int(digits) <= MOST_WAIT:
        return int(digits) / 1000
    raise Unknown(f"{digits[:40]!r} is no number of milliseconds from 1 to {MOST_WAIT}")


#: When calls end that have a limit, in seconds of the monotonic clock, the first one first
Deadlines = list[tuple[float, MessageId, Calls]]
