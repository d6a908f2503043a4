# SPDX-License-Identifier: MIT
"""AsyncKsock.serve against the module."""

from __future__ import annotations

import asyncio
import errno

import pytest

from kbus import Announcement, Message, ReplierError, Request, StopServing
from kbus.aio import AsyncKsock, Handler
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import fails
from tests.kernel.loops import data, gathered, run, until


def constant(answer: str) -> Handler:
    return lambda request: answer


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


@pytest.mark.axiom("answer")
def test_a_handler_that_fails_has_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: Message) -> str:
        if not request.data:
            raise ZeroDivisionError("why")
        return "good"

    async def test() -> None:
        async with AsyncKsock() as asker, AsyncKsock() as replier:
            serving = asyncio.ensure_future(replier.serve("$.A", handler))
            await asyncio.sleep(0)
            with pytest.raises(ReplierError, match=r"^ZeroDivisionError: why$"):
                await asker.call("$.A")
            assert data(await asker.call("$.A", "x")) == "good"
            serving.cancel()
            await gathered([serving])

    run(test())
    # asyncio tells of steps that take long, as they do on a busy machine.
    assert [logged.name for logged in caplog.records if logged.name != "asyncio"] == ["kbus.serve"]


@pytest.mark.axiom("answer")
def test_requests_in_hand_are_answered_when_serving_is_cancelled() -> None:
    async def test() -> None:
        begun = asyncio.Event()

        async def handler(request: Message) -> None:
            begun.set()
            await asyncio.sleep(3600)

        async with AsyncKsock() as asker:
            async with AsyncKsock() as replier:
                serving = asyncio.ensure_future(replier.serve("$.A", handler))
                await asyncio.sleep(0)
                call = asyncio.ensure_future(asker.call("$.A"))
                await begun.wait()
                serving.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await serving
            with pytest.raises(ReplierError, match=r"^CancelledError$"):
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
