# SPDX-License-Identifier: MIT
"""Services: several names on one KSock, how they end, and time limits."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from kbus import (
    Announcement,
    Ksock,
    Message,
    ReplierError,
    Request,
    Service,
    StatusError,
    StopServing,
    aio,
)
from tests.kernel import stand_in
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PATIENCE, fails, fill, handler, names, take, texts, wait_until
from tests.kernel.processes import in_child
from tests.kernel.test_call_and_serve import meanwhile, until_served


def upper(request: Message) -> bytes:
    """A handler."""
    return (request.data or b"").upper()


class Door:
    """A service with two names, a listener, and one more replier by a whole name."""

    def __init__(self, server: Ksock) -> None:
        self.heard: list[tuple[str, str]] = []
        self.service = service = Service(server, "$.Door")
        service.replier("Open")(upper)
        service.replier("Close")(self.close)
        service.replier("$.Bell")(lambda request: "ring")
        service.listener("$.Weather.%")(lambda message: self.heard.append(("%", message.name)))
        service.listener("$.Weather.*")(lambda message: self.heard.append(("*", message.name)))

    async def close(self, request: Message) -> str:
        """A handler that awaits."""
        await asyncio.sleep(0)
        return "closed"


@pytest.fixture
def door(ksock: OpenKsock) -> Door:
    """A service that does not run yet."""
    return Door(ksock())


@pytest.mark.parametrize("seconds", [30 * 24 * 3600, 1e12, math.inf])
def test_any_time_can_be_waited_for(ksock: OpenKsock, seconds: float) -> None:
    async def handler(request: Message) -> str:
        await asyncio.sleep(0)
        return "done"

    async def serve_and_call() -> bytes | None:
        async with aio.AsyncKsock() as server, aio.AsyncKsock() as asker:
            service = aio.Service(server, "$.Async")
            service.replier("A", time_limit=seconds)(handler)
            async with service.running():
                return (await asker.call("$.Async.A", timeout=seconds)).data

    service = Service(ksock(), "$.Fred")
    service.replier("A", time_limit=seconds)(handler)
    with service.running():
        assert ksock().call("$.Fred.A", timeout=seconds).data == b"done"
    assert asyncio.run(serve_and_call()) == b"done"


def test_several_names_and_plain_and_async_handlers(ksock: OpenKsock, door: Door) -> None:
    caller = ksock()
    with door.service.running():
        assert door.service.ready.is_set()
        assert caller.call("$.Door.Open", "a", PATIENCE).data == b"A"
        assert caller.call("$.Door.Close", timeout=PATIENCE).data == b"closed"
        assert caller.call("$.Bell", timeout=PATIENCE).data == b"ring"
    assert not door.service.ready.is_set()
    for name in ("$.Door.Open", "$.Door.Close", "$.Bell"):
        assert caller.find_replier(name) is None


def test_each_listener_that_matches_hears_a_message_once(ksock: OpenKsock, door: Door) -> None:
    sender = ksock()
    with door.service.running():
        sender.send_many([Announcement("$.Weather.Rain"), Announcement("$.Weather.Rain.Heavy")])
        sender.call("$.Bell", timeout=PATIENCE)
    assert door.heard == [("%", "$.Weather.Rain"), ("*", "$.Weather.Rain"), ("*", "$.Weather.Rain.Heavy")]
    assert door.service.ksock.want_messages_once(just_ask=True) is False


def test_what_comes_while_names_are_bound_comes_once(
    ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To each listener that matches, however many names have been bound by then."""
    sender, server = ksock(), ksock()
    heard: list[object] = []
    service = Service(server)
    names = ("$.A.*", "$.A.%")
    for name in names:
        service.listener(name)(lambda message: heard.append(message.data))
    service.replier("$.B")(lambda request: "done")
    real = server.bind

    def bind(name: str, replier: bool = False) -> None:
        real(name, replier)
        sender.send_msg(Announcement("$.A.Bound", name))

    monkeypatch.setattr(server, "bind", bind)
    with service.running():
        sender.call("$.B", timeout=PATIENCE)
    assert heard == [name.encode() for name in (*names, "$.B") for _ in names]


def test_a_service_may_listen_to_what_it_answers(ksock: OpenKsock) -> None:
    caller = ksock()
    service = Service(ksock())
    heard: list[bytes | None] = []
    service.replier("$.A")(upper)
    service.listener("$.*")(lambda message: heard.append(message.data))
    with service.running():
        assert caller.call("$.A", "x", PATIENCE).data == b"X"
        assert caller.call("$.A", "y", PATIENCE).data == b"Y"
    assert heard[:3] == [b"x", b"X", b"y"]


