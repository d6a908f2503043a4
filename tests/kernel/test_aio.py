# SPDX-License-Identifier: MIT
"""kbus.aio against the module: reading, sending and calling."""

from __future__ import annotations

import asyncio
import errno
import math
import threading
from collections.abc import Awaitable, Callable

import pytest

from kbus import Announcement, Ksock, Message, SendManyError, StatusError, StopServing, reply_to
from kbus.aio import AsyncKsock
from tests.kernel.calls import TRANSFER, counted
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PATIENCE, fails, fill, ksock_stats, take, texts
from tests.kernel.loops import data, run, until

WAIT = Message.ALL_OR_WAIT


async def awaited(result: object) -> object:
    """What a call returned, or what its coroutine returns."""
    return await result if isinstance(result, Awaitable) else result


def test_reading() -> None:
    async def test() -> None:
        async with AsyncKsock() as sender, AsyncKsock(mode="r") as listener:
            listener.bind("$.A.*")
            sent = [await sender.send_msg(Announcement("$.A.B", str(number))) for number in range(3)]
            received = []
            async for message in listener:
                received.append(message)
                if len(received) == 3:
                    break
            assert [message.id for message in received] == sent
            listener.unbind("$.A.*")
            await sender.send_msg(Announcement("$.A.B"))
            assert listener.ksock.num_messages() == 0

    run(test())


def test_reading_waits_without_holding_up_others() -> None:
    async def test() -> None:
        async with AsyncKsock() as sender, AsyncKsock() as listener:
            listener.bind("$.A")
            waiting = asyncio.ensure_future(listener.__anext__())
            await asyncio.sleep(0)
            assert not waiting.done()
            await sender.send_msg(Announcement("$.A", "came"))
            assert data(await waiting) == "came"

    run(test())


def test_each_message_goes_to_one_of_those_who_iterate() -> None:
    async def test() -> None:
        async with AsyncKsock() as ksock:
            ksock.bind("$.A")
            waiting = [asyncio.ensure_future(ksock.__anext__()) for _ in range(3)]
            for number in range(3):
                await ksock.send_msg(Announcement("$.A", str(number)))
            assert sorted(map(data, await asyncio.gather(*waiting))) == ["0", "1", "2"]

    run(test())


