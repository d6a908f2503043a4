# SPDX-License-Identifier: MIT
"""Services in an event loop."""

from __future__ import annotations

import asyncio
import errno
import signal
import time
from typing import Any

import pytest

from kbus import Announcement, Ksock, Message, ReplierError, Request, StopServing
from kbus.aio import AsyncKsock, Service
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PATIENCE, fails, fill, texts
from tests.kernel.loops import data, run, until

STOPPED = b"Stopped\nthe service has ended"


def test_several_names_and_listeners(ksock: OpenKsock) -> None:
    async def test() -> None:
        heard: list[tuple[str, str]] = []
        async with AsyncKsock() as asker, AsyncKsock() as server:
            service = Service(server, "$.Door")

            @service.replier("Open")
            async def open_door(request: Message) -> str:
                await asyncio.sleep(0)
                return data(request).upper()

            @service.listener("$.Weather.%")
            async def weather(message: Message) -> None:
                heard.append(("%", message.name))

            service.replier("$.Bell")(lambda request: "ring")
            service.listener("$.Weather.*")(lambda message: heard.append(("*", message.name)))
            async with service.running():
                assert service.ready.is_set()
                await asker.send_msg(Announcement("$.Weather.Rain"))
                assert data(await asker.call("$.Door.Open", "a")) == "A"
                assert data(await asker.call("$.Bell")) == "ring"
            assert sorted(heard) == [("%", "$.Weather.Rain"), ("*", "$.Weather.Rain")]
            assert asker.ksock.find_replier("$.Bell") is None
            assert server.ksock.want_messages_once(just_ask=True) is False

    run(test())