def test_the_most_specific_replier_answers(ksock: OpenKsock) -> None:
    caller = ksock()
    service = Service(ksock())
    for name in ("$.*", "$.A.%", "$.A.B"):
        service.replier(name)(lambda request, name=name: name)  # type: ignore[misc]
    with service.running():
        found = [caller.call(name, timeout=PATIENCE).data for name in ("$.A.B", "$.A.C", "$.D")]
    assert found == [b"$.A.B", b"$.A.%", b"$.*"]


def test_a_name_that_is_taken_is_an_error_before_anything_runs(ksock: OpenKsock, door: Door) -> None:
    other, asker = ksock(), ksock()
    other.bind("$.Bell", replier=True)
    with fails(errno.EADDRINUSE):
        door.service.run()
    with fails(errno.EADDRINUSE), door.service.running():
        raise AssertionError("it does not run")
    assert asker.find_replier("$.Door.Open") is None
    assert asker.find_replier("$.Bell") == other.ksock_id()


@pytest.mark.parametrize("name", ["Open", "$.Door.Open"])
def test_two_handlers_of_one_name(door: Door, name: str) -> None:
    with pytest.raises(ValueError, match=r"^\$\.Door\.Open has a handler already$"):
        door.service.replier(name)


def test_a_time_limit_that_is_no_number(door: Door) -> None:
    with pytest.raises(ValueError, match="is NaN"):
        door.service.replier("Knock", time_limit=math.nan)


def test_a_time_limit_that_is_none(ksock: OpenKsock, door: Door) -> None:
    door.service.replier("Knock", time_limit=math.inf)(upper)
    with door.service.running():
        assert ksock().call("$.Door.Knock", "x", PATIENCE).data == b"X"


def test_a_bad_name() -> None:
    with pytest.raises(ValueError, match="empty word"):
        Service(None, "$.Door").replier("")  # type: ignore[arg-type]


def test_other_messages_are_read_later(ksock: OpenKsock, door: Door) -> None:
    caller = ksock()
    door.service.ksock.bind("$.Other")
    with door.service.running():
        caller.send_msg(Announcement("$.Other", "kept"))
        caller.call("$.Bell", timeout=PATIENCE)
    assert texts(door.service.ksock) == [b"kept"]


def test_an_error_in_a_listener_is_logged(ksock: OpenKsock, caplog: pytest.LogCaptureFixture) -> None:
    caller = ksock()
    service = Service(ksock())

    @service.listener("$.Weather.%")
    def weather(message: Message) -> None:
        raise ZeroDivisionError

    service.replier("$.A")(upper)
    with service.running():
        sent = caller.send_msg(Announcement("$.Weather.Rain"))
        assert caller.call("$.A", "x", PATIENCE).data == b"X"
    assert [(each.name, each.getMessage()) for each in caplog.records] == [
        ("kbus.serve", f"message {sent} $.Weather.Rain failed")
    ]


