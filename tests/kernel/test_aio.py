# SPDX-License-Identifier: MIT
"""kbus.aio against the module."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine, Sequence

import pytest

from kbus import Announcement, Ksock, Message, Request, StatusError, StopServing, reply_to
from kbus.aio import AsyncKsock, Handler
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PATIENCE, fails, fill, ksock_stats, take, texts

WAIT = Message.ALL_OR_WAIT


def run(test: Coroutine[object, object, None]) -> None:
    """Run the coroutine in an event loop, in debug mode, but not for ever."""

    async def in_time() -> None:
        errors: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        await asyncio.wait_for(test, PATIENCE)
        assert errors == []

    asyncio.run(in_time(), debug=True)


async def until(condition: Callable[[], bool]) -> None:
    """Let the other tasks work until the condition holds."""
    while not condition():
        await asyncio.sleep(0.002)


def data(message: Message) -> str:
    return (message.data or b"").decode()


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
            await asyncio.sleep(0.05)
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


def test_serving_with_a_function_and_with_a_coroutine() -> None:
    async def later(request: Message) -> str:
        await asyncio.sleep(0)
        return f"later {data(request)}"

    async def test() -> None:
        async with AsyncKsock() as asker, AsyncKsock() as replier:
            serving = [
                asyncio.ensure_future(replier.serve("$.Now", lambda request: f"now {data(request)}")),
                asyncio.ensure_future(replier.serve("$.Later", later)),
            ]
            await asyncio.sleep(0)
            assert data(await asker.call("$.Now", "x")) == "now x"
            assert data(await asker.call("$.Later", "y")) == "later y"
            for each in serving:
                each.cancel()
            assert all(isinstance(end, asyncio.CancelledError) for end in await gathered(serving))
            assert asker.ksock.resolve("$.Now") is None
            assert asker.ksock.resolve("$.Later") is None

    run(test())


async def gathered(tasks: Sequence[asyncio.Future[None]]) -> list[BaseException | None]:
    return await asyncio.gather(*tasks, return_exceptions=True)


def constant(answer: str) -> Handler:
    return lambda request: answer


def test_the_most_specific_of_those_that_serve_is_asked() -> None:
    async def test() -> None:
        async with AsyncKsock() as asker, AsyncKsock() as replier:
            patterns = ["$.*", "$.A.%", "$.A.B"]
            serving = [
                asyncio.ensure_future(replier.serve(pattern, constant(pattern))) for pattern in patterns
            ]
            await asyncio.sleep(0)
            answers = [data(await asker.call(name)) for name in ("$.A.B", "$.A.C", "$.D", "$.A.B.C")]
            assert answers == ["$.A.B", "$.A.%", "$.*", "$.*"]
            for each in serving:
                each.cancel()
            await gathered(serving)

    run(test())


def test_requests_are_handled_at_the_same_time() -> None:
    async def test() -> None:
        both = asyncio.Event()
        begun = []

        async def handler(request: Message) -> str:
            begun.append(request.id)
            if len(begun) == 2:
                both.set()
            await both.wait()
            return "together"

        async with AsyncKsock() as asker, AsyncKsock() as replier:
            serving = asyncio.ensure_future(replier.serve("$.A", handler))
            await asyncio.sleep(0)
            replies = await asyncio.gather(asker.call("$.A"), asker.call("$.A"))
            assert [data(reply) for reply in replies] == ["together", "together"]
            serving.cancel()
            await gathered([serving])

    run(test())


def test_other_messages_during_serving_are_kept() -> None:
    async def test() -> None:
        async with AsyncKsock() as asker, AsyncKsock() as replier:
            replier.bind("$.B")
            serving = asyncio.ensure_future(replier.serve("$.A", lambda request: None))
            await asyncio.sleep(0)
            await asker.send_msg(Announcement("$.B", "kept"))
            assert (await asker.call("$.A")).data is None
            assert data(await replier.__anext__()) == "kept"
            serving.cancel()
            await gathered([serving])

    run(test())


def test_stop_serving_completes_what_is_under_way() -> None:
    async def test() -> None:
        stopping = asyncio.Event()

        async def handler(request: Message) -> str:
            if data(request) == "stop":
                stopping.set()
                raise StopServing("stopped")
            await stopping.wait()
            return "slow"

        async with AsyncKsock() as asker, AsyncKsock() as replier:
            serving = asyncio.ensure_future(replier.serve("$.A", handler))
            await asyncio.sleep(0)
            replies = await asyncio.gather(asker.call("$.A"), asker.call("$.A", "stop"))
            assert [data(reply) for reply in replies] == ["slow", "stopped"]
            await serving
            assert asker.ksock.resolve("$.A") is None

    run(test())


def test_a_handler_that_fails_ends_serving() -> None:
    async def handler(request: Message) -> None:
        raise ZeroDivisionError(data(request))

    async def test() -> None:
        async with AsyncKsock() as asker:
            async with AsyncKsock() as replier:
                serving = asyncio.ensure_future(replier.serve("$.A", handler))
                await asyncio.sleep(0)
                call = asyncio.ensure_future(asker.call("$.A", "why"))
                with pytest.raises(ZeroDivisionError, match="why"):
                    await serving
                assert asker.ksock.resolve("$.A") is None
            with pytest.raises(StatusError, match=r"\$\.KBUS\.Replier\.Ignored"):
                await call

    run(test())


def test_an_asker_who_has_gone_does_not_end_serving(ksock: OpenKsock) -> None:
    async def test() -> None:
        go_on = asyncio.Event()
        begun = []

        async def handler(request: Message) -> str:
            begun.append(request.id)
            await go_on.wait()
            return "answer"

        async with AsyncKsock() as asker, AsyncKsock() as replier:
            serving = asyncio.ensure_future(replier.serve("$.A", handler))
            await asyncio.sleep(0)
            leaver.send_msg(Request("$.A"))
            await until(lambda: len(begun) == 1)
            leaver.close()
            go_on.set()
            assert data(await asker.call("$.A")) == "answer"
            serving.cancel()
            await gathered([serving])

    leaver = ksock()
    run(test())


def test_two_cannot_serve_one_name() -> None:
    async def test() -> None:
        async with AsyncKsock() as replier:
            serving = asyncio.ensure_future(replier.serve("$.A", lambda request: None))
            await asyncio.sleep(0)
            with fails(errno.EADDRINUSE):
                await replier.serve("$.A", lambda request: None)
            assert replier.ksock.resolve("$.A") == replier.ksock.ksock_id()
            serving.cancel()
            await gathered([serving])

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
    """Four tasks on each of two KSocks, 50 calls a task: every answer belongs to its question."""

    async def ask(asker: AsyncKsock, task: int) -> None:
        for number in range(50):
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
