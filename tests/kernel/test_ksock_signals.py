# SPDX-License-Identifier: MIT
"""Signals while a Ksock waits in TRANSFER: it goes on, or a handler ends the wait and nothing is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from random import Random
from types import FrameType

import pytest

from kbus import Announcement, Ksock, Message, reply_to
from tests.effort import DIVISOR
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import (
    IOCTL,
    PATIENCE,
    blocked_in,
    fill,
    handler,
    ksock_stats,
    take,
    texts,
    wait_until,
)

WAIT = Message.ALL_OR_WAIT


class HandlerError(Exception):
    """Raised by a handler."""


@contextmanager
def disturbed(then: Callable[[], object]) -> Iterator[None]:
    """Send SIGUSR1 to this thread as soon as it waits in an ioctl, and then do something."""
    main = threading.main_thread()
    assert threading.current_thread() is main
    failures: list[BaseException] = []

    def disturb() -> None:
        try:
            wait_until(lambda: blocked_in(main.native_id or 0, IOCTL), "the test waits in the kernel")
            signal.pthread_kill(main.ident or 0, signal.SIGUSR1)
            then()
        except BaseException as failure:  # raised again below
            failures.append(failure)

    thread = threading.Thread(target=disturb, daemon=True)
    thread.start()
    yield
    thread.join(PATIENCE)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


@contextmanager
def handler_that_raises() -> Iterator[None]:
    """Let SIGUSR1 raise HandlerError."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise HandlerError

    before = signal.signal(signal.SIGUSR1, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


RECEIVES: list[Callable[[Ksock], Message | None]] = [
    lambda ksock: ksock.wait_for_msg(PATIENCE),
    lambda ksock: ksock.wait_for_msg(),
    lambda ksock: ksock.receive_many()[0],
]


@pytest.mark.parametrize("receive", RECEIVES)
def test_waiting_goes_on(ksock: OpenKsock, receive: Callable[[Ksock], Message | None]) -> None:
    sender, listener = ksock(), ksock()
    listener.bind("$.A")

    def send() -> None:
        wait_until(lambda: bool(came), "the signal has been handled")
        sender.send_msg(Announcement("$.A", "after it"))

    with handler(signal.SIGUSR1, restart=False) as came, disturbed(send):
        message = receive(listener)
    assert message is not None
    assert message.data == b"after it"


@pytest.mark.axiom("loss")
@pytest.mark.parametrize("receive", RECEIVES)
def test_a_handler_ends_the_wait(ksock: OpenKsock, receive: Callable[[Ksock], Message | None]) -> None:
    sender, listener = ksock(), ksock()
    listener.bind("$.A")
    after = disturbed(lambda: sender.send_msg(Announcement("$.A")))
    with handler_that_raises(), after, pytest.raises(HandlerError):
        receive(listener)
    # It may have come together with the signal; then it was put aside.
    assert take(listener).name == "$.A"


def test_a_call_goes_on(ksock: OpenKsock) -> None:
    caller, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)

    def answer() -> None:
        wait_until(lambda: bool(came), "the signal has been handled")
        replier.send_msg(reply_to(take(replier), "yes"))

    with handler(signal.SIGUSR1, restart=False) as came, disturbed(answer):
        assert caller.call("$.A").data == b"yes"
    assert replier.num_messages() == 0


@pytest.mark.rule(28)
@pytest.mark.axiom("loss")
def test_a_handler_ends_a_call(ksock: OpenKsock) -> None:
    """The Request is abandoned, and what came before the answer is put aside."""
    caller, replier, sender = ksock(), ksock(), ksock()
    replier.bind("$.A", replier=True)
    caller.bind("$.Other")
    sender.send_msg(Announcement("$.Other", "before"))
    after = disturbed(lambda: sender.send_msg(Announcement("$.Other", "after")))
    with handler_that_raises(), after, pytest.raises(HandlerError):
        caller.call("$.A")
    assert ksock_stats(caller)["awaiting"] == 0
    assert texts(caller) == [b"before", b"after"]


@pytest.mark.rule(22)
def test_many_that_wait_go_on(ksock: OpenKsock) -> None:
    sender, full = ksock(), ksock()
    fill(full, "$.A")
    received: list[bytes | None] = []

    def read() -> None:
        wait_until(lambda: bool(came), "the signal has been handled")
        while len(received) < 21:
            message = full.wait_for_msg(PATIENCE)
            assert message is not None
            received.append(message.data)

    messages = [Announcement("$.A", str(number), flags=WAIT) for number in range(20)]
    with handler(signal.SIGUSR1, restart=False) as came, disturbed(read):
        ids = sender.send_many(messages)
    assert received == [None, *(message.data for message in messages)]
    assert ids == sorted(set(ids))
    assert len(ids) == 20