class Gate:
    """A handler that waits until it is let through."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, request: Message) -> str:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return "through"


@pytest.mark.axiom("answer")
def test_stop_answers_what_is_in_hand(ksock: OpenKsock) -> None:
    first, second = ksock(), ksock()
    gate, service = Gate(), Service(ksock())
    service.replier("$.A")(gate)
    with meanwhile(service.run):
        assert service.ready.wait(PATIENCE)
        first.send_msg(Request("$.A"))
        assert gate.begun.wait(PATIENCE)
        second.send_msg(Request("$.A"))
        service.stop()
        gate.go.set()
    assert take(first).data == b"through"
    assert names(second) == ["$.KBUS.Replier.Unbound"]


@pytest.mark.axiom("answer")
def test_drain_answers_what_is_queued_and_takes_no_more(ksock: OpenKsock) -> None:
    callers = [ksock() for _ in range(3)]
    gate, service = Gate(), Service(ksock())
    service.replier("$.A")(gate)
    with meanwhile(service.run):
        assert service.ready.wait(PATIENCE)
        callers[0].send_msg(Request("$.A"))
        assert gate.begun.wait(PATIENCE)
        for caller in callers[1:]:
            caller.send_msg(Request("$.A"))
        service.drain()
        gate.go.set()
    assert [texts(caller) for caller in callers] == [[b"through"]] * 3
    with fails(errno.EADDRNOTAVAIL):
        callers[0].send_msg(Request("$.A"))


def test_stop_from_a_signal_handler(ksock: OpenKsock) -> None:
    service = Service(ksock())
    service.replier("$.A")(upper)
    before = signal.signal(signal.SIGALRM, lambda number, frame: service.stop())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        service.run()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ksock().find_replier("$.A") is None


def test_signals_that_stop_nothing_do_not_disturb_it(ksock: OpenKsock) -> None:
    caller = ksock()
    service = Service(ksock())
    service.replier("$.A")(upper)
    with handler(signal.SIGALRM, restart=False) as came, meanwhile(lambda: ask_and_stop(caller, service)):
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        service.run()
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert came


def ask_and_stop(caller: Ksock, service: Service) -> None:
    assert service.ready.wait(PATIENCE)
    for _ in range(5):
        assert caller.call("$.A", "x", PATIENCE).data == b"X"
        time.sleep(0.01)
    service.stop()


def test_it_can_run_again(ksock: OpenKsock, door: Door) -> None:
    caller = ksock()
    for _ in range(2):
        with door.service.running():
            assert caller.call("$.Bell", timeout=PATIENCE).data == b"ring"


def test_it_cannot_run_twice_at_a_time(ksock: OpenKsock, door: Door) -> None:
    caller = ksock()
    with door.service.running():
        for _ in range(2):
            with pytest.raises(ValueError, match=r"^this service runs already$"):
                door.service.run()
            with pytest.raises(ValueError, match=r"^this service runs already$"), door.service.running():
                raise AssertionError("it does not run")
            assert door.service.ready.is_set()
            assert caller.call("$.Bell", timeout=PATIENCE).data == b"ring"
    assert caller.find_replier("$.Bell") is None


def test_two_services_of_one_ksock_do_not_run_in_two_threads(ksock: OpenKsock, door: Door) -> None:
    caller, other = ksock(), Service(door.service.ksock)
    other.replier("$.Other")(upper)
    with door.service.running():
        with pytest.raises(ValueError, match=r"^another thread serves with <Ksock .*>$"):
            other.run()
        assert caller.find_replier("$.Other") is None
        assert caller.call("$.Bell", timeout=PATIENCE).data == b"ring"
    with other.running():
        assert caller.call("$.Other", "x", PATIENCE).data == b"X"


def test_a_handler_may_serve(ksock: OpenKsock) -> None:
    server, first, second = ksock(), ksock(), ksock()
    service = Service(server)

    def end(request: Message) -> None:
        raise StopServing("inner")

    @service.replier("$.A")
    def handle(request: Message) -> str:
        inner = Service(server)
        inner.replier("$.B")(end)
        inner.ready = Asks(second)
        inner.run()
        return "outer"

    with service.running():
        assert first.call("$.A", timeout=PATIENCE).data == b"outer"
        assert take(second).data == b"inner"


class Asks(threading.Event):
    """Something is asked as soon as a service is ready."""

    def __init__(self, asker: Ksock) -> None:
        super().__init__()
        self._asker = asker

    def set(self) -> None:
        super().set()
        self._asker.send_msg(Request("$.B"))


@pytest.mark.axiom("answer")
def test_drain_at_the_end_of_the_block(ksock: OpenKsock) -> None:
    callers = [ksock() for _ in range(3)]
    gate, service = Gate(), Service(ksock())
    service.replier("$.A")(gate)
    with service.running():
        callers[0].send_msg(Request("$.A"))
        assert gate.begun.wait(PATIENCE)
        for caller in callers[1:]:
            caller.send_msg(Request("$.A"))
        service.drain()
        gate.go.set()
    assert [texts(caller) for caller in callers] == [[b"through"]] * 3


def test_a_handler_that_unbinds_its_name(ksock: OpenKsock, door: Door) -> None:
    caller, server = ksock(), door.service.ksock
    door.service.replier("Unbind")(lambda request: server.unbind("$.Door.Unbind", replier=True))
    with door.service.running():
        assert caller.call("$.Door.Unbind", timeout=PATIENCE).data is None
        assert caller.find_replier("$.Door.Unbind") is None
        assert caller.call("$.Bell", timeout=PATIENCE).data == b"ring"
    assert caller.find_replier("$.Bell") is None


def serve_until_closed(server: Ksock) -> None:
    with pytest.raises(ValueError, match="closed"):
        server.serve("$.A", upper)


@pytest.mark.axiom("answer", "lifetime")
def test_a_close_by_another_thread_unbinds_and_ends_it(ksock: OpenKsock) -> None:
    server, other = ksock(), ksock()

    with meanwhile(partial(serve_until_closed, server)):
        wait_until(lambda: other.find_replier("$.A") is not None, "it is served")
        server.close()
        assert other.find_replier("$.A") is None
        other.bind("$.A", replier=True)


@pytest.mark.axiom("answer", "lifetime")
def test_a_close_just_after_an_answer_unbinds_too(ksock: OpenKsock) -> None:
    """The server may be in the system call that has answered, and waits there for more."""
    server, other = ksock(), ksock()

    with meanwhile(partial(serve_until_closed, server)):
        wait_until(lambda: other.find_replier("$.A") is not None, "it is served")
        assert other.call("$.A", "x", PATIENCE).data == b"X"
        server.close()
        assert other.find_replier("$.A") is None


class ClosedOnceBound(Ksock):
    """Another thread closes it as soon as a name is bound."""

    def bind(self, *arguments: Any, **more: Any) -> None:
        super().bind(*arguments, **more)
        closer = threading.Thread(target=self.close)
        closer.start()
        closer.join()


@pytest.mark.axiom("answer", "lifetime")
def test_a_close_while_it_binds_unbinds_too(ksock: OpenKsock) -> None:
    """The server may be in a system call then, which keeps the device open."""
    stand_in.cannot(stand_in.Lacks.FORKS)
    server, other = ClosedOnceBound(0), ksock()

    with open(os.dup(server.fileno()), "rb", buffering=0):
        serve_until_closed(server)
        assert other.find_replier("$.A") is None


@pytest.mark.axiom("answer")
def test_a_request_that_was_read_as_it_stopped_is_answered(
    ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The call that answers one waits a little for the next. No handler has failed, so nothing is logged."""
    server, first, second = ksock(), ksock(), ksock()
    service = Service(server)

    @service.replier("$.A")
    def handle(request: Message) -> str:
        second.send_msg(Request("$.A"))
        return "done"

    answer = server._answer

    def answer_and_stop(*arguments: Any) -> None:
        answer(*arguments)
        service.stop()

    monkeypatch.setattr(server, "_answer", answer_and_stop)
    with service.running():
        assert first.call("$.A", timeout=PATIENCE).data == b"done"
        reply = second.wait_for_msg(PATIENCE)
    assert reply is not None
    assert (reply.name, reply.data) == ("$.KBUS.Replier.Failed", b"Stopped\nthe service has ended")
    assert server.num_unreplied_to() == 0
    assert not caplog.records


