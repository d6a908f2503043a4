# SPDX-License-Identifier: MIT
"""KBUS for asyncio.

::

    from kbus import Announcement
    from kbus.aio import AsyncKsock

    async with AsyncKsock() as ksock:
        ksock.bind("$.Sensors.*")
        await ksock.send_msg(Announcement("$.Sensors.Kitchen", "21.5"))
        async for message in ksock:
            print(message)
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Optional, Union

from . import names
from .answering import settle
from .errors import SendManyError, StatusError, StopServing
from .ids import MessageId
from .ksock import Ksock
from .messages import Data, Message, Request, Status, reply_to

__all__ = ["AsyncKsock", "Handler"]

#: Gives the data of the reply to a Request, at once or when it is awaited.
Handler = Callable[[Message], Union[Data, Awaitable[Data]]]


class AsyncKsock:
    """A KSock whose waiting leaves the event loop free.

    ``which`` and ``mode`` are those of ``Ksock``. ``ksock`` is the Ksock itself, opened as
    non-blocking: use it for what never waits (limits, switches, ``peer``, ``resolve``), but leave its
    reading and sending alone.

    Many tasks can use an AsyncKsock at the same time: an answer goes to the ``call`` that waits for
    it, a Request to the ``serve`` that has its name, and everything else to ``async for``, where each
    message comes once, however many tasks iterate. Messages are taken from the kernel only while a
    task waits for some; those that arrive during a ``call`` or ``serve`` and are for neither are kept
    without a limit until somebody iterates.

    Use it with ``async with``, or call ``close()``. Not for several threads or event loops.

    Raises RuntimeError without a running event loop, and what ``Ksock`` raises.
    """

    def __init__(self, which: int = 0, mode: str = "rw") -> None:
        self._loop = asyncio.get_running_loop()
        self._sending = asyncio.Lock()
        self._others: asyncio.Queue[Optional[Message]] = asyncio.Queue()
        self._answers: dict[MessageId, asyncio.Future[Message]] = {}
        # Requests given up when their answers were queued already.
        self._unwanted: set[MessageId] = set()
        self._servers: dict[str, Callable[[Message], None]] = {}
        self._readers = 0
        self._is_watched = False
        # What tasks wait for, so that close() can wake them.
        self._awaited: set[asyncio.Future[Any]] = set()
        self.ksock = Ksock(which, mode, nonblocking=True)

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
        for future in self._awaited:
            if not future.done():
                future.set_exception(ValueError("the KSock has been closed"))

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
        their turn meanwhile. Cancelled, it sends nothing. Raises OSError as ``Ksock.send_msg`` does.
        """
        async with self._sending:
            try:
                return self.ksock.send_msg(message)
            except BlockingIOError:
                return await self._send_later()

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
                    rest = rest[len(error.sent) + 1 :]
                try:
                    sent.append(await self._send_later())
                except OSError as error:
                    raise _stopped_by(error, sent) from None
        return sent

    async def _send_later(self) -> MessageId:
        try:
            while True:
                await self._room()
                try:
                    return self.ksock.send()
                except BlockingIOError:
                    continue
        except asyncio.CancelledError:
            if self.ksock.fd:
                self.ksock.discard()
            raise

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
        """Send a Request, wait for its answer, and return that. Many can wait at the same time.

        If this is cancelled, or there is no answer within ``timeout`` seconds (TimeoutError), the
        Request is abandoned. Raises StatusError, which carries it, for a status in place of an answer;
        OSError as ``Ksock.send`` does.
        """
        try:
            answer = await asyncio.wait_for(self._answer_to(Request(name, data)), timeout)
        except asyncio.TimeoutError:
            raise TimeoutError(errno.ETIMEDOUT, f"no answer within {timeout} seconds", name) from None
        if answer.is_synthetic():
            raise StatusError(Status.from_message(answer))
        return answer

    async def _answer_to(self, request: Request) -> Message:
        request_id = await self.send_msg(request)
        try:
            with self._future() as answer, self._reading():
                self._answers[request_id] = answer
                message: Message = await answer
                return message
        finally:
            # Still there, it was not answered.
            if self._answers.pop(request_id, None) and self.ksock.fd:
                self._give_up(request_id)

    def _give_up(self, request_id: MessageId) -> None:
        try:
            self.ksock.abandon(request_id)
        except FileNotFoundError:
            self._unwanted.add(request_id)

    async def serve(self, name: str, handler: Handler) -> None:
        """Be the replier for ``name``, and answer Requests until the handler ends it.

        ``handler`` is a function or a coroutine function. It is given each Request and returns the
        data of the reply. Requests are handled at the same time, as far as the handler awaits; how many
        there can be is limited by the queues of those who send them.

        It ends serving by raising StopServing, which carries that reply's data; the replies under way
        are completed. Any other exception ends serving too, and is passed on; then, and if this is
        cancelled, handlers under way are cancelled, and their Requests stay unanswered until this is
        closed (the senders get ``$.KBUS.Replier.Ignored``). At the end ``name`` is unbound. If that is
        refused, because a listener to ``$.KBUS.ReplierBindEvent`` has no room to be told, it stays bound
        until it is unbound later, or this is closed; Requests for it come to ``async for``.

        A requester who has gone away, given up, or has no room for the reply is no error.

        Raises OSError as ``Ksock.bind`` and ``Ksock.send`` do, and BlockingIOError (EAGAIN) if StopServing
        has ended it and ``name`` stays bound.
        """
        self.ksock.bind(name, replier=True)
        replies: set[asyncio.Task[None]] = set()
        try:
            with self._future() as stopped, self._reading():

                def completed(reply: asyncio.Task[None]) -> None:
                    replies.discard(reply)
                    error = None if reply.cancelled() else reply.exception()
                    if error is not None and not stopped.done():
                        stopped.set_exception(error)

                def start(request: Message) -> None:
                    reply = self._loop.create_task(self._reply(request, handler, stopped))
                    replies.add(reply)
                    reply.add_done_callback(completed)

                self._servers[name] = start
                await stopped
            refused = self._end_serving(name)
            await asyncio.gather(*replies)
            if refused:
                raise refused
        finally:
            self._end_serving(name)
            for reply in replies:
                reply.cancel()

    def _end_serving(self, name: str) -> Optional[OSError]:
        """Unbind the name; return why it stays bound, if it does."""
        if self._servers.pop(name, None) and self.ksock.fd:
            try:
                self.ksock.unbind(name, replier=True)
            except OSError as error:
                return error
        return None

    async def _reply(self, request: Message, handler: Handler, stopped: asyncio.Future[None]) -> None:
        try:
            result = handler(request)
            data = await result if isinstance(result, Awaitable) else result
        except StopServing as stop:
            data = stop.data
            _complete(stopped)
        reply = reply_to(request, data)
        try:
            await self.send_msg(reply)
        except OSError as error:
            settle(self.ksock, reply, error)

    # Reading.

    def __aiter__(self) -> AsyncKsock:
        return self

    async def __anext__(self) -> Message:
        if not self.ksock.fd:
            raise StopAsyncIteration
        with self._reading():
            message = await self._others.get()
        if message is None:
            # The next task that iterates must come to the end too.
            self._others.put_nowait(None)
            raise StopAsyncIteration
        return message

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
        """Give one message to whom it is for: one, so that other tasks get their turn."""
        if not self._readers:
            # Only now, as mostly the next one comes soon, and to say so takes a system call each time.
            self._loop.remove_reader(self.ksock.fileno())
            self._is_watched = False
            return
        message = self.ksock.read_next_msg()
        if message is None:
            return
        answer = self._answers.pop(message.in_reply_to, None) if message.in_reply_to else None
        if answer is not None:
            _complete(answer, message)
        elif message.in_reply_to in self._unwanted:
            self._unwanted.discard(message.in_reply_to)
        elif message.wants_us_to_reply() and (server := self._server_of(message.name)):
            server(message)
        else:
            self._others.put_nowait(message)

    def _server_of(self, name: str) -> Optional[Callable[[Message], None]]:
        """Return the one who is meant: KBUS has chosen the most specific binding of all."""
        serving = [pattern for pattern in self._servers if names.matches(pattern, name)]
        return self._servers[max(serving, key=names.specificity)] if serving else None


def _stopped_by(error: OSError, sent: list[MessageId]) -> SendManyError:
    return SendManyError(error.errno or 0, error.strerror or "", sent, kept=False)


def _complete(future: asyncio.Future[Any], result: Any = None) -> None:
    """Give the future its result, unless its task has been cancelled or closed."""
    if not future.done():
        future.set_result(result)