@pytest.mark.rule(22)
@pytest.mark.parametrize("many", [False, True])
def test_a_handler_leaves_the_message_that_waits(ksock: OpenKsock, many: bool) -> None:
    sender, full = ksock(), ksock()
    fill(full, "$.A")
    message = Announcement("$.A", "kept", flags=WAIT)
    with handler_that_raises(), disturbed(lambda: None), pytest.raises(HandlerError):
        if many:
            sender.send_many([message, message])
        else:
            sender.send_msg(message)
    assert ksock_stats(sender)["waiting"] == 1
    take(full)
    sender.send()
    assert texts(full) == [b"kept"]


INTERRUPTIONS = 4000 // DIVISOR**2
#: Python ignores, and tells pytest, what a handler raises while an object is deleted.
RAISED_IN_VAIN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def until_interrupted(child: StartChild) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Calls something again and again, until so many of the calls were interrupted by a handler that raises.

    The signals come from another process, after times that nobody foresees.
    """
    armed: list[bool] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        if armed:
            armed.clear()
            raise HandlerError

    def disturb() -> None:
        random, parent = Random(1), os.getppid()
        while True:
            # Not so often that a slow machine does nothing else.
            time.sleep(random.uniform(0, 0.001 * DIVISOR**2))
            os.kill(parent, signal.SIGUSR1)

    def run(body: Callable[[], object]) -> None:
        try:
            for _ in range(INTERRUPTIONS):
                with suppress(HandlerError):
                    armed.append(True)
                    # What was raised in vain ends this as well.
                    while armed:
                        body()
        finally:
            armed.clear()

    before = signal.signal(signal.SIGUSR1, on_signal)
    disturbing = child(lambda: threading.Thread(target=disturb, daemon=True).start())
    yield run
    disturbing.kill()
    signal.signal(signal.SIGUSR1, before)


@RAISED_IN_VAIN
@pytest.mark.axiom("loss")
@pytest.mark.parametrize("many", [False, True])
def test_no_interruption_loses_a_message(
    ksock: OpenKsock,
    child: StartChild,
    until_interrupted: Callable[[Callable[[], object]], None],
    many: bool,
) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    listener.set_max_messages(10)

    def send_for_ever() -> None:
        for number in count():
            sender.send_msg(Announcement("$.A", str(number), flags=WAIT))

    sending = child(lambda: threading.Thread(target=send_for_ever, daemon=True).start())
    got: list[Message | None] = []

    def receive() -> None:
        # No handler runs between what returns and what takes it.
        if many:
            got.extend(listener.receive_many())
        else:
            got.append(listener.wait_for_msg())

    until_interrupted(receive)
    sending.kill()
    got += list(listener)
    found = [message.data for message in got if message]
    assert found == [str(number).encode() for number in range(len(found))]


@RAISED_IN_VAIN
@pytest.mark.rule(28)
@pytest.mark.axiom("loss", "answer")
def test_no_interruption_of_a_call_leaves_anything_behind(
    ksock: OpenKsock, child: StartChild, until_interrupted: Callable[[Callable[[], object]], None]
) -> None:
    """No answer, and no Request that waits for one; what else came is there."""
    caller, replier, sender = ksock(), ksock(), ksock()
    caller.bind("$.Other")
    caller.set_max_messages(1000)
    child(lambda: threading.Thread(target=replier.serve, args=("$.A", lambda _: b"yes"), daemon=True).start())
    wait_until(lambda: caller.find_replier("$.A") is not None, "it serves")
    others: list[Message] = []
    sent = count()

    def call() -> None:
        sender.send_msg(Announcement("$.Other", str(next(sent))))
        assert caller.call("$.A").name == "$.A"
        others.extend(caller.receive_many(0))

    until_interrupted(call)
    others += list(caller)
    assert {each.name for each in others} == {"$.Other"}
    assert ksock_stats(caller)["awaiting"] == 0
    numbers = [int(each.data or b"") for each in others]
    assert numbers == sorted(set(numbers))
    # Where sending was interrupted, or a message had no room, it is missing for good.
    assert len(numbers) > next(sent) // 2