@pytest.mark.long("measures time")
def test_a_child_that_stops_its_copy_stops_nothing_here(ksock: OpenKsock, door: Door) -> None:
    """As a child does that inherits a signal handler which calls stop()."""
    caller = ksock()
    with door.service.running():
        in_child(door.service.stop)
        began = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - began < 0.15
        assert caller.call("$.Bell", timeout=PATIENCE).data == b"ring"


@pytest.mark.axiom("answer")
def test_drain_ends_though_handlers_put_more_aside(ksock: OpenKsock) -> None:
    """As they do by a call on the same KSock while Requests come."""
    server, asker = ksock(), ksock()
    service = Service(server)
    handled = 0

    @service.replier("$.A")
    def handle(request: Message) -> None:
        nonlocal handled
        handled += 1
        if handled < 50 and asker.find_replier("$.A") is not None:
            asker.send_msg(Request("$.A"))
            server._take_all_aside()
        if handled == 3:
            service.drain()

    with meanwhile(service.run):
        assert service.ready.wait(PATIENCE)
        asker.send_msg(Request("$.A"))
    assert handled == 4
    assert asker.num_messages() == 4


@pytest.mark.axiom("answer")
@pytest.mark.parametrize("name", ["$.Weather", "$.Other"])
def test_drain_ends_while_others_send(ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As many as it reads come meanwhile: for a listener of its own, or by a binding of the program's."""
    server, asker, other = ksock(), ksock(), ksock()
    server.bind("$.Other")
    service = Service(server)
    service.replier("$.A")(upper)
    service.listener("$.Weather")(lambda message: None)
    receive, sent = server._inbox._receive, 0

    def receive_and_send(*arguments: Any) -> Message | None:
        nonlocal sent
        sent += 1
        assert sent < 1000
        other.send_msg(Announcement(name))
        return receive(*arguments)

    with service.running():
        monkeypatch.setattr(server._inbox, "_receive", receive_and_send)
        for _ in range(10):
            asker.send_msg(Request("$.A", "x"))
        service.drain()
        assert [asker.wait_for_msg(PATIENCE) is not None for _ in range(10)] == [True] * 10
        wait_until(lambda: other.find_replier("$.A") is None, "it has ended")


@pytest.mark.axiom("answer")
@pytest.mark.parametrize("time_limit", [None, PATIENCE])
def test_a_log_that_fails_keeps_nobody_from_the_answer(
    ksock: OpenKsock, time_limit: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    caller, logger = ksock(), logging.getLogger("kbus.serve")
    service = Service(ksock())

    @service.replier("$.A", time_limit=time_limit)
    def handle(request: Message) -> str:
        return str(int(request.data or b""))

    def fail(record: logging.LogRecord) -> bool:
        raise OSError("no room for the log")

    logger.addFilter(fail)
    try:
        with service.running():
            with pytest.raises(ReplierError, match=r"^ValueError: "):
                caller.call("$.A", "one", PATIENCE)
            assert caller.call("$.A", "1", PATIENCE).data == b"1"
    finally:
        logger.removeFilter(fail)
    assert "no room for the log" in capsys.readouterr().err


@pytest.mark.axiom("answer")
def test_a_time_limit_without_a_thread_to_keep_it(
    ksock: OpenKsock, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(timer: threading.Timer) -> None:
        raise RuntimeError("can't start new thread")

    caller = ksock()
    door.service.replier("$.Late", time_limit=PATIENCE)(upper)
    with door.service.running():
        monkeypatch.setattr(threading.Timer, "start", refuse)
        with pytest.raises(ReplierError, match=r"^RuntimeError: can't start new thread$"):
            caller.call("$.Late", timeout=PATIENCE)
        assert caller.call("$.Bell", timeout=PATIENCE).data == b"ring"


def must_wait() -> Announcement:
    """A message that waits until all listeners have room."""
    return Announcement("$.News", "news", flags=Message.ALL_OR_WAIT)


def leave_it_kept(server: Ksock) -> None:
    server.send_msg(must_wait())


def leave_half_of_it(server: Ksock) -> None:
    server.write_data(must_wait().to_bytes()[:20])
    raise ValueError("half of it is enough")


def leave_it_unsent(server: Ksock) -> None:
    server.write_msg(must_wait())


@pytest.mark.axiom("answer")
@pytest.mark.parametrize("time_limit", [None, PATIENCE])
@pytest.mark.parametrize(
    ("leave", "answer"),
    [
        (leave_it_kept, r"^BlockingIOError: "),
        (leave_half_of_it, r"^ValueError: half of it is enough$"),
        (leave_it_unsent, None),
    ],
)
def test_what_a_handler_leaves_unsent_is_discarded(
    ksock: OpenKsock, leave: Callable[[Ksock], None], answer: str | None, time_limit: float | None
) -> None:
    full, server, caller = ksock(), ksock(nonblocking=True), ksock()
    fill(full, "$.News")
    service = Service(server)
    service.replier("$.A", time_limit=time_limit)(lambda request: leave(server))
    service.replier("$.B")(upper)
    with service.running():
        for _ in range(2):
            if answer is None:
                assert caller.call("$.A", timeout=PATIENCE).data is None
            else:
                with pytest.raises(ReplierError, match=answer):
                    caller.call("$.A", timeout=PATIENCE)
        assert caller.call("$.B", "x", PATIENCE).data == b"X"
    assert names(full) == ["$.News"]
    assert server.num_unreplied_to() == 0


@pytest.mark.axiom("answer")
def test_what_a_listener_leaves_unsent_is_discarded_by_the_next_reply(ksock: OpenKsock) -> None:
    full, server, caller = ksock(), ksock(nonblocking=True), ksock()
    fill(full, "$.News")
    service = Service(server)
    service.listener("$.A")(lambda message: leave_it_kept(server))
    service.replier("$.A")(upper)
    with service.running():
        assert caller.call("$.A", "x", PATIENCE).data == b"X"


@pytest.mark.axiom("answer")
def test_a_signal_handler_that_ends_the_wait_for_room(ksock: OpenKsock) -> None:
    full, server, caller = ksock(), ksock(), ksock()
    fill(full, "$.News")
    service = Service(server)

    @service.replier("$.A")
    def handle(request: Message) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        server.send_msg(must_wait())

    def ask() -> None:
        assert service.ready.wait(PATIENCE)
        with pytest.raises(ReplierError, match=r"^HandlerError: too slow$"):
            caller.call("$.A", timeout=PATIENCE)
        service.stop()

    def give_up(number: int, frame: object) -> None:
        raise HandlerError("too slow")

    before = signal.signal(signal.SIGALRM, give_up)
    try:
        with meanwhile(ask):
            service.run()
    finally:
        signal.signal(signal.SIGALRM, before)


def slow(seconds: float) -> Iterator[object]:
    """Handlers that take so long, a plain one and one that awaits."""

    def plain(request: Message) -> str:
        time.sleep(seconds)
        return "late"

    async def awaiting(request: Message) -> str:
        await asyncio.sleep(seconds)
        return "late"

    yield plain
    yield awaiting


@pytest.mark.axiom("answer")
@pytest.mark.parametrize("kind", [0, 1], ids=["plain", "async"])
def test_a_handler_that_takes_too_long(ksock: OpenKsock, kind: int) -> None:
    caller = ksock()
    service = Service(ksock())
    service.replier("$.Slow", time_limit=0.05)(list(slow(0.3))[kind])  # type: ignore[arg-type]
    service.replier("$.Quick", time_limit=PATIENCE)(upper)
    with service.running():
        with pytest.raises(ReplierError, match=r"^TimeLimit: no answer within 0\.05 seconds$"):
            caller.call("$.Slow", timeout=PATIENCE)
        assert caller.call("$.Quick", "x", PATIENCE).data == b"X"
    assert names(caller) == []
    assert service.ksock.num_unreplied_to() == 0


def test_a_handler_that_an_exception_comes_in_on_is_cancelled(ksock: OpenKsock) -> None:
    """As when a signal handler raises KeyboardInterrupt while it awaits."""
    server, caller = ksock(), ksock()
    service = Service(server)
    ended: list[str] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    @service.replier("$.Fred")
    async def handle(request: Message) -> None:
        asyncio.get_running_loop().call_soon(interrupt)
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append(request.name)

    def serve() -> None:
        with pytest.raises(KeyboardInterrupt):
            service.run()

    with meanwhile(serve):
        until_served(caller, "$.Fred")
        with pytest.raises(ReplierError, match=r"^KeyboardInterrupt$"):
            caller.call("$.Fred", timeout=PATIENCE)
    assert ended == ["$.Fred"]


def test_nothing_is_sent_while_a_requester_is_told_of_the_limit(
    ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is another thread, and both may not use the KSock at the same time."""
    server, caller = ksock(), ksock()
    service = Service(server)
    service.replier("$.Slow", time_limit=0.05)(lambda request: time.sleep(0.1))
    service.replier("$.Quick")(upper)
    told: list[str] = []
    answer = server._answer

    def slowly(request: Message, *more: Any) -> None:
        told.append(request.name)
        time.sleep(0.3 if request.name == "$.Slow" else 0)
        answer(request, *more)
        told.append(request.name)

    monkeypatch.setattr(server, "_answer", slowly)
    with service.running():
        for name in ("$.Slow", "$.Quick"):
            caller.send_msg(Request(name))
        wait_until(lambda: len(told) == 4, "both are answered")
    assert told == ["$.Slow", "$.Slow", "$.Quick", "$.Quick"]


@pytest.mark.axiom("answer")
def test_a_handler_that_waits_for_room_until_it_is_too_late(
    ksock: OpenKsock, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then nothing else can be sent; its message stays, and the requester is told after it."""
    full, server, caller = ksock(), ksock(), ksock()
    fill(full, "$.News")
    service = Service(server)

    @service.replier("$.A", time_limit=0.05)
    def handle(request: Message) -> None:
        server.send_msg(must_wait())

    def make_room() -> None:
        wait_until(lambda: bool(caplog.records), "it is too late")
        time.sleep(0.1)
        take(full)

    late = pytest.raises(ReplierError, match=r"^TimeLimit: no answer within 0\.05 seconds$")
    with service.running(), meanwhile(make_room), late:
        caller.call("$.A", timeout=PATIENCE)
    assert texts(full) == [b"news"]
    assert len(caplog.records) == 1


def test_a_handler_that_runs_out_of_time_itself(ksock: OpenKsock) -> None:
    service = Service(ksock())

    @service.replier("$.A", time_limit=PATIENCE)
    async def impatient(request: Message) -> None:
        raise asyncio.TimeoutError("no bell rings")

    with service.running(), pytest.raises(ReplierError, match=r"^TimeoutError: no bell rings$"):
        ksock().call("$.A", timeout=PATIENCE)


def test_a_handler_that_is_cancelled_by_itself_has_failed(
    ksock: OpenKsock, caplog: pytest.LogCaptureFixture
) -> None:
    caller, service = ksock(), Service(ksock())

    @service.listener("$.A")
    @service.replier("$.A")
    async def handle(message: Message) -> None:
        raise asyncio.CancelledError("no bell rings")

    with service.running():
        for _ in range(2):
            with pytest.raises(ReplierError, match=r"^CancelledError: no bell rings$"):
                caller.call("$.A", timeout=PATIENCE)
    assert len(caplog.records) == 4


def test_stop_serving_ends_a_service(ksock: OpenKsock) -> None:
    caller = ksock()
    service = Service(ksock())

    @service.replier("$.Stop")
    def stop(request: Message) -> None:
        raise StopServing("stopped")

    with meanwhile(service.run):
        assert service.ready.wait(PATIENCE)
        assert caller.call("$.Stop", timeout=PATIENCE).data == b"stopped"
    assert caller.find_replier("$.Stop") is None


def test_stop_serving_by_a_listener_ends_it_too(ksock: OpenKsock, caplog: pytest.LogCaptureFixture) -> None:
    service, other = Service(ksock()), ksock()

    @service.listener("$.End")
    def end(message: Message) -> None:
        raise StopServing

    with meanwhile(service.run):
        assert service.ready.wait(PATIENCE)
        other.send_msg(Announcement("$.End"))
    assert not caplog.records


def test_drain_wakes_a_service_that_waits(ksock: OpenKsock, door: Door) -> None:
    with meanwhile(door.service.run):
        assert door.service.ready.wait(PATIENCE)
        time.sleep(0.1)
        door.service.drain()


@pytest.mark.axiom("answer")
def test_stop_cuts_a_drain_short(ksock: OpenKsock) -> None:
    callers = [ksock() for _ in range(3)]
    gate, service = Gate(), Service(ksock())
    service.replier("$.A")(gate)

    @service.replier("$.B")
    def stop(request: Message) -> None:
        service.stop()

    with meanwhile(service.run):
        assert service.ready.wait(PATIENCE)
        for caller, name in zip(callers, ("$.A", "$.B", "$.A")):
            caller.send_msg(Request(name))
            assert gate.begun.wait(PATIENCE)
        service.drain()
        gate.go.set()
    assert [texts(caller) for caller in callers] == [
        [b"through"],
        [None],
        [b"Stopped\nthe service has ended"],
    ]


def test_a_time_limit_that_is_met_leaves_no_thread_behind(ksock: OpenKsock, door: Door) -> None:
    door.service.replier("Knock", time_limit=1000)(upper)
    with door.service.running():
        assert ksock().call("$.Door.Knock", "x", PATIENCE).data == b"X"
    wait_until(
        lambda: not any(isinstance(each, threading.Timer) for each in threading.enumerate()), "it has ended"
    )


@pytest.mark.parametrize("end", [StopServing, SystemExit])
def test_a_handler_that_ends_the_service_too_late(ksock: OpenKsock, end: type[BaseException]) -> None:
    caller, service = ksock(), Service(ksock())

    @service.replier("$.A", time_limit=0.05)
    def handle(request: Message) -> None:
        time.sleep(0.2)
        raise end

    def run() -> None:
        try:
            service.run()
        except SystemExit:
            assert end is SystemExit
        else:
            assert end is StopServing

    with meanwhile(run):
        assert service.ready.wait(PATIENCE)
        with pytest.raises(ReplierError, match=r"^TimeLimit: "):
            caller.call("$.A", timeout=PATIENCE)
    assert caller.find_replier("$.A") is None


@pytest.mark.axiom("answer")
def test_an_exception_while_it_refuses_what_was_read(
    ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, asker = ksock(), ksock()
    service = Service(server)

    @service.replier("$.A")
    def handle(request: Message) -> None:
        asker.send_msg(Request("$.A", "second"))
        server._take_all_aside()
        service.stop()

    def fail(*arguments: object) -> None:
        raise HandlerError

    def run() -> None:
        with pytest.raises(HandlerError):
            service.run()

    monkeypatch.setattr("kbus.service.failed_reply", fail)
    with meanwhile(run):
        assert service.ready.wait(PATIENCE)
        asker.send_msg(Request("$.A"))
    assert texts(server) == [b"second"]


def test_a_default_time_limit_of_calls(ksock: OpenKsock) -> None:
    replier = ksock()
    replier.bind("$.A", replier=True)
    with Ksock(call_timeout=0.05) as caller:
        assert caller.call_timeout == 0.05
        with pytest.raises(TimeoutError, match=r"no answer within 0\.05 seconds"):
            caller.call("$.A")
        with pytest.raises(TimeoutError, match=r"no answer within 0\.1 seconds"):
            caller.call("$.A", timeout=0.1)
        caller.call_timeout = None
        with meanwhile(lambda: close_when_there_is_more(replier, 3)), pytest.raises(StatusError):
            caller.call("$.A")


def close_when_there_is_more(replier: Ksock, count: int) -> None:
    wait_until(lambda: replier.num_messages() == count, "the Request is there")
    replier.close()


def test_a_stop_that_comes_before_it_runs(ksock: OpenKsock) -> None:
    """As by a signal handler, just before."""
    service = Service(ksock())
    service.replier("$.A")(upper)
    service.stop()
    service.run()
    assert not service.ready.is_set()


def test_one_that_has_ended_by_itself_can_run_again(ksock: OpenKsock) -> None:
    caller = ksock()
    service = Service(ksock())

    @service.replier("$.Stop")
    def stop(request: Message) -> None:
        raise StopServing("stopped")

    for _ in range(3):
        with service.running():
            assert caller.call("$.Stop", timeout=PATIENCE).data == b"stopped"


@pytest.mark.axiom("answer")
def test_what_ends_the_program_in_a_listener_leaves_nobody_waiting(ksock: OpenKsock) -> None:
    caller = ksock()
    service = Service(ksock())
    service.replier("$.A")(upper)

    @service.listener("$.A")
    def leave(message: Message) -> None:
        raise SystemExit

    def run() -> None:
        with pytest.raises(SystemExit):
            service.run()

    with meanwhile(run):
        assert service.ready.wait(PATIENCE)
        with pytest.raises(ReplierError, match=r"^SystemExit$"):
            caller.call("$.A", timeout=PATIENCE)


class HandlerError(Exception):
    """Raised by what is in place of a signal handler."""


def raise_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, when: str) -> None:
    """Let a method raise HandlerError before it does anything, or when it has, if it gives something then."""
    real = getattr(owner, name)

    def replacement(*given: Any) -> Any:
        if when == "before":
            monkeypatch.setattr(owner, name, real)
            raise HandlerError
        found = real(*given)
        if found is not None or when == "at its end":
            monkeypatch.setattr(owner, name, real)
            raise HandlerError
        return found

    monkeypatch.setattr(owner, name, replacement)


@pytest.mark.axiom("answer")
@pytest.mark.parametrize(
    ("owner", "name", "when", "is_read_next"),
    [
        (Ksock, "_find", "after", True),
        (Service, "replier_for", "before", False),
        (Service, "_answer", "before", False),
        (Service, "_answer", "at its end", False),
        (Ksock, "_answer", "before", False),
    ],
)
def test_an_exception_outside_of_a_handler_leaves_no_request_unanswered(
    ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, when: str, is_read_next: bool
) -> None:
    """It is answered, or is read next; and nothing stays bound, or switched on."""
    requester, server = ksock(), ksock()

    class Ready(threading.Event):
        def set(self) -> None:
            super().set()
            requester.send_msg(Request("$.A"))
            raise_once(monkeypatch, owner, name, when)

    service = Service(server)
    service.replier("$.A")(lambda request: b"done")
    service.listener("$.B")(lambda message: None)
    service.ready = Ready()
    with pytest.raises(HandlerError):
        service.run()
    assert requester.find_replier("$.A") is None
    assert not server.want_messages_once(just_ask=True)
    assert server.num_unreplied_to() == is_read_next
    assert len([each for each in server if each.wants_us_to_reply()]) == is_read_next
