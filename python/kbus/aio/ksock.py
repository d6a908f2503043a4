# SPDX-License-Identifier: MIT
"""An AsyncKsock: a KSock whose waiting leaves the event loop free."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Optional, Union

from .. import names
from .._answering import deliver
from .._failed import error_of, is_good
from .._ids import MessageId
from .._transfer import seconds_to_wait
from ..errors import SendManyError
from ..ksock import Ksock, queued_now
from ..messages import Data, Message, Reply, Request
from .service import Handler, Service

__all__ = ["AsyncKsock"]

#: Seconds in which a task has begun: an event loop runs what is ready before it looks at the time
_SHORTEST_WAIT = 0.001


class AsyncKsock:
    """A KSock whose waiting leaves the event loop free.

    ``which``, ``mode`` and ``call_timeout`` are those of ``Ksock``. ``ksock`` is the Ksock itself, opened as
    non-blocking: use it for what never waits (limits, switches, ``peer``, ``resolve``), but do not read
    or send with it.

    Many tasks can use an AsyncKsock at the same time: an answer goes to the ``call`` that waits for
    it, a Request to the ``serve`` that has its name, and everything else to ``async for``, where each
    message comes once, however many tasks iterate. Messages are taken from the kernel only while a
    task waits for some; those that arrive during a ``call`` or ``serve`` and are for neither are kept
    without a limit until a task iterates.

    Use it with ``async with``, or call ``close()``. Not for several threads or event loops.

    If reading fails, all tasks that wait get the OSError, and from then on those that iterate.

    Raises RuntimeError without a running event loop, and what ``Ksock`` raises.
    """

    def __init__(self, which: int = 0, mode: str = "rw", *, call_timeout: Optional[float] = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._sending = asyncio.Lock()
        # Whether the message of a task waits in the KSock for room.
        self._is_kept = False
        # After None or an error nothing more comes.
        self._others: asyncio.Queue[Union[Message, Exception, None]] = asyncio.Queue()
        self._answers: dict[MessageId, asyncio.Future[Message]] = {}
        # Requests given up when their answers were queued already.
        self._unwanted: set[MessageId] = set()
        self._services: list[Service] = []
        # What want_messages_once was before the first of those with listeners.
        self._was_once = False
        self._readers = 0
        self._is_watched = False
        # What tasks wait for, so that close() can wake them.
        self._awaited: set[asyncio.Future[Any]] = set()
        self.ksock = Ksock(which, mode, nonblocking=True, call_timeout=call_timeout)

    async def __aenter__(self) -> AsyncKsock:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the KSock. Can be repeated.

        Tasks that iterate come to the end; those in other methods get ValueError.
        """
        if not self.ksock.fd:
            return
        self._loop.remove_reader(self.ksock.fileno())
        self._loop.remove_writer(self.ksock.fileno())
        self.ksock.close()
        self._others.put_nowait(None)
        self._wake_all(ValueError("the KSock has been closed"))

    def bind(self, name: str, replier: bool = False, *, observer: bool = False) -> None:
        """Bind as ``Ksock.bind`` does; the messages come to ``async for``."""
        self.ksock.bind(name, replier, observer=observer)

    def unbind(self, name: str, replier: bool = False, *, observer: bool = False) -> None:
        """Unbind as ``Ksock.unbind`` does."""
        self.ksock.unbind(name, replier, observer=observer)

    # Sending.

    async def send_msg(self, message: Message) -> MessageId:
        """Send a message and return its id.

        With ALL_OR_WAIT, waits until all recipients have room; other tasks that send from here wait
        their turn meanwhile. An answer of a service does not: it goes at once, and the message that waits
        is then written again, and is the last of those that wait for its recipients. Cancelled, this sends
        nothing. Raises OSError as ``Ksock.send_msg`` does.
        """
        async with self._sending:
            try:
                return self._send_now(message)
            except BlockingIOError:
                return await self._send_later(message)

    async def send_many(self, messages: Iterable[Message]) -> list[MessageId]:
        """Send messages in their order and return their ids, as ``Ksock.send_many`` does.

        With ALL_OR_WAIT, waits as ``send_msg`` does. Cancelled, it sends no more of them. Raises
        SendManyError, in which ``kept`` is never true.
        """
        rest = list(messages)
        sent: list[MessageId] = []
        async with self._sending:
            while rest:
                try:
                    return sent + self.ksock.send_many(rest)
                except SendManyError as error:
                    sent += error.sent
                    if not error.kept:
                        raise _stopped_by(error, sent) from None
                    rest = rest[len(error.sent) :]
                try:
                    sent.append(await self._send_later(rest.pop(0)))
                except OSError as error:
                    raise _stopped_by(error, sent) from None
        return sent

    def _send_now(self, message: Message) -> MessageId:
        """Send in the place of what is kept: a message that waits here, or one that a handler has left.

        The task whose message waits is woken by this, as the KSock has room when none is kept there.
        """
        try:
            return self.ksock.send_msg(message)
        except BlockingIOError as error:
            if error.errno != errno.EALREADY:
                raise
        self.ksock.discard()
        self._is_kept = False
        return self.ksock.send_msg(message)

    async def _send_later(self, message: Message) -> MessageId:
        """Send a message that is kept, once there is room."""
        self._is_kept = True
        try:
            while True:
                await self._room()
                try:
                    return self.ksock.send() if self._is_kept else self._send_now(message)
                except BlockingIOError:
                    self._is_kept = True
        except BaseException:
            if self._is_kept and self.ksock.fd:
                # The exception that ends it matters more.
                with suppress(OSError):
                    self.ksock.discard()
            raise
        finally:
            self._is_kept = False

    async def _room(self) -> None:
        """Wait until it is worth trying to send again."""
        with self._future() as room:
            descriptor = self.ksock.fileno()
            self._loop.add_writer(descriptor, _complete, room)
            try:
                await room
            finally:
                if self.ksock.fd:
                    self._loop.remove_writer(descriptor)

    # Requests and their answers.

    async def call(self, name: str, data: Data = None, timeout: Optional[float] = None) -> Message:
        """Send a Request, wait for its answer, and return that.

        As many can wait at the same time as the queue has room for answers; the next one raises OSError with
        ENOLCK. ``ksock.set_max_messages`` makes the queue longer.

        If this is cancelled, or there is no answer within ``timeout`` seconds, or those of the Ksock's
        ``call_timeout`` (TimeoutError), the Request is abandoned. Raises StatusError, which carries it, for a
        status in place of an answer; ReplierError if the replier has answered that it failed; OSError as
        ``Ksock.send`` does.
        """
        timeout = self.ksock.call_timeout if timeout is None else timeout
        # With 0, wait_for() would cancel the task before it has sent.
        limit = None if timeout is None else max(seconds_to_wait(timeout), _SHORTEST_WAIT)
        try:
            answer = await asyncio.wait_for(self._answer_to(Request(name, data)), limit)
        except asyncio.TimeoutError:
            raise TimeoutError(errno.ETIMEDOUT, f"no answer within {timeout} seconds", name) from None
        if not is_good(answer):
            raise error_of(answer)
        return answer

    async def _answer_to(self, request: Request) -> Message:
        request_id = await self.send_msg(request)
        try:
            with self._future() as answer, self._reading():
                self._answers[request_id] = answer
                message: Message = await answer
                return message
        finally:
            # If it is still there, it was not answered.
            if self._answers.pop(request_id, None) and self.ksock.fd:
                self._give_up(request_id)

    def _give_up(self, request_id: MessageId) -> None:
        try:
            self.ksock.abandon(request_id)
        except FileNotFoundError:
            self._unwanted.add(request_id)

    async def serve(self, name: str, handler: Handler) -> None:
        """Be the replier for ``name``, and answer Requests until the handler ends it.

        ``handler`` is a function or a coroutine function. It gets each Request and returns the
        data of the reply. Requests are handled at the same time, as far as the handler awaits; how many
        there can be is limited by the queues of their senders.

        It ends serving by raising StopServing, which carries that reply's data; the replies under way are
        completed. Another exception is an answer too: the requester gets a ReplierError, the logger
        ``kbus.serve`` the traceback, and serving goes on. If this is cancelled, handlers under way are
        cancelled, and their requesters get a ReplierError of the kind ``CancelledError``. At the end ``name``
        is unbound. If that is refused, because a listener to ``$.KBUS.ReplierBindEvent`` has no room for the
        event, it stays bound until it is unbound later, or this is closed; Requests for it come to
        ``async for``.

        A requester that has gone away, given up, or has no room for the reply is no error. This is a Service
        with one name; that can have more, and be stopped.

        Raises OSError as ``Ksock.bind`` and ``Ksock.send`` do, and BlockingIOError (EAGAIN) if StopServing
        has ended it and ``name`` stays bound.
        """
        service = Service(self)
        service.replier(name)(handler)
        await service.run()

    @contextmanager
    def _served_by(self, service: Service) -> Iterator[None]:
        """In the block, messages for the service go there."""
        if service.listeners and not self._hears():
            self._was_once = self.ksock.want_messages_once(True)
        self._services.append(service)
        try:
            with self._reading():
                yield
        finally:
            self._services.remove(service)
            if self.ksock.fd and service.listeners and not self._hears():
                self.ksock.want_messages_once(self._was_once)

    def _hears(self) -> bool:
        return any(each.listeners for each in self._services)

    def _answer(self, request: Message, reply: Reply) -> None:
        """Answer a Request, which never has to wait."""
        try:
            self._send_now(reply)
        except OSError as error:
            deliver(self.ksock, request, reply, error)

    def _take_all(self) -> None:
        """Pass on all that is queued."""
        for message in queued_now(self.ksock.num_messages(), self.ksock.read_next_msg):
            self._give(message)

    # Reading.

    def __aiter__(self) -> AsyncKsock:
        return self

    async def __anext__(self) -> Message:
        if not self.ksock.fd:
            raise StopAsyncIteration
        with self._reading():
            message = await self._others.get()
        if isinstance(message, Message):
            return message
        # The next task that iterates must come to the end too.
        self._others.put_nowait(message)
        raise message or StopAsyncIteration

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """While any task is in here, messages are taken from the kernel."""
        self._readers += 1
        if not self._is_watched:
            self._loop.add_reader(self.ksock.fileno(), self._on_readable)
            self._is_watched = True
        try:
            yield
        finally:
            self._readers -= 1

    @contextmanager
    def _future(self) -> Iterator[asyncio.Future[Any]]:
        """Something to wait for that close() wakes."""
        future = self._loop.create_future()
        self._awaited.add(future)
        try:
            yield future
        finally:
            self._awaited.discard(future)

    def _on_readable(self) -> None:
        """Pass on one message: only one, so that other tasks get their turn."""
        if not self._readers:
            # Only now, as mostly the next reader comes soon, and each change takes a system call.
            self._loop.remove_reader(self.ksock.fileno())
            self._is_watched = False
            return
        try:
            message = self.ksock.read_next_msg()
        except (OSError, ValueError) as error:
            # ValueError: a bus for tests has ended.
            self._fail(error)
            return
        if message is not None:
            self._give(message)

    def _fail(self, error: Exception) -> None:
        """Reading has failed: pass the error to all that wait, as the loop would try again without end."""
        self._loop.remove_reader(self.ksock.fileno())
        self._is_watched = False
        self._others.put_nowait(error)
        self._wake_all(error)

    def _wake_all(self, error: Exception) -> None:
        for future in self._awaited:
            if not future.done():
                future.set_exception(error)

    def _give(self, message: Message) -> None:
        answer = self._answers.pop(message.in_reply_to, None) if message.in_reply_to else None
        if answer is not None:
            _complete(answer, message)
        elif message.in_reply_to in self._unwanted:
            self._unwanted.discard(message.in_reply_to)
        elif not self._serve(message):
            self._others.put_nowait(message)

    def _serve(self, message: Message) -> bool:
        """Give a message to the services that it is for; return whether there are any.

        KBUS has chosen the most specific replier of all, so the most specific one here is meant.
        """
        meant: Optional[Service] = None
        if message.wants_us_to_reply():
            serving = {name: each for each in self._services for name in each.repliers}
            found = [name for name in serving if names.matches(name, message.name)]
            meant = serving[max(found, key=names.specificity)] if found else None
        hearing = [each for each in self._services if each is meant or each.listeners_for(message)]
        for service in hearing:
            service.start(message, service.replier_for(message) if service is meant else None)
        return bool(hearing) and (meant is not None or not message.wants_us_to_reply())


def _stopped_by(error: OSError, sent: list[MessageId]) -> SendManyError:
    # An error of a single message has its name too.
    reason = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or ""
    return SendManyError(error.errno or 0, reason, sent, kept=False)


def _complete(future: asyncio.Future[Any], result: Any = None) -> None:
    """Give the future its result, unless its task has been cancelled or closed."""
    if not future.done():
        future.set_result(result)