def test_unwanted_messages_stay_in_the_kernel(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as listener:
            listener.bind("$.A")
            waiting = asyncio.ensure_future(listener.__anext__())
            await asyncio.sleep(0)
            for number in range(20):
                sender.send_msg(Announcement("$.A", str(number)))
            await waiting
            # Nobody iterates any more; one more message may have been taken by then.
            for _ in range(40):
                await asyncio.sleep(0)
            assert ksock_stats(listener.ksock)["queued"] >= 18

    sender = ksock()
    run(test())


def test_calls_at_the_same_time_answered_in_another_order(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as asker:
            calls = [asyncio.ensure_future(asker.call("$.A", str(number))) for number in range(3)]
            await until(lambda: replier.num_messages() == 3)
            requests = [take(replier) for _ in calls]
            for request in reversed(requests):
                replier.send_msg(reply_to(request, f"{data(request)}!"))
            assert [data(reply) for reply in await asyncio.gather(*calls)] == ["0!", "1!", "2!"]

    replier = ksock()
    replier.bind("$.A", replier=True)
    run(test())


def test_other_messages_during_a_call_are_kept(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as asker:
            asker.bind("$.A")
            call = asyncio.ensure_future(asker.call("$.A", "question"))
            await until(lambda: replier.num_messages() == 1)
            replier.send_msg(Announcement("$.A", "in between"))
            reply_id = replier.send_msg(reply_to(take(replier), "answer"))
            assert (await call).id == reply_id
            # As a listener it gets plain copies of its own Request and of the answer.
            assert [data(await asker.__anext__()) for _ in range(3)] == ["question", "in between", "answer"]

    replier = ksock()
    replier.bind("$.A", replier=True)
    run(test())


def test_call_without_a_replier() -> None:
    async def test() -> None:
        async with AsyncKsock() as asker:
            with fails(errno.EADDRNOTAVAIL):
                await asker.call("$.A")

    run(test())


def test_call_that_gets_a_status(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as asker:
            call = asyncio.ensure_future(asker.call("$.A"))
            await until(lambda: replier.num_messages() == 1)
            replier.close()
            with pytest.raises(StatusError) as caught:
                await call
            assert caught.value.status.name == "$.KBUS.Replier.GoneAway"

    replier = ksock()
    replier.bind("$.A", replier=True)
    run(test())


@pytest.mark.rule(28)
def test_call_that_times_out_is_abandoned(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as asker:
            with pytest.raises(TimeoutError, match=r"no answer within 0\.05 seconds"):
                await asker.call("$.A", timeout=0.05)
            assert ksock_stats(asker.ksock)["awaiting"] == 0

    replier = ksock()
    replier.bind("$.A", replier=True)
    run(test())


@pytest.mark.parametrize("timeout", [0, -1, -math.inf])
def test_a_time_that_is_over_already(ksock: OpenKsock, timeout: float) -> None:
    """The Request is sent, as by Ksock.call, and abandoned."""

    async def test() -> None:
        async with AsyncKsock() as asker:
            for call in (asker.ksock.call, asker.call):
                with pytest.raises(TimeoutError):
                    await awaited(call("$.A", timeout=timeout))
                assert ksock_stats(asker.ksock)["awaiting"] == 0
                assert take(replier).name == "$.A"

    replier = ksock()
    replier.bind("$.A", replier=True)
    run(test())


@pytest.mark.parametrize("timeout", [0, -1, -math.inf])
def test_nobody_replies_though_the_time_is_over(timeout: float) -> None:
    async def test() -> None:
        async with AsyncKsock() as asker:
            for call in (asker.ksock.call, asker.call):
                with pytest.raises(OSError) as caught:
                    await awaited(call("$.A", timeout=timeout))
                assert (caught.value.errno, caught.value.filename) == (errno.EADDRNOTAVAIL, "$.A")
                assert caught.value.strerror == "it has no replier; `kbus bindings` shows what is bound"

    run(test())


def test_a_time_that_is_no_number_is_refused() -> None:
    async def test() -> None:
        async with AsyncKsock() as asker:
            with pytest.raises(ValueError, match="timeout is NaN"):
                await asker.call("$.A", timeout=math.nan)

    run(test())


@pytest.mark.rule(28)
def test_call_that_is_cancelled_is_abandoned(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as asker:
            call = asyncio.ensure_future(asker.call("$.A"))
            await until(lambda: replier.num_messages() == 1)
            request = take(replier)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert ksock_stats(asker.ksock)["awaiting"] == 0
            with fails(errno.ECONNREFUSED):
                replier.send_msg(reply_to(request))

    replier = ksock()
    replier.bind("$.A", replier=True)
    run(test())


def test_an_answer_that_comes_as_the_call_is_cancelled_goes_to_nobody(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as asker:
            call = asyncio.ensure_future(asker.call("$.A"))
            await until(lambda: replier.num_messages() == 1)
            # The event loop does not get to see the answer before the call is cancelled.
            replier.send_msg(reply_to(take(replier), "too late"))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert asker.ksock.num_messages() == 1
            asker.bind("$.B")
            replier.send_msg(Announcement("$.B", "next"))
            assert data(await asker.__anext__()) == "next"

    replier = ksock()
    replier.bind("$.A", replier=True)
    run(test())


@pytest.mark.rule(22)
def test_sending_waits_for_room_and_the_loop_goes_on(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as sender:
            sending = asyncio.ensure_future(sender.send_msg(Announcement("$.A", "waits", flags=WAIT)))
            next_one = asyncio.ensure_future(sender.send_msg(Announcement("$.A", "its turn", flags=WAIT)))
            await until(lambda: ksock_stats(sender.ksock)["waiting"] == 1)
            assert not sending.done()
            assert take(full).name == "$.Filler"
            await sending
            assert texts(full) == [b"waits"]
            await next_one
            assert texts(full) == [b"its turn"]

    full = ksock()
    fill(full)
    full.bind("$.A")
    run(test())


@pytest.mark.rule(22)
def test_sending_that_is_cancelled_sends_nothing(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as sender:
            sending = asyncio.ensure_future(sender.send_msg(Announcement("$.A", flags=WAIT)))
            await until(lambda: ksock_stats(sender.ksock)["waiting"] == 1)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert ksock_stats(sender.ksock)["waiting"] == 0
            assert [message.name for message in full] == ["$.Filler"]
            await sender.send_msg(Announcement("$.A", "after it"))
            assert texts(full) == [b"after it"]

    full = ksock()
    fill(full)
    full.bind("$.A")
    run(test())


def test_sending_fails_as_ksock_does(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as sender:
            with fails(errno.EBUSY):
                await sender.send_msg(Announcement("$.A", flags=Message.ALL_OR_FAIL))

    full = ksock()
    fill(full)
    full.bind("$.A")
    run(test())


def test_many_are_sent(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as sender, AsyncKsock() as listener:
            listener.bind("$.A")
            ids = await sender.send_many(Announcement("$.A", str(number)) for number in range(20))
            received = [await listener.__anext__() for _ in ids]
            assert [message.id for message in received] == ids
            assert [data(message) for message in received] == [str(number) for number in range(20)]
            assert await sender.send_many([]) == []

    run(test())


@pytest.mark.rule(22)
def test_many_wait_for_room_and_the_loop_goes_on(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as sender:
            messages = [Announcement("$.A", str(number), flags=WAIT) for number in range(5)]
            sending = asyncio.ensure_future(sender.send_many(messages))
            received: list[bytes | None] = []
            while len(received) < 6:
                await until(lambda: full.num_messages() == 1)
                received += texts(full)
            assert received[1:] == [b"0", b"1", b"2", b"3", b"4"]
            assert len(set(await sending)) == 5

    full = ksock()
    fill(full)
    full.bind("$.A")
    run(test())


def test_one_of_many_cannot_be_sent(ksock: OpenKsock) -> None:
    async def test() -> None:
        async with AsyncKsock() as sender:
            waits, first = Announcement("$.A", flags=WAIT), Announcement("$.Nobody")
            sending = asyncio.ensure_future(sender.send_many([first, waits, Announcement("$.KBUS.A"), first]))
            await until(lambda: ksock_stats(sender.ksock)["waiting"] == 1)
            take(full)
            with pytest.raises(SendManyError) as caught:
                await sending
            assert caught.value.errno == errno.EACCES
            assert len(caught.value.sent) == 2
            assert caught.value.sent[1] == take(full).id
            assert not caught.value.kept

    full = ksock()
    fill(full)
    full.bind("$.A")
    run(test())


def test_one_system_call_each(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with AsyncKsock() as sender, AsyncKsock() as listener:
            listener.bind("$.A")
            with counted(monkeypatch, sender.ksock) as calls:
                await sender.send_msg(Announcement("$.A"))
                assert calls == [TRANSFER]
            with counted(monkeypatch, listener.ksock) as calls:
                await listener.__anext__()
                assert calls == [TRANSFER]

    run(test())


def test_the_loop_is_not_told_for_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        told: list[int] = []
        loop = asyncio.get_running_loop()
        add_reader = loop.add_reader

        def tell(fd: int, callback: Callable[[], None]) -> None:
            told.append(fd)
            add_reader(fd, callback)

        monkeypatch.setattr(loop, "add_reader", tell)
        async with AsyncKsock() as ksock:
            ksock.bind("$.A")
            for _ in range(3):
                await ksock.send_msg(Announcement("$.A"))
                await ksock.__anext__()
            assert told == [ksock.ksock.fileno()]
            # Nobody waits for this one, so that the loop is told to leave it.
            await ksock.send_msg(Announcement("$.A", "later"))
            for _ in range(3):
                await asyncio.sleep(0)
            assert ksock.ksock.num_messages() == 1
            assert data(await ksock.__anext__()) == "later"
            assert told == [ksock.ksock.fileno()] * 2

    run(test())


def test_closing_ends_everything(ksock: OpenKsock) -> None:
    async def test() -> None:
        asker = AsyncKsock()
        readers = [asyncio.ensure_future(asker.__anext__()) for _ in range(2)]
        others = [
            asyncio.ensure_future(asker.call("$.A")),
            asyncio.ensure_future(asker.serve("$.B", lambda request: None)),
        ]
        await until(lambda: replier.num_messages() == 1)
        sending = asyncio.ensure_future(asker.send_msg(Announcement("$.Filled", flags=WAIT)))
        await until(lambda: ksock_stats(asker.ksock)["waiting"] == 1)
        asker.close()
        asker.close()
        for reader in readers:
            with pytest.raises(StopAsyncIteration):
                await reader
        for other in (*others, sending):
            with pytest.raises(ValueError, match="the KSock has been closed"):
                await other
        assert [message async for message in asker] == []
        with pytest.raises(ValueError, match="closed"):
            await asker.send_msg(Announcement("$.A"))

    replier, full = ksock(), ksock()
    replier.bind("$.A", replier=True)
    fill(full)
    full.bind("$.Filled")
    run(test())


def test_it_needs_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        AsyncKsock()


def test_no_device() -> None:
    async def test() -> None:
        with fails(errno.ENOENT):
            AsyncKsock(999)

    run(test())


def test_many_calls_from_many_tasks() -> None:
    """Four tasks on each of two KSocks, 20 calls a task: every answer belongs to its question."""

    async def ask(asker: AsyncKsock, task: int) -> None:
        for number in range(20):
            question = f"{task} {number}"
            assert data(await asker.call("$.A", question)) == f"{question}!"

    def handler(request: Message) -> str:
        if data(request) == "stop":
            raise StopServing
        return f"{data(request)}!"

    async def test() -> None:
        async with AsyncKsock() as one, AsyncKsock() as other:
            await until(lambda: one.ksock.resolve("$.A") is not None)
            await asyncio.gather(*(ask(asker, task) for asker in (one, other) for task in range(4)))
            await one.call("$.A", "stop")

    def serve() -> None:
        with Ksock() as replier:
            replier.serve("$.A", handler)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    run(test())
    thread.join(PATIENCE)
    assert not thread.is_alive()
