# SPDX-License-Identifier: MIT
"""A service in an event loop: several names of one AsyncKsock."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Optional, Union

from .._answering import log_failure, outcome_of, outcome_of_error
from .._failed import failed_reply
from .._handlers import Handlers, Handling
from ..errors import StopServing
from ..messages import Data, Message, Reply

if TYPE_CHECKING:
    from .ksock import AsyncKsock

#: Gives the data of the reply to a Request, at once or when it is awaited; of a listener, anything.
Handler = Callable[[Message], Union[Data, Awaitable[Data]]]


class Service(Handlers[Handler]):
    """What ``kbus.Service`` is, for an AsyncKsock.

    Messages are handled at the same time, as far as the handlers await, each by a task. The number of tasks
    has no limit: a handler that may wait long should count them, and refuse too many with a ReplierError.
    Those under way are completed when the service ends. If ``run`` is cancelled, they are cancelled too, and
    their requesters get a ReplierError of the kind ``CancelledError``.

    A coroutine that takes longer than its ``time_limit`` is cancelled, and its requester gets the error at
    once; if it goes on, the service ends after it. A plain function cannot be cancelled: its requester gets
    the error when it has come to its end.

    Messages that are for none of the handlers come to ``async for`` on the AsyncKsock. Before the names are
    unbound, what is queued is passed on, to the own listeners too.

    Synchronization: ``stop`` and ``drain`` can be called by signal handlers and other threads.
    """

    def __init__(self, ksock: AsyncKsock, prefix: str = "$") -> None:
        super().__init__(prefix)
        self.ksock = ksock
        #: Set when all names are bound.
        self.ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._is_running = False
        self._stopped: Optional[asyncio.Future[Any]] = None
        #: which was called first, also before it ran: True for ``drain``, False for ``stop``
        self._told: Optional[bool] = None
        self._is_draining = False
        #: whether Requests that come now are refused
        self._is_over = False
        self._bound: list[tuple[str, bool]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        #: handlers that took too long, whose requesters have the error, and that have not ended
        self._late: set[asyncio.Future[Any]] = set()

    # Beginning and ending.

    async def run(self) -> None:
        """Serve until ``stop`` or ``drain`` is called, which may have been before, or a handler ends it.

        Raises what ``kbus.Service.run`` does, and ValueError if it runs already, also in ``running``.
        """
        self._check_not_running()
        self._is_running = True
        self._is_draining = self._is_over = False
        try:
            with self.ksock._served_by(self):
                try:
                    self._bind_all()
                    await self._told_to_end()
                finally:
                    refused = self._unbind()
            # If they raise, their requesters have been answered. One that was cancelled cancels no others.
            ended = await asyncio.gather(*self._tasks, return_exceptions=True)
            for each in ended:
                if isinstance(each, BaseException) and not isinstance(each, asyncio.CancelledError):
                    raise each
            if refused:
                raise refused
        finally:
            for task in self._tasks:
                task.cancel()
            try:
                await asyncio.gather(*self._tasks, return_exceptions=True)
                await asyncio.gather(*self._late, return_exceptions=True)
            finally:
                self._is_running = False
                self._told = None

    def _check_not_running(self) -> None:
        if self._is_running:
            raise ValueError("this service is running already")

    async def _told_to_end(self) -> None:
        with self.ksock._future() as stopped:
            self._stopped = stopped
            self.ready.set()
            if self._told is not None:
                self._end(self._told)
            try:
                await stopped
            finally:
                self._stopped = None
                self.ready.clear()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """In the block, the service runs in a task of its own; at the end it is stopped, unless it drains.

        Raises what ``run`` raises: at the beginning if a name cannot be bound, else at the end.
        """
        self._check_not_running()
        task = self._loop.create_task(self.run())
        ready = self._loop.create_task(self.ready.wait())
        try:
            await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield
        finally:
            ready.cancel()
            if not task.done():
                # The loop may not have run a ``stop`` or ``drain`` yet, nor the service wait for it.
                self._told = bool(self._told)
                self._end(self._told)
            try:
                await task
            finally:
                self._told = None

    def stop(self) -> None:
        """Let the service end when the Requests in hand are answered.

        Those in the queue get the error ``Stopped``, and one that comes while the names are being unbound the
        status ``$.KBUS.Replier.Unbound``.
        """
        self._tell(is_draining=False)

    def drain(self) -> None:
        """Let the service take no more Requests, answer those that are queued, and end."""
        self._tell(is_draining=True)

    def _tell(self, is_draining: bool) -> None:
        if self._told is None:
            self._told = is_draining
        # If the loop is closed, nothing runs.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end_as_told, is_draining)

    def _end_as_told(self, is_draining: bool) -> None:
        # The loop may do this in a later run than the one that it was meant for.
        if self._told is not None:
            self._end(is_draining)

    def _end(self, is_draining: bool) -> None:
        if self._stopped is not None and not self._stopped.done():
            self._is_draining = is_draining
            self._stopped.set_result(None)

    def _bind_all(self) -> None:
        for name, is_replier in self.bindings():
            self.ksock.bind(name, is_replier)
            self._bound.append((name, is_replier))

    def _unbind(self) -> Optional[OSError]:
        """Unbind the names; return why one stays bound, if it does."""
        refused: Optional[OSError] = None
        self._is_over = not self._is_draining
        if self._bound and self.ksock.ksock.fd:
            # An unbind drops what is unread, which may be for others here too.
            try:
                self.ksock._take_all()
            except OSError as error:
                refused = error
        while self._bound:
            name, is_replier = self._bound.pop()
            if not self.ksock.ksock.fd:
                continue
            try:
                self.ksock.unbind(name, is_replier)
            except OSError as error:
                refused = error
        return refused

    # Serving.

    def start(self, message: Message, replier: Optional[Handling[Handler]]) -> None:
        """Begin to handle a message: by those that listen to it, and by ``replier``, if there is one.

        When the service has ended, a Request is refused.
        """
        for listener in self.listeners_for(message):
            self._begin(self._hear(message, listener))
        if replier and self._is_over:
            self._refuse(message)
        elif replier:
            unbegun = [message]
            self._begin(self._reply(unbegun, replier), unbegun)

    def _begin(self, work: Any, unbegun: Sequence[Message] = ()) -> None:
        """Let a task do this; ``unbegun`` has the Request until the task begins, which it may never."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._completed, unbegun))

    def _completed(self, unbegun: Sequence[Message], task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        for request in unbegun:
            self._give_up(request, asyncio.CancelledError())
        error = None if task.cancelled() else task.exception()
        if error is not None and self._stopped and not self._stopped.done():
            self._stopped.set_exception(error)

    async def _hear(self, message: Message, listener: Handling[Handler]) -> None:
        try:
            await self._result(listener, message)
        except StopServing:
            self._end(is_draining=False)
        except Exception as error:
            log_failure(message, error)

    async def _reply(self, unbegun: list[Message], replier: Handling[Handler]) -> None:
        request = unbegun.pop()
        ksock = self.ksock.ksock
        try:
            data = await self._result(replier, request)
        except Exception as error:
            reply, end = outcome_of_error(ksock, request, error)
        except BaseException as error:
            self._give_up(request, error)
            raise
        else:
            reply, end = outcome_of(ksock, request, lambda: data)
        self.ksock._answer(request, reply)
        if end:
            self._end(is_draining=False)

    async def _result(self, handling: Handling[Handler], message: Message) -> Data:
        limit = handling.time_limit
        until = math.inf if limit is None else self._loop.time() + limit
        result = handling.handler(message)
        if not isinstance(result, Awaitable):
            if self._loop.time() >= until:
                raise handling.too_late()
            return result
        if limit is None:
            return await result
        # The requester does not wait until the handler has ended, but the service does.
        task = asyncio.ensure_future(result)
        try:
            await asyncio.wait((task,), timeout=until - self._loop.time())
            if task.done():
                return task.result()
            raise handling.too_late()
        finally:
            if not task.done():
                task.cancel()
                self._late.add(task)
                task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Future[Any]) -> None:
        """Drop the result of a handler that took too long."""
        self._late.discard(task)
        if not task.cancelled():
            task.exception()

    def _give_up(self, request: Message, error: BaseException) -> None:
        if self.ksock.ksock.fd:
            self._answer_at_the_end(request, outcome_of_error(self.ksock.ksock, request, error).reply)

    def _refuse(self, request: Message) -> None:
        longest = self.ksock.ksock.max_message_size()
        self._answer_at_the_end(request, failed_reply(request, "Stopped", "the service has ended", longest))

    def _answer_at_the_end(self, request: Message, reply: Reply) -> None:
        # A refusal has no caller left to raise to.
        with suppress(OSError):
            self.ksock._answer(request, reply)
