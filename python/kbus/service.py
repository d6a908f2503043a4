# SPDX-License-Identifier: MIT
"""A service: one Ksock, several names, one loop. ``kbus.aio.Service`` is the one for asyncio.

::

    from kbus import Ksock, Service

    service = Service(Ksock(), "$.Door")

    @service.replier("Open")                # $.Door.Open
    def open_door(request):
        return "open"

    @service.listener("$.Weather.%")
    def weather(message):
        print(message)

    service.run()
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Optional

from ._answering import Outcome, log_failure, outcome_of, outcome_of_error
from ._failed import failed_reply
from ._handlers import Handlers, Handling
from .errors import ReplierError, StopServing
from .messages import Message, Reply

if TYPE_CHECKING:
    from ._transfer import Taken
    from .ksock import Ksock

#: Takes a message; returns the data of the reply, at once or when it is awaited.
Handler = Callable[[Message], Any]

__all__ = ["Handler", "Service"]


class Service(Handlers[Handler]):
    """Answers Requests and hears messages on a Ksock, one after the other.

    ``prefix`` and a dot go before names that do not begin with ``$.``. The caller closes the Ksock. Handlers
    are plain functions or coroutine functions, which are awaited to their end before the next message is
    looked at.

    What a replier's handler returns is the data of the reply. An exception is an answer too: the requester
    gets a ReplierError, the logger ``kbus.serve`` the traceback, and the service goes on. StopServing answers
    and then stops; KeyboardInterrupt, SystemExit and the like are answered, and then passed on: what has been
    read by then is kept. An exception of a listener's handler is logged.

    A handler with a ``time_limit`` in seconds fails when they are over: the requester gets a
    ReplierError of the kind ``TimeLimit``. One that is a coroutine is cancelled; a plain function goes on to
    its end, and what it returns then is dropped. While it waits for room to send, or has written a message
    that is not sent, the error cannot be sent: the requester gets it when the handler ends.

    A message that has been written on the Ksock, in part or whole, and not sent when a handler ends, is
    discarded so that the reply can be sent.

    Messages that are for none of the handlers are kept, to be read when the service has ended. With
    listeners, a message comes once, however many of the Ksock's bindings match (``want_messages_once``).
    A Ksock has one queue: where listeners hear more than a slow handler lets the service take, Requests are
    refused meanwhile (EBUSY). A service of its own, on another Ksock, keeps them apart.

    In a process that is forked while this runs, the service neither answers nor unbinds, whatever is called
    or closed. If a handler forks and returns in both, ``run`` ends in the new one.

    Synchronization: ``stop`` and ``drain`` can be called by signal handlers and other threads; all else by
    one thread.
    """

    def __init__(self, ksock: Ksock, prefix: str = "$") -> None:
        super().__init__(prefix)
        self.ksock = ksock
        #: Set when all names are bound.
        self.ready = threading.Event()
        # Once the pipe is closed, another file may have this number. A signal handler may run while its
        # thread has the lock.
        self._wake: Optional[int] = None
        self._wake_lock = threading.RLock()
        self._let_go()
        self._bound: list[tuple[str, bool]] = []
        self._awaiting: Optional[Any] = None
        # The message that is being handled, until its requester, if it has one, is answered.
        self._in_hand: Optional[Message] = None
        # The process that it runs in, and the thread.
        self._pid = 0
        self._thread: Optional[threading.Thread] = None
        # Held while it runs, and in the block of `running`.
        self._runs = threading.Lock()

    # Beginning and ending.

    def _let_go(self) -> None:
        """Reset what makes the service end."""
        self._is_stopping = False
        self._is_draining = False
        self._is_closed = False

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        if not self._runs.acquire(blocking=False):
            raise ValueError("this service runs already")
        try:
            yield
        finally:
            self._runs.release()

    def run(self) -> None:
        """Serve until ``stop`` or ``drain`` is called, which may have been before, or a handler ends it.

        Raises OSError as ``Ksock.bind`` does, before anything else is done, if a name cannot be bound.
        At the end the names are unbound. If that is refused, because a listener to
        ``$.KBUS.ReplierBindEvent`` has no room for the event, they stay bound until they are unbound later,
        or the Ksock is closed; this raises BlockingIOError (EAGAIN) unless another exception has ended it.
        Raises ValueError if the Ksock is closed meanwhile, and before anything is done if this runs already,
        or if another thread serves with the Ksock. A handler may run another service of the Ksock to its end.
        """
        with self._claimed():
            self._run()

    def _run(self) -> None:
        self._pid, self._thread = os.getpid(), threading.current_thread()
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self._wake = writer
        try:
            # Before the first name is bound, so that nothing comes more often.
            with self._once(), self._bind_all():
                self.ready.set()
                self._serve(reader)
        finally:
            self.ready.clear()
            with self._wake_lock:
                self._wake = None
                os.close(writer)
            os.close(reader)
            self._let_go()
            if self._awaiting:
                self._awaiting.close()
                self._awaiting = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """In the block, the service runs in a thread of its own; at the end it is stopped, unless it drains.

        Raises what ``run`` raises: at the beginning if a name cannot be bound, else at the end.
        """
        with self._claimed():
            yield from self._in_a_thread()

    def _in_a_thread(self) -> Iterator[None]:
        errors: list[BaseException] = []

        def run() -> None:
            try:
                self._run()
            except BaseException as error:
                errors.append(error)
            finally:
                # If the service never became ready, end the wait for that.
                self.ready.set()

        thread = threading.Thread(target=run, name=f"kbus {self._prefix}")
        thread.start()
        try:
            self.ready.wait()
            if not errors:
                yield
        finally:
            if not self._is_draining:
                self.stop()
            thread.join()
            self.ready.clear()
            self._let_go()
        if errors:
            raise errors[0]

    def stop(self) -> None:
        """Let the service end when the Request in hand, if there is one, is answered.

        Those in the queue get the status ``$.KBUS.Replier.Unbound``, one that has been read by then the error
        ``Stopped``.
        """
        self._is_stopping = True
        self._wake_up()

    def drain(self) -> None:
        """Let the service take no more Requests, answer those that are queued, and end."""
        self._is_draining = True
        self._wake_up()

    def _is_copy(self) -> bool:
        """Return whether this is a fork's copy: the Ksock belongs to the process that runs the service."""
        return os.getpid() != self._pid

    def _is_of_another_thread(self) -> bool:
        thread = self._thread
        return thread is not None and thread is not threading.current_thread() and thread.is_alive()

    def _wake_up(self) -> None:
        if self._is_copy():
            return
        with self._wake_lock, suppress(BlockingIOError):
            if self._wake is not None:
                os.write(self._wake, b"\0")

    def _close(self) -> None:
        """The Ksock is about to be closed: unbind the names, and let the service end."""
        self._is_closed = True
        self.stop()
        with suppress(OSError, ValueError):
            self._unbind()

    def _unbind(self) -> None:
        refused: Optional[OSError] = None
        if self._is_copy():
            return
        while self._bound:
            bound = self._bound.pop()
            try:
                self.ksock.unbind(*bound)
            except OSError as error:
                # EINVAL: it is not bound any more, as a handler has unbound it.
                if error.errno != errno.EINVAL:
                    refused = error
            except BaseException:
                self._bound.append(bound)
                raise
        if refused:
            raise refused

    @contextmanager
    def _bind_all(self) -> Iterator[None]:
        try:
            with self.ksock._served_by(self):
                for bound in self.bindings():
                    # Before it is bound, as an exception may come at once, and another thread may close.
                    self._bound.append(bound)
                    try:
                        self.ksock.bind(*bound)
                    except OSError:
                        with suppress(ValueError):
                            self._bound.remove(bound)
                        raise
                yield
            self._unbind()
        except BaseException:
            # The exception that ends it matters more than a refusal of this.
            with suppress(OSError, ValueError):
                self._unbind()
            raise

    @contextmanager
    def _once(self) -> Iterator[None]:
        if not self.listeners:
            yield
            return
        before = self.ksock.want_messages_once(just_ask=True)
        try:
            self.ksock.want_messages_once(True)
            yield
            if not self._is_copy():
                self.ksock.want_messages_once(before)
        except BaseException:
            # The exception that ends it matters more than an error because it is closed.
            with suppress(OSError, ValueError):
                if not self._is_copy():
                    self.ksock.want_messages_once(before)
            raise

    # Serving.

    def _serve(self, woken: int) -> None:
        while not (self._is_stopping or self._is_draining):
            self._handle_next(woken)
        refused = self._drain() if not self._is_stopping else None
        if self._is_closed:
            raise ValueError("the KSock has been closed")
        self._refuse_those_read()
        if refused:
            raise refused

    def _drain(self) -> Optional[OSError]:
        """Unbind, and handle what had come before; return why a name stays bound, if one does."""
        refused: Optional[OSError] = None
        # An unbind drops what is unread.
        self.ksock._take_all_aside()
        try:
            self._unbind()
        except OSError as error:
            refused = error
        while not self._is_stopping and self._handle_next(None):
            pass
        return refused

    def _refuse_those_read(self) -> None:
        """Answer Requests that were read, and are not handled any more."""
        while True:
            taken: Taken = []
            try:
                request = self.ksock._find(lambda each: self.replier_for(each) is not None, None, taken)
                if request is None:
                    return
                longest = self.ksock.max_message_size()
                reply = failed_reply(request, "Stopped", "the service has ended", longest)
                self._send(request, reply)
            except BaseException:
                self.ksock._undone.append((taken, None))
                raise

    def _handle_next(self, woken: Optional[int]) -> bool:
        """Handle the next message, if there is one; without ``woken``, of those kept.

        If an exception comes before a handler has begun, the message is read next. If one comes after that,
        the requester gets it as an error.
        """
        taken: Taken = []
        try:
            message = self._in_hand = self.ksock._find(self.wants, woken, taken)
            taken.clear()
            if message is not None:
                self._handle(message)
            self._in_hand = None
            return message is not None
        except BaseException as error:
            request, self._in_hand = self._in_hand, None
            if taken:
                self.ksock._undone.append((taken, None))
            elif request and request.wants_us_to_reply() and self.ksock.fd:
                # If it has been answered, this is refused.
                with suppress(OSError, ValueError):
                    self._send(request, outcome_of_error(self.ksock, request, error).reply)
            raise

    def _handle(self, message: Message) -> None:
        replier = self.replier_for(message)
        for listener in self.listeners_for(message):
            try:
                self._result(listener, message)
            except StopServing:
                self._is_stopping = True
            except Exception as error:
                log_failure(message, error)
        if replier:
            self._answer(message, replier)
        # A handler that has forked comes to its end in both processes.
        self._is_stopping |= self._is_copy()

    def _answer(self, request: Message, replier: Handling[Handler]) -> None:
        if replier.time_limit is None:
            reply, end = outcome_of(self.ksock, request, partial(self._result, replier, request))
        else:
            outcome = self._in_time(request, replier, replier.time_limit)
            if outcome is None:
                return
            reply, end = outcome
        self._is_stopping |= isinstance(end, StopServing)
        is_last = self._is_stopping or self._is_draining or end is not None
        self._send(request, reply, self.wants if not is_last else None)
        self._in_hand = None
        if end and not isinstance(end, StopServing):
            raise end

    def _send(
        self, request: Message, reply: Reply, next_wanted: Optional[Callable[[Message], bool]] = None
    ) -> None:
        """Answer a Request whose handler has ended, and discard what that has left unsent."""
        if self._is_copy():
            return
        try:
            self.ksock._answer(request, reply, next_wanted)
        except OSError as error:
            if error.errno != errno.EALREADY:
                raise
            self.ksock.discard()
            self.ksock._answer(request, reply, next_wanted)

    def _in_time(self, request: Message, replier: Handling[Handler], seconds: float) -> Optional[Outcome]:
        """Return the handler's outcome, or None if it took too long and the requester got that error."""
        mine = threading.Lock()
        untold: list[Outcome] = []

        def tell() -> None:
            if mine.acquire(blocking=False):
                with suppress(OSError, ValueError):
                    untold.append(outcome_of_error(self.ksock, request, replier.too_late()))
                    self.ksock._answer(request, untold[0].reply, None)
                    untold.clear()

        timer = threading.Timer(seconds, tell)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError as error:
            return outcome_of_error(self.ksock, request, error)
        outcome = outcome_of(self.ksock, request, partial(self._result, replier, request))
        timer.cancel()
        if mine.acquire(blocking=False):
            return outcome
        # Nothing more may be sent from here before that error is.
        timer.join()
        if untold:
            # The handler has written a message that is not sent, so the error could not be sent.
            return untold[0]._replace(end=outcome.end)
        if outcome.end and not isinstance(outcome.end, StopServing):
            raise outcome.end
        self._is_stopping |= outcome.end is not None
        return None

    def _result(self, handling: Handling[Handler], message: Message) -> Any:
        began = time.monotonic()
        result = handling.handler(message)
        if not hasattr(result, "__await__"):
            return result
        # Imported late: most services do not need it.
        import asyncio

        if self._awaiting is None:
            self._awaiting = asyncio.new_event_loop()
        limit = handling.time_limit
        task = self._awaiting.create_task(asyncio.wait_for(result, limit))
        try:
            return self._awaiting.run_until_complete(task)
        except asyncio.TimeoutError:
            # The handler may have raised that itself.
            if limit is not None and time.monotonic() >= began + limit:
                raise handling.too_late() from None
            raise
        except asyncio.CancelledError as error:
            # Only the handler itself can have cancelled something.
            raise ReplierError("CancelledError", str(error)) from error
        finally:
            if not task.done():
                # A signal handler has raised something in the middle of it.
                task.cancel()
                with suppress(Exception, asyncio.CancelledError):
                    self._awaiting.run_until_complete(task)