def test_a_name_that_is_taken(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as other, AsyncKsock() as server:
            other.bind("$.B", replier=True)
            service = Service(server)
            service.replier("$.A")(lambda request: None)
            service.replier("$.B")(lambda request: None)
            with fails(errno.EADDRINUSE):
                async with service.running():
                    raise AssertionError("it does not run")
            assert other.ksock.find_replier("$.A") is None

    run(test())


def test_drain_at_the_end_of_the_block_answers_all_that_is_queued(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A")(lambda request: "done")
            for _ in range(2):
                async with service.running():
                    for _ in range(3):
                        asker.send_msg(Request("$.A"))
                    service.drain()

    asker = ksock()
    run(test())
    assert texts(asker) == [b"done"] * 6


@pytest.mark.axiom("answer")
@pytest.mark.parametrize("how", ["stop", "drain"])
def test_how_it_ends(ksock: OpenKsock, how: str) -> None:
    async def test() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def handler(request: Message) -> str:
            begun.set()
            await go.wait()
            return "done"

        async with AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A")(handler)
            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            first.send_msg(Request("$.A"))
            await begun.wait()
            second.send_msg(Request("$.A"))
            getattr(service, how)()
            await until(lambda: second.find_replier("$.A") is None)
            go.set()
            await running

    first, second = ksock(), ksock()
    run(test())
    assert texts(first) == [b"done"]
    # The loop may have read it before it was told to stop.
    assert texts(second) in ([[b"done"]] if how == "drain" else [[b"done"], [STOPPED]])


@pytest.mark.axiom("answer")
def test_drain_answers_all_that_is_queued(ksock: OpenKsock) -> None:
    """Also if that is more than the loop reads before the names are unbound."""

    async def test() -> None:
        async with AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A")(lambda request: "done")
            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            for _ in range(90):
                asker.send_msg(Request("$.A"))
            service.drain()
            await running

    asker = ksock()
    run(test())
    assert texts(asker) == [b"done"] * 90


@pytest.mark.axiom("answer")
def test_drain_ends_while_others_send(ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A")(lambda request: "done")
            service.listener("$.Weather")(lambda message: None)
            read, sent = server.ksock.read_next_msg, 0

            def read_and_send() -> Message | None:
                nonlocal sent
                sent += 1
                assert sent < 1000
                other.send_msg(Announcement("$.Weather"))
                return read()

            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            monkeypatch.setattr(server.ksock, "read_next_msg", read_and_send)
            for _ in range(10):
                asker.send_msg(Request("$.A"))
            service.drain()
            await running

    asker, other = ksock(), ksock()
    run(test())
    assert texts(asker) == [b"done"] * 10


@pytest.mark.axiom("answer")
def test_a_handler_that_is_cancelled_cancels_no_other(ksock: OpenKsock) -> None:
    async def test() -> None:
        begun, cancel, go = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slow(request: Message) -> str:
            await go.wait()
            return "done"

        async def odd(request: Message) -> None:
            begun.set()
            await cancel.wait()
            raise asyncio.CancelledError

        async with AsyncKsock() as server:
            service = Service(server)
            service.replier("$.Slow")(slow)
            service.replier("$.Odd")(odd)
            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            for name in ("$.Slow", "$.Odd"):
                asker.send_msg(Request(name))
            await begun.wait()
            service.stop()
            await until(lambda: other.find_replier("$.Slow") is None)
            cancel.set()
            await until(lambda: asker.num_messages() == 1)
            go.set()
            await running

    asker, other = ksock(), ksock()
    run(test())
    assert texts(asker) == [b"CancelledError\n", b"done"]


@pytest.mark.axiom("answer")
def test_a_handler_that_goes_on_after_its_time(ksock: OpenKsock) -> None:
    """The requester is told in time; the service ends when the handler has."""

    async def test() -> None:
        go = asyncio.Event()
        ends: list[str] = []

        async def slow(request: Message) -> str:
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                await go.wait()
                ends.append("handler")
                raise ValueError("too late")
            return "late"

        async with AsyncKsock() as asker, AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A", time_limit=0.05)(slow)
            running = asyncio.ensure_future(service.run())
            running.add_done_callback(lambda task: ends.append("service"))
            await service.ready.wait()
            with pytest.raises(ReplierError, match=r"^TimeLimit: "):
                await asyncio.wait_for(asker.call("$.A"), PATIENCE / 2)
            service.stop()
            await until(lambda: asker.ksock.find_replier("$.A") is None)
            go.set()
            await running
        assert ends == ["handler", "service"]

    run(test())


@pytest.mark.parametrize("how", ["stop", "drain"])
def test_told_to_end_before_it_runs(how: str) -> None:
    async def test() -> None:
        async with AsyncKsock() as server:
            service = Service(server)
            getattr(service, how)()
            await asyncio.wait_for(service.run(), PATIENCE)
            # That was once.
            async with service.running():
                assert service.ready.is_set()

            # Also if the loop has not run since then.
            async def stop_later() -> bool:
                for _ in range(5):
                    await asyncio.sleep(0)
                is_ready = service.ready.is_set()
                service.stop()
                return is_ready

            getattr(service, how)()
            await service.run()
            later = asyncio.create_task(stop_later())
            await service.run()
            assert await later

    run(test())


def test_stop_from_a_signal_handler_and_a_thread() -> None:
    async def test() -> None:
        async with AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A")(lambda request: None)
            before = signal.signal(signal.SIGALRM, lambda number, frame: service.stop())
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            try:
                await service.run()
            finally:
                signal.signal(signal.SIGALRM, before)
            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            await asyncio.to_thread(service.stop)
            await running

    run(test())


def test_a_handler_that_runs_out_of_time_itself() -> None:
    async def impatient(request: Message) -> None:
        raise asyncio.TimeoutError("no bell rings")

    async def test() -> None:
        async with AsyncKsock() as asker, AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A", time_limit=PATIENCE)(impatient)
            async with service.running():
                with pytest.raises(ReplierError, match=r"^TimeoutError: no bell rings$"):
                    await asker.call("$.A")

    run(test())


@pytest.mark.axiom("answer")
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_time_limits(kind: str) -> None:
    def plain(request: Message) -> None:
        time.sleep(0.1)

    async def awaiting(request: Message) -> None:
        await asyncio.sleep(PATIENCE)

    async def test() -> None:
        async with AsyncKsock() as asker, AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A", time_limit=0.05)(plain if kind == "plain" else awaiting)
            async with service.running():
                with pytest.raises(ReplierError, match=r"^TimeLimit: no answer within 0\.05 seconds$"):
                    await asker.call("$.A")

    run(test())


def told(requester: Ksock) -> list[tuple[str, object]]:
    """The names and the data of what a requester gets."""
    return [(each.name, each.data) for each in requester]


CANCELLED = [("$.KBUS.Replier.Failed", b"CancelledError\n")]


async def cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a task, and wait for its end."""
    task.cancel()
    # Awaited itself, it would be cancelled once more when the time of the test is over.
    await asyncio.wait({task}, timeout=PATIENCE / 2)
    assert task.cancelled()


@pytest.mark.axiom("answer")
@pytest.mark.parametrize("turns", range(5))
def test_cancelled_while_a_request_comes(ksock: OpenKsock, turns: int) -> None:
    """However far it has come: its task may not have begun."""

    async def test() -> None:
        async with AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A")(lambda request: asyncio.sleep(PATIENCE))
            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            requester.send_msg(Request("$.A"))
            for _ in range(turns):
                await asyncio.sleep(0)
            await cancelled(running)
            assert told(requester) in ([("$.KBUS.Replier.Failed", STOPPED)], CANCELLED)
            assert server.ksock.num_unreplied_to() == 0

    requester = ksock()
    run(test())


@pytest.mark.axiom("answer")
@pytest.mark.parametrize("how", ["sent", "sent as one of several", "given up"])
@pytest.mark.parametrize("is_done", [False, True])
def test_answers_while_another_task_waits_to_send(ksock: OpenKsock, how: str, is_done: bool) -> None:
    """The requester is told at once, also if the service is cancelled; what waits is sent later."""

    async def test() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def handler(request: Message) -> str:
            begun.set()
            await go.wait()
            return "done"

        async with AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A")(handler)
            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            requester.send_msg(Request("$.A"))
            await begun.wait()
            message = Announcement("$.Full", flags=Message.ALL_OR_WAIT)
            await server.send_msg(message)
            several = how == "sent as one of several"
            sending = server.send_many([message]) if several else server.send_msg(message)
            waiting: asyncio.Future[object] = asyncio.ensure_future(sending)
            await asyncio.sleep(0.05)
            if is_done:
                go.set()
                await until(lambda: requester.num_messages() == 1)
            await cancelled(running)
            assert told(requester) == ([("$.A", b"done")] if is_done else CANCELLED)
            assert server.ksock.num_unreplied_to() == 0
            assert not waiting.done()
            if how == "given up":
                await cancelled(waiting)
            full.read_next_msg()
            if how != "given up":
                await waiting
            assert full.num_messages() == (how != "given up")
            # Nothing is kept.
            await server.send_msg(Announcement("$.Nobody"))

    full, requester = ksock(), ksock()
    full.set_max_messages(1)
    full.bind("$.Full")
    run(test())


def test_a_default_time_limit_of_calls(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock(call_timeout=0.05) as asker:
            with pytest.raises(TimeoutError, match=r"no answer within 0\.05 seconds"):
                await asker.call("$.A")

    replier = ksock()
    replier.bind("$.A", replier=True)
    run(test())


@pytest.mark.axiom("answer")
def test_a_time_limit_while_another_task_waits_to_send(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as asker, AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A", time_limit=0.05)(lambda request: asyncio.sleep(PATIENCE))
            message = Announcement("$.Full", flags=Message.ALL_OR_WAIT)
            await server.send_msg(message)
            waiting = asyncio.ensure_future(server.send_msg(message))
            async with service.running():
                with pytest.raises(ReplierError, match=r"^TimeLimit: "):
                    await asyncio.wait_for(asker.call("$.A"), 10)
            await cancelled(waiting)

    full = ksock()
    full.set_max_messages(1)
    full.bind("$.Full")
    run(test())


@pytest.mark.axiom("answer")
@pytest.mark.parametrize("how", ["kept", "in part"])
def test_a_handler_that_leaves_a_message_unsent(ksock: OpenKsock, how: str) -> None:
    """A plain handler cannot wait. Its message is dropped: the KSock has one at a time."""

    async def test() -> None:
        async with AsyncKsock() as asker, AsyncKsock() as server:
            service = Service(server)

            @service.replier("$.A")
            def answer(request: Message) -> str:
                if how == "in part":
                    server.ksock.write_data(Announcement("$.Full").to_bytes()[:20])
                else:
                    with fails(errno.EAGAIN):
                        server.ksock.send_msg(Announcement("$.Full", flags=Message.ALL_OR_WAIT))
                return "done"

            async with service.running():
                for _ in range(2):
                    assert data(await asyncio.wait_for(asker.call("$.A"), 10)) == "done"
            # What others send is sent, and not what is left.
            server.ksock.write_data(Announcement("$.Full").to_bytes()[:20])
            await server.send_msg(Announcement("$.Heard"))
            assert [each.name for each in heard] == ["$.Heard"]

    full, heard = ksock(), ksock()
    fill(full)
    full.bind("$.Full")
    heard.bind("$.Heard")
    run(test())


@pytest.mark.parametrize("how", ["stop", "drain", "cancel"])
@pytest.mark.parametrize("other", ["$.A.B", "$.A.*"])
def test_the_end_of_a_service_takes_nothing_from_others(ksock: OpenKsock, how: str, other: str) -> None:
    """Two of one KSock listen to names that overlap; its messages come once, by the newest binding."""

    async def test() -> None:
        heard: list[Message] = []
        async with AsyncKsock() as server:
            stays, ends = Service(server), Service(server)
            stays.listener(other)(heard.append)
            ends.listener("$.A.B")(lambda message: None)
            ends.replier("$.Door")(lambda request: None)
            async with stays.running():
                running = asyncio.ensure_future(ends.run())
                await ends.ready.wait()
                for _ in range(20):
                    sender.send_msg(Announcement("$.A.B"))
                sender.send_msg(Request("$.Door"))
                sender.send_msg(Announcement("$.A.B"))
                if how == "cancel":
                    await cancelled(running)
                else:
                    getattr(ends, how)()
                    await running
                await until(lambda: len(heard) == 21)
                assert server.ksock.lost_messages() == 0
        assert texts(sender) == [None if how == "drain" else STOPPED]

    sender = ksock()
    run(test())


def test_the_end_of_a_service_takes_nothing_from_those_that_iterate(ksock: OpenKsock) -> None:
    """What it listens to is its own; but a call gets its answer, and ``async for`` the rest."""

    async def test() -> None:
        heard: list[Message] = []
        async with AsyncKsock() as server:
            server.bind("$.A.*")
            service = Service(server)
            service.listener("$.A.B")(heard.append)
            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            for name in ("$.A.B", "$.A.C"):
                for _ in range(10):
                    sender.send_msg(Announcement(name))
            service.stop()
            await running
            assert [each.name for each in heard] == ["$.A.B"] * 10
            assert [(await server.__anext__()).name for _ in range(10)] == ["$.A.C"] * 10

    sender = ksock()
    run(test())


def test_a_service_ends_while_others_send(ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes what was queued by then, and not what comes meanwhile."""

    async def test() -> None:
        sent = 0
        async with AsyncKsock() as server:
            service = Service(server)
            service.listener("$.A")(lambda message: None)
            read = server.ksock.read_next_msg

            def read_and_send() -> Message | None:
                nonlocal sent
                sent += 1
                assert sent < 1000
                sender.send_msg(Announcement("$.A"))
                return read()

            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            monkeypatch.setattr(server.ksock, "read_next_msg", read_and_send)
            for _ in range(10):
                sender.send_msg(Announcement("$.A"))
            service.stop()
            await running

    sender = ksock()
    run(test())


def test_once_is_as_it_was_when_the_last_service_has_ended() -> None:
    async def test() -> None:
        async with AsyncKsock() as server:
            first, second, third = Service(server), Service(server), Service(server)
            first.listener("$.A")(lambda message: None)
            second.listener("$.B")(lambda message: None)
            third.replier("$.C")(lambda request: None)
            for before in (False, True):
                server.ksock.want_messages_once(before)
                running = []
                for each in (first, third, second):
                    running.append(asyncio.ensure_future(each.run()))
                    await each.ready.wait()
                    assert server.ksock.want_messages_once(just_ask=True)
                for each, end in zip((first, second, third), (running[0], running[2], running[1])):
                    assert server.ksock.want_messages_once(just_ask=True) or each is third
                    each.stop()
                    await end
                assert server.ksock.want_messages_once(just_ask=True) is before

    run(test())


@pytest.mark.axiom("answer")
def test_a_service_that_runs_does_not_run_again(ksock: OpenKsock) -> None:
    """Neither by a second task, nor by its own handler; and nothing has been done to the first run."""

    async def test() -> None:
        async with AsyncKsock() as asker, AsyncKsock() as server:
            service = Service(server)
            go = asyncio.Event()

            @service.replier("$.Again")
            async def again(request: Message) -> None:
                await service.run()

            @service.replier("$.Slow")
            async def slow(request: Message) -> str:
                await go.wait()
                return "done"

            async with service.running():
                call = asyncio.ensure_future(asker.call("$.Slow"))
                with pytest.raises(ValueError, match="this service is running already"):
                    await service.run()
                with pytest.raises(ValueError, match="this service is running already"):
                    async with service.running():
                        raise AssertionError("it runs already")
                with pytest.raises(ReplierError, match=r"^ValueError: this service is running already$"):
                    await asyncio.wait_for(asker.call("$.Again"), 10)
                assert service.ready.is_set()
                go.set()
                assert data(await call) == "done"
            assert asker.ksock.find_replier("$.Slow") is None

    run(test())


def test_a_block_that_is_late_does_not_end_the_service(ksock: OpenKsock) -> None:
    """Another task was about to run it."""

    async def test() -> None:
        async with AsyncKsock() as asker, AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A")(lambda request: "done")
            running = asyncio.ensure_future(service.run())
            with pytest.raises(ValueError, match="this service is running already"):
                async with service.running():
                    raise AssertionError("it runs already")
            assert data(await asyncio.wait_for(asker.call("$.A"), PATIENCE / 2)) == "done"
            service.stop()
            await running

    run(test())


def test_stop_before_the_block_begins() -> None:
    async def test() -> None:
        async with AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A")(lambda request: None)
            service.stop()
            await asyncio.sleep(0)
            async with service.running():
                # It has ended at once.
                await until(lambda: server.ksock.find_replier("$.A") is None)
            async with service.running():
                assert service.ready.is_set()

    run(test())


@pytest.mark.parametrize("how", ["stop", "drain"])
def test_told_to_end_when_the_loop_is_closed(how: str) -> None:
    """As a signal handler may do."""
    services: list[Service] = []

    async def test() -> None:
        async with AsyncKsock() as server:
            services.append(Service(server))

    run(test())
    getattr(services[0], how)()


def test_a_listener_ends_its_service(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as server:
            service = Service(server)

            @service.listener("$.End")
            def end(message: Message) -> None:
                raise StopServing

            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            sender.send_msg(Announcement("$.End"))
            await asyncio.wait_for(running, 10)

    sender = ksock()
    run(test())


def test_cancelled_it_cancels_its_handlers(ksock: OpenKsock) -> None:
    async def test() -> None:
        ends: list[str] = []
        begun = asyncio.Event()

        async def hear(message: Message) -> None:
            try:
                begun.set()
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        async with AsyncKsock() as server:
            service = Service(server)
            service.listener("$.A")(hear)
            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            sender.send_msg(Announcement("$.A"))
            await begun.wait()
            await cancelled(running)
            assert ends == ["cancelled"]

    sender = ksock()
    run(test())


@pytest.mark.parametrize("when", ["while it runs", "while it ends"])
def test_an_answer_that_cannot_be_sent_ends_the_service(
    ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    async def test() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def handler(request: Message) -> None:
            begun.set()
            await go.wait()

        def refuse(message: Message) -> None:
            raise OSError(errno.EIO, "refused")

        async with AsyncKsock() as server:
            service = Service(server)
            service.replier("$.A")(handler)
            running = asyncio.ensure_future(service.run())
            await service.ready.wait()
            asker.send_msg(Request("$.A"))
            await begun.wait()
            if when == "while it ends":
                service.stop()
                await until(lambda: asker.find_replier("$.A") is None)
            monkeypatch.setattr(server.ksock, "send_msg", refuse)
            go.set()
            with fails(errno.EIO):
                await asyncio.wait_for(running, 10)

    asker = ksock()
    run(test())
