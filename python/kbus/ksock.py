# SPDX-License-Identifier: MIT
"""Ksock: an open KBUS device, from which messages are sent and read."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from io import FileIO
from types import TracebackType
from typing import TYPE_CHECKING, Optional, TypeVar, Union

from . import _abi as abi
from . import _ioctls as ioctls
from ._answering import deliver
from ._device import open_device, refused
from ._failed import error_of, is_good
from ._ids import MessageId
from ._inbox import Inbox
from ._settings import DeviceSettings
from ._transfer import Batch, Taken, Transfer, deadline_after
from .bindings import read_bindings as read_bindings
from .errors import SendManyError
from .messages import Data, Message, Reply, Request

if TYPE_CHECKING:
    from .service import Service

_T = TypeVar("_T")

#: Seconds for which an answer also waits for the next message, with the same system call. A service that has
#: much to do makes one call a Request; one that has to stop is not woken from it.
LINGER = 0.05


class Ksock(DeviceSettings):
    """An open KBUS device: binds to message names, sends and reads messages.

    ``which`` is the number of the device, 0 for ``/dev/kbus0``. ``mode`` is ``r`` (enough to
    listen) or ``rw``. With ``nonblocking``, sending a message with ALL_OR_WAIT does not wait; see
    ``send``. ``wait_for_msg``, ``receive_many``, ``call`` and ``serve`` wait all the same. ``call_timeout``
    is how many seconds ``call`` waits by default.

    Use it with ``with``, or call ``close()``; a forgotten one gives a ResourceWarning.
    Iterating gives the messages that are queued, and ends when there are none. ``which`` is kept,
    ``mode`` as ``read`` or ``read/write``; ``fileno()`` serves ``select`` and ``poll``.

    Whole messages are sent and received with one system call (TRANSFER), in pieces with several:
    ``write_data`` and ``send``, ``next_msg`` and ``read_data``. Both ways can be mixed. None is taken
    from the kernel's queue before it is asked for, so what is not returned yet is still counted there,
    and ``select`` reports it.

    Synchronization: each method that is one system call is atomic, but what is written or read
    in pieces is not, and ``call`` and ``serve`` keep messages that others may wait for. Let one thread at
    a time use or close a Ksock; more threads open more Ksocks. A close does not wake a thread that waits:
    that returns the next message, or raises ValueError when its time is over. A signal handler may send
    with the Ksock of the call that it interrupts; but if it receives, it may keep the message that the call
    waits for, and the call does not look there again. After a fork two processes use one KSock, and both
    have the messages kept before: let one of them go on with it.

    Raises ValueError for another mode, TypeError for ``which`` that is no int; OSError with ENOENT if
    there is no such device, EACCES if it may not be opened, EMFILE if the user has too many KSocks. All
    methods raise OSError with the errno of the ioctl that refused (``linux/kbus.h`` lists them), and, but
    for ``ksock_id``, ValueError if closed.
    """

    # The original package has the numbers of ioctls here.
    IOC_RESET = abi.IOC_RESET
    IOC_BIND = abi.IOC_BIND
    IOC_UNBIND = abi.IOC_UNBIND
    IOC_KSOCKID = abi.IOC_KSOCKID
    IOC_REPLIER = abi.IOC_REPLIER
    IOC_NEXTMSG = abi.IOC_NEXTMSG
    IOC_LENLEFT = abi.IOC_LENLEFT
    IOC_SEND = abi.IOC_SEND
    IOC_DISCARD = abi.IOC_DISCARD
    IOC_LASTSENT = abi.IOC_LASTSENT
    IOC_MAXMSGS = abi.IOC_MAXMSGS
    IOC_NUMMSGS = abi.IOC_NUMMSGS
    IOC_UNREPLIEDTO = abi.IOC_UNREPLIEDTO
    IOC_MSGONLYONCE = abi.IOC_MSGONLYONCE
    IOC_VERBOSE = abi.IOC_VERBOSE
    IOC_NEWDEVICE = abi.IOC_NEWDEVICE
    IOC_REPORTREPLIERBINDS = abi.IOC_REPORTREPLIERBINDS
    IOC_MAXMSGSIZE = abi.IOC_MAXMSGSIZE

    def __init__(
        self,
        which: int = 0,
        mode: str = "rw",
        *,
        nonblocking: bool = False,
        call_timeout: Optional[float] = None,
    ) -> None:
        if mode not in ("r", "rw"):
            raise ValueError(f"mode is {mode!r}, which is neither 'r' nor 'rw'")
        if isinstance(which, bool) or not isinstance(which, int):
            raise TypeError(f"which is an int, the number of a device, not {type(which).__name__}")
        self.which = which
        #: Seconds after which ``call`` gives up by default; None is never.
        self.call_timeout = call_timeout
        self.mode = "read" if mode == "r" else "read/write"
        try:
            self._file = open_device(self.name, which, mode, nonblocking)
        except OSError as error:
            raise refused("opening", error, self.name, which) from None
        self._id = ioctls.u32(self._file, abi.IOC_KSOCKID)
        self._transfer = Transfer(self._file)
        self._services: list[Service] = []
        # The message that ``send`` is to send, unless it was written in pieces.
        self._written: Optional[Message] = None
        self._inbox = Inbox(self._file, self._transfer)
        self._undone = self._inbox.undone

    # The open file.

    @property
    def name(self) -> str:
        """The path of the device."""
        return f"/dev/kbus{self.which}"

    @property
    def fd(self) -> Optional[FileIO]:
        """The open file; None when it is closed."""
        return None if self._file.closed else self._file

    @property
    def is_real(self) -> bool:
        """Whether this is on the module's bus, and not on one of ``kbus.testing``."""
        return self._file.is_real

    def __repr__(self) -> str:
        closed = ", closed" if self._file.closed else ""
        return f"<Ksock device {self.which}, id {self._id}, mode {self.mode}{closed}>"

    def __enter__(self) -> Ksock:
        self._file.fileno()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Without _inbox, __init__ has raised.
        if hasattr(self, "_inbox") and not self._file.closed:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            self.close()

    def close(self) -> None:
        """Close the device, unbind all names and drop what is unread. Can be repeated.

        The names of a service that runs in another thread are unbound at once, though that may still wait in
        a system call, for ``LINGER`` seconds at most, or be in a handler.
        """
        for service in list(self._services):
            service._close()
        self._inbox.clear()
        self._file.close()

    def fileno(self) -> int:
        """Return the file descriptor, for ``select`` and the like.

        It does not show messages that the Ksock keeps: from ``call`` or ``serve``, or because a signal
        handler raised an exception before they were returned. Read those first.
        """
        return self._file.fileno()

    def ksock_id(self) -> int:
        """Return the id of this KSock, from 1, also when it is closed. Open ones of a device differ in it."""
        return self._id

    # Binding.

    def bind(self, name: str, replier: bool = False, *, observer: bool = False) -> None:
        """Listen to messages of this name, which may end in a wildcard, or be its replier.

        An ``observer`` listens, but no sender waits for its queue, and nothing is refused because of it: it
        misses what finds no room there, also with ALL_OR_WAIT and ALL_OR_FAIL. A Ksock listens to all its
        names as an observer, or to none.

        Raises ValueError for a replier that is an observer; OSError with EADDRINUSE if the name has a
        replier, EBADMSG for an illegal name, ENAMETOOLONG, ENOSPC for too many bindings, EINVAL for an
        observer that listens otherwise too. Source: semantics, rules 6 to 11, and the project's decisions.
        """
        try:
            ioctls.name_query(self._file, abi.IOC_BIND, name, _kind(replier, observer))
        except OSError as error:
            raise refused("binding", error, self, name, replier) from None

    def unbind(self, name: str, replier: bool = False, *, observer: bool = False) -> None:
        """Undo the newest ``bind`` with the same arguments, and drop what came by it and is unread.

        Raises OSError with EINVAL if there is none. Source: semantics, rules 6 and 10.
        """
        try:
            ioctls.name_query(self._file, abi.IOC_UNBIND, name, _kind(replier, observer))
        except OSError as error:
            raise refused("unbinding", error, name, replier) from None

    def find_replier(self, name: str) -> Optional[int]:
        """Return the id of the KSock that is bound as replier to just this name, or None."""
        return self._look_up(abi.IOC_REPLIER, name)

    def resolve(self, name: str) -> Optional[int]:
        """Return the id of the KSock that would get a Request of this name now, or None.

        Unlike ``find_replier``, this considers wildcards. Source: semantics, rule 12.
        """
        return self._look_up(abi.IOC_RESOLVE, name)

    def _look_up(self, number: int, name: str) -> Optional[int]:
        try:
            return ioctls.name_query(self._file, number, name) or None
        except OSError as error:
            raise refused("looking_up", error, name) from None

    # Sending.

    def write_data(self, data: Union[bytes, bytearray, memoryview]) -> int:
        """Write bytes of a message, which may come in any pieces, and return how many. ``send`` sends it.

        Raises OSError with EINVAL, EMSGSIZE or ENAMETOOLONG for what cannot be a message; then
        all that was written of it is dropped. EALREADY while a message waits for ``send``.
        """
        try:
            return self._write(data)
        except OSError as error:
            raise refused("sending", error, self, None) from None

    def _write(self, data: Union[bytes, bytearray, memoryview]) -> int:
        rest = whole = memoryview(data).cast("B")
        while rest:
            rest = rest[self._file.write_piece(rest) :]
        self._written = None
        return len(whole)

    def write_msg(self, message: Message) -> None:
        """Write a whole message. ``send`` sends it. If this fails, nothing of it stays behind."""
        try:
            self._write(message.to_bytes())
        except OSError as error:
            # EALREADY: another message waits to be sent, and must not be dropped.
            if error.errno != errno.EALREADY:
                self.discard()
            raise self._why_not_sent(error, message) from None
        self._written = message

    def send(self) -> MessageId:
        """Send what has been written, and return the id of the message; also one that was kept.

        If a signal interrupts this, it goes on. Any error drops the message, but for one:
        BlockingIOError (EAGAIN), when the message has ALL_OR_WAIT, the Ksock is non-blocking and a
        recipient has no room. Then the message stays. Poll for POLLOUT and call ``send`` again, or
        ``discard`` it. The same two ways are open if a signal handler raised an exception.

        Raises OSError, above all with EADDRNOTAVAIL (the Request has no replier, or the requester has
        gone), EBUSY (a queue is full), ECONNREFUSED (this reply is not expected), EPIPE (another
        KSock than ``to`` is the replier), ENOLCK (no room for the answer in the own queue:
        ``set_max_messages``).
        Source: semantics, rules 14 to 22.
        """
        written, self._written = self._written, None
        while True:
            try:
                return ioctls.message_id(self._file, abi.IOC_SEND)
            except InterruptedError:
                continue
            except OSError as error:
                raise self._why_not_sent(error, written) from None

    def send_msg(self, message: Message) -> MessageId:
        """Send a whole message, and return its id, with one system call.

        This fails as ``send`` does; a message that is kept waits for ``send`` or ``discard``. It
        also raises OSError with EMSGSIZE or ENAMETOOLONG, and BlockingIOError (EALREADY) if something
        else has been written and not sent, in part or whole; that stays as it is.
        """
        try:
            return self._transfer.send(message.to_bytes())
        except OSError as error:
            raise self._why_not_sent(error, message) from None

    def _why_not_sent(self, error: OSError, message: Optional[Message]) -> OSError:
        if error.errno == errno.EAGAIN:
            self._written = message
        return refused("sending", error, self, message)

    def send_many(self, messages: Iterable[Message]) -> list[MessageId]:
        """Send messages in their order, and return their ids; one system call sends up to 128.

        Messages of others may come between them. Raises SendManyError, which is an OSError, for the
        first that ``send_msg`` would have failed with; it has the ids of those before it, which were
        sent. Those after it are not sent. If a signal handler raises an exception, some may have been
        sent: ``last_msg_id`` returns the last.
        """
        self._file.fileno()
        given = list(messages)
        try:
            return self._transfer.send_many([message.to_bytes() for message in given])
        except SendManyError as error:
            reason = self._why_not_sent(error, given[len(error.sent)])
            raise SendManyError(
                error.errno or 0, f"{reason.filename}: {reason.strerror}", error.sent, error.kept
            ) from None

    def discard(self) -> None:
        """Drop what has been written and not sent, if anything."""
        self._written = None
        ioctls.plain(self._file, abi.IOC_DISCARD)

    def last_msg_id(self) -> MessageId:
        """Return the id of the last message that was sent here, MessageId(0, 0) if none was."""
        return ioctls.message_id(self._file, abi.IOC_LASTSENT)

    def abandon(self, id: MessageId) -> None:
        """Give up waiting for the answer to the Request with this id, which was sent here.

        Raises OSError with ENOENT if no answer to it is outstanding. Source: semantics, rule 28.
        """
        try:
            self._inbox.abandon(id)
        except FileNotFoundError as error:
            raise FileNotFoundError(error.errno, f"no answer to Request {id} is outstanding here") from None

    # Reading.

    def next_msg(self) -> int:
        """Make the next message the one being read; return its length in bytes, 0 if none.

        The rest of the one read before is dropped. Messages that ``call`` or ``serve`` kept come first.
        """
        return self._inbox.next_length()

    def len_left(self) -> int:
        """Return how many bytes of the message being read have not been read."""
        return self._inbox.length_left()

    def read_data(self, count: int) -> bytes:
        """Return up to ``count`` more bytes of the message being read; ``b""`` at its end."""
        return self._inbox.read(count)

    def read_msg(self, length: int) -> Optional[Message]:
        """Return the message being read, of ``length`` bytes as ``next_msg`` said; None if none.

        Raises ValueError if that is not a whole message.
        """
        data = self.read_data(length)
        return Message.from_bytes(data) if data else None

    def read_next_msg(self) -> Optional[Message]:
        """Return the next message, or None if none is queued. Does not wait."""
        return self._take(self._inbox.take)

    def wait_for_msg(self, timeout: Optional[float] = None) -> Optional[Message]:
        """Return the next message. Waits up to ``timeout`` seconds, or for ever, then None."""
        return self._take(self._inbox.wait, timeout)

    def receive_many(self, timeout: Optional[float] = None, at_most: Optional[int] = None) -> list[Message]:
        """Return the messages that are queued, with one system call; waits until there is one.

        Returns an empty list if there is none within ``timeout`` seconds; None waits for ever, 0 not
        at all. It may not be all: there are ``at_most`` so many, and as many as fit into the memory that
        this keeps, 16 KiB at least, or one that is larger. If ``call`` or ``serve`` has kept messages, this
        returns those.

        Raises ValueError if ``at_most`` is less than 1.
        """
        if at_most is not None and at_most < 1:
            raise ValueError(f"at_most is {at_most}, which is less than 1")
        return self._take(self._inbox.take_many, timeout, at_most or 0)

    def receive_bytes(self, room: int = 1 << 16) -> Batch:
        """Return the messages that are queued, as bytes, when each was queued, and what is left.

        This is one system call, and does not wait. It may not be all: they fit into ``room`` bytes, unless
        it is one that is larger. ``Message.from_bytes`` makes messages of them.

        KBUS records the times from the first call on. What was queued before that, or was kept by ``call``
        or ``serve``, has 0.
        """
        return self._take(self._inbox.take_bytes, room)

    def _take(self, take: Callable[..., _T], *arguments: object) -> _T:
        """Return what a method of the inbox takes; what it has taken is put back if an exception comes."""
        taken: Taken = []
        try:
            return take(*arguments, taken)
        except BaseException:
            self._undone.append((taken, None))
            self._inbox.settle()
            raise

    def __iter__(self) -> Ksock:
        return self

    def __next__(self) -> Message:
        return self._take(self._inbox.take_next)

    def num_messages(self) -> int:
        """Return how many messages are queued to be read, without the one being read."""
        return self._inbox.count()

    def num_unreplied_to(self) -> int:
        """Return how many Requests were read here, must be answered from here and are not yet."""
        return ioctls.u32(self._file, abi.IOC_UNREPLIEDTO)

    def lost_messages(self) -> int:
        """Return how many messages this KSock has missed, because its queue was full."""
        return ioctls.lost_messages(self._file)

    # Requests and their answers.

    def call(self, name: str, data: Data = None, timeout: Optional[float] = None) -> Message:
        """Send a Request, wait for its answer, and return that.

        If the answer is the next message, this is one system call. Others that arrive meanwhile are
        kept, to be read later in their order; the rest of a message being read is dropped.

        Raises TimeoutError after ``timeout`` seconds, or those of ``call_timeout``, when the answer is
        abandoned (``math.inf`` is never); StatusError,
        which carries it, for a status in place of an answer; ReplierError if the replier has answered that it
        failed; OSError as ``send`` does.
        """
        timeout = self.call_timeout if timeout is None else timeout
        deadline = deadline_after(timeout)
        request = Request(name, data)
        exchange = self._transfer.exchange(request.to_bytes(), deadline, is_call=True)
        taken: Taken = []
        try:
            exchange.run()
            answer = self._inbox.answer(exchange, deadline, taken)
            request_id = exchange.sent_id()
            if answer is None and request_id:
                answer = self._abandon_or_take(request_id, taken)
            self._transfer.finish(exchange)
            if answer and is_good(answer):
                return answer
        except BaseException as error:
            self._undone.append((taken, exchange))
            self._inbox.settle()
            if isinstance(error, OSError):
                raise self._why_not_sent(error, request) from None
            raise
        if answer is None:
            raise TimeoutError(errno.ETIMEDOUT, f"no answer within {timeout} seconds", name)
        raise error_of(answer)

    def _abandon_or_take(self, request_id: MessageId, taken: Taken) -> Optional[Message]:
        """Abandon a Request; if that comes too late, return the answer that is queued already."""
        try:
            self.abandon(request_id)
        except FileNotFoundError:
            return self._inbox.find_queued(lambda message: message.in_reply_to == request_id, taken)
        return None

    def serve(self, name: str, handler: Callable[[Message], Data]) -> None:
        """Be the replier for ``name``, and answer Requests until the handler ends it.

        ``handler`` gets each Request that must be answered from here, and returns the data of the reply.
        It ends serving by raising StopServing, which carries the last reply's data. Another exception is an
        answer too: the requester gets a ReplierError, the logger ``kbus.serve`` the traceback, and serving
        goes on. KeyboardInterrupt, SystemExit and the like are answered in the same way, and then passed on.
        At the end ``name`` is unbound. If that is refused, because a listener to ``$.KBUS.ReplierBindEvent``
        has no room for the event, it stays bound until it is unbound later, or this is closed.

        A requester that has gone away, given up, or has no room for the reply is no error. Other messages
        are kept without a limit, so it is best to serve with a Ksock that listens to nothing. Copies of
        Requests for ``name`` that are not to be answered are dropped: abandoned ones look like a listener's.

        This is a Service with one name; that can have more, be stopped, and run in a thread of its own.

        Raises OSError as ``bind`` and ``send`` do, BlockingIOError (EAGAIN) if StopServing has ended it and
        ``name`` stays bound, and ValueError if the Ksock is closed meanwhile, or served with by another
        thread.
        """
        from .service import Service

        service = Service(self)
        service.replier(name)(handler)
        service.run()

    @contextmanager
    def _served_by(self, service: Service) -> Iterator[None]:
        """In the block, a close of this ends the service too. Raises ValueError if another thread serves."""
        self._services.append(service)
        try:
            # After a fork there is only one thread, whatever served before. One that began before this is
            # in the list before it.
            if any(each._is_of_another_thread() for each in self._services):
                raise ValueError(f"another thread serves with {self!r}")
            yield
        finally:
            self._services.remove(service)

    def _take_all_aside(self) -> None:
        """Keep all that is queued, to be found here."""
        for _ in queued_now(self.num_messages(), partial(self._take, self._inbox.put_next_aside)):
            pass

    def _find(
        self, wanted: Callable[[Message], bool], woken: Optional[int], taken: Taken
    ) -> Optional[Message]:
        """Return the next wanted message, or None as soon as the descriptor ``woken`` can be read.

        Without that, look only at the messages kept here. If an exception comes, ``taken`` must be appended
        to ``_undone``.
        """
        if woken is None:
            return self._inbox.find_aside(wanted, taken)
        return self._inbox.find_unless_woken(wanted, woken, taken)

    def _answer(
        self, request: Message, reply: Reply, next_wanted: Optional[Callable[[Message], bool]]
    ) -> None:
        """Answer a Request, and wait a little for the next message, which is kept.

        Do not wait without ``next_wanted``, or if a message that it accepts is kept already.
        """
        if next_wanted is None or self._inbox.has(next_wanted):
            try:
                self.send_msg(reply)
            except OSError as error:
                deliver(self, request, reply, error)
            return
        exchange = self._transfer.exchange(reply.to_bytes(), deadline_after(LINGER), is_call=False)
        try:
            exchange.run()
            self._inbox.keep(exchange)
        except BaseException:
            self._undone.append(([], exchange))
            self._inbox.settle()
            raise
        if exchange.sent_id() is None:
            deliver(self, request, reply, self._why_not_sent(exchange.error(), reply))
        self._transfer.finish(exchange)


def queued_now(count: int, read: Callable[[], Optional[Message]]) -> Iterator[Message]:
    """Read ``count`` messages that are queued, and as many urgent ones that come meanwhile, and so first.

    Others that come later stay queued: a sender that never stops must not keep this from ending.
    """
    most = 2 * count
    while count > 0 and most > 0 and (message := read()) is not None:
        count -= not message.is_urgent()
        most -= 1
        yield message


def _kind(replier: bool, observer: bool) -> int:
    if replier and observer:
        raise ValueError("a replier is no observer")
    if observer:
        return abi.BIND_OBSERVER
    return abi.BIND_REPLIER if replier else abi.BIND_LISTENER
