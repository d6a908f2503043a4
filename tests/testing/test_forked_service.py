# SPDX-License-Identifier: MIT
"""A program that forks while its service runs: the new process has no part in that."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from kbus import Ksock, Message, Service
from tests.kernel.helpers import wait_until
from tests.kernel.test_call_and_serve import meanwhile
from tests.testing.reached import served

PATIENCE = 10


@pytest.fixture
def path() -> Iterator[str]:
    """A bus for this process and those that it forks."""
    with served() as one:
        yield one


def wait_for(child: int) -> None:
    """Come back when the child has ended, with status 0."""
    status: list[int] = []

    def has_ended() -> bool:
        pid, how = os.waitpid(child, os.WNOHANG)
        status.append(how)
        return pid == child

    try:
        wait_until(has_ended, "the child ends", patience=PATIENCE)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        raise
    assert status[-1] == 0


def answer(request: Message) -> str:
    """A handler."""
    return "ok"


@pytest.mark.parametrize("act", [Ksock.close, lambda server: None], ids=["closes", "only leaves"])
def test_a_child_that_leaves_the_blocks(path: str, act: Callable[[Ksock], None]) -> None:
    child = -1
    try:
        with Ksock() as caller, Ksock() as server:
            service = Service(server)
            service.replier("$.A")(answer)
            service.listener("$.B")(answer)
            with service.running():
                child = os.fork()
                if child == 0:
                    act(server)
                else:
                    wait_for(child)
                    assert server.want_messages_once(just_ask=True)
                    assert caller.call("$.A", timeout=PATIENCE).data == b"ok"
        if child == 0:
            os._exit(0)
    finally:
        if child == 0:
            os._exit(1)


def test_a_child_that_stops_the_service_stops_nothing_here(path: str) -> None:
    with Ksock() as caller, Ksock() as server:
        service = Service(server)
        service.replier("$.A")(answer)
        with service.running():
            child = os.fork()
            if child == 0:
                try:
                    service.stop()
                finally:
                    os._exit(0)
            wait_for(child)
            assert caller.call("$.A", timeout=PATIENCE).data == b"ok"


@pytest.mark.parametrize("time_limit", [None, PATIENCE])
@pytest.mark.parametrize("leave", [sys.exit, lambda: "from the child"], ids=["exits", "returns"])
def test_a_handler_that_forks(path: str, leave: Callable[[], str], time_limit: float | None) -> None:
    parent = os.getpid()
    with Ksock() as caller, Ksock() as server:
        service = Service(server)
        service.listener("$.B")(answer)

        @service.replier("$.A", time_limit=time_limit)
        def handle(request: Message) -> str:
            if request.data == b"fork":
                child = os.fork()
                if child == 0:
                    return leave()
                wait_for(child)
            return "ok"

        def ask() -> None:
            assert service.ready.wait(PATIENCE)
            try:
                assert caller.call("$.A", "fork", timeout=PATIENCE).data == b"ok"
                assert server.want_messages_once(just_ask=True)
                assert caller.call("$.A", timeout=PATIENCE).data == b"ok"
            finally:
                service.stop()

        with meanwhile(ask):
            try:
                with suppress(SystemExit):
                    service.run()
            finally:
                if os.getpid() != parent:
                    os._exit(0)
