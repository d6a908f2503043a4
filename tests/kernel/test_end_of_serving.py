# SPDX-License-Identifier: MIT
"""The end of ``serve`` when its unbind is refused, as a listener must be told and has no room: rule 32."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator

import pytest

from kbus import Ksock, Message, Request, Service, StopServing
from kbus.aio import AsyncKsock
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PATIENCE, fails, names, take, wait_until
from tests.kernel.loops import data, run
from tests.kernel.test_call_and_serve import meanwhile

pytestmark = [pytest.mark.rule(32), pytest.mark.axiom("answer")]


@pytest.fixture
def listener(ksock: OpenKsock) -> Iterator[Ksock]:
    """One that the bind of one name has filled."""
    one = ksock()
    one.report_replier_binds(True)
    one.bind("$.KBUS.ReplierBindEvent")
    one.set_max_messages(1)
    yield one
    one.report_replier_binds(False)


def stop(request: Message) -> bytes:
    """A handler that ends with its first answer."""
    raise StopServing(b"last")


def fail(request: Message) -> bytes:
    """A handler that ends the program."""
    raise SystemExit


def test_the_name_stays_bound_and_that_is_told(ksock: OpenKsock, listener: Ksock) -> None:
    server, caller = ksock(), ksock()

    def serve() -> None:
        with fails(errno.EAGAIN):
            server.serve("$.Fred", stop)

    with meanwhile(serve):
        wait_until(lambda: listener.num_messages() == 1, "the name is bound")
        assert caller.call("$.Fred").data == b"last"
    assert caller.find_replier("$.Fred") == server.ksock_id()
    take(listener)
    server.unbind("$.Fred", replier=True)
    assert names(listener) == ["$.KBUS.ReplierBindEvent"]


def test_what_drain_has_read_is_answered_although_the_name_stays_bound(
    ksock: OpenKsock, listener: Ksock
) -> None:
    server, caller = ksock(), ksock()
    service = Service(server)
    service.replier("$.Fred")(lambda request: "done")

    def serve() -> None:
        with fails(errno.EAGAIN):
            service.run()

    with meanwhile(serve):
        assert service.ready.wait(PATIENCE)
        for _ in range(5):
            caller.send_msg(Request("$.Fred"))
        service.drain()
        answers = [caller.wait_for_msg(PATIENCE) for _ in range(5)]
    assert [each and each.data for each in answers] == [b"done"] * 5
    assert caller.find_replier("$.Fred") == server.ksock_id()


def test_what_the_handler_raised_is_told_and_not_that_it_stays_bound(
    ksock: OpenKsock, listener: Ksock
) -> None:
    server, sender = ksock(), ksock()

    def serve() -> None:
        with pytest.raises(SystemExit):
            server.serve("$.Fred", fail)

    with meanwhile(serve):
        wait_until(lambda: listener.num_messages() == 1, "the name is bound")
        sender.send_msg(Message("$.Fred", flags=Message.WANT_A_REPLY))
    assert sender.find_replier("$.Fred") == server.ksock_id()


def test_answers_under_way_are_completed_although_the_name_stays_bound(listener: Ksock) -> None:
    async def test() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def handler(request: Message) -> str:
            if data(request) == "stop":
                raise StopServing("stopped")
            begun.set()
            await go_on.wait()
            return "slow"

        async with AsyncKsock() as asker, AsyncKsock() as server:
            serving = asyncio.ensure_future(server.serve("$.Fred", handler))
            await asyncio.sleep(0)
            slow = asyncio.ensure_future(asker.call("$.Fred"))
            await begun.wait()
            assert data(await asker.call("$.Fred", "stop")) == "stopped"
            go_on.set()
            assert data(await slow) == "slow"
            with pytest.raises(BlockingIOError):
                await serving
            assert asker.ksock.find_replier("$.Fred") == server.ksock.ksock_id()
            take(listener)
            server.unbind("$.Fred", replier=True)

    run(test())
