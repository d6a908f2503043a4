# SPDX-License-Identifier: MIT
"""Ksock.call and Ksock.serve against the real module, and what becomes of other messages meanwhile."""

from __future__ import annotations

import errno
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from kbus import Announcement, Ksock, Message, MessageId, Request, StatusError, StopServing, reply_to
from tests.kernel.calls import TRANSFER, counted
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PATIENCE, fails, ksock_stats, take, wait_until

Handler = Callable[[Message], object]


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """Do `work` in a thread during the block; what it raises is raised at the end."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # handed on to the test
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join(PATIENCE)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def answer_one(replier: Ksock, before: Handler = lambda request: None) -> Message:
    """Wait for a Request, call `before` with it, and answer with its data reversed."""
    request = replier.wait_for_msg(PATIENCE)
    assert request is not None
    before(request)
    replier.send_msg(reply_to(request, (request.data or b"")[::-1]))
    return request


# call


def test_call_returns_the_reply(ksock: OpenKsock) -> None:
    caller, replier = ksock(), ksock()
    replier.bind("$.Fred", replier=True)
    with meanwhile(lambda: answer_one(replier)):
        reply = caller.call("$.Fred", "123", PATIENCE)
    assert reply.data == b"321"
    assert reply.in_reply_to == caller.last_msg_id()
    assert reply.from_ == replier.ksock_id()
    assert caller.num_messages() == 0


def test_call_without_data_or_timeout(ksock: OpenKsock) -> None:
    caller, replier = ksock(), ksock()
    replier.bind("$.Fred", replier=True)
    with meanwhile(lambda: answer_one(replier)):
        assert caller.call("$.Fred").data is None


def test_call_without_a_replier(ksock: OpenKsock) -> None:
    caller = ksock()
    with fails(errno.EADDRNOTAVAIL):
        caller.call("$.Fred")
    assert ksock_stats(caller)["awaiting"] == 0


def call_amid_others(ksock: OpenKsock) -> Ksock:
    """A KSock that was sent $.Other.1 and $.Other.2 during a call, and $.Other.3 after it."""
    caller, replier, sender = ksock(), ksock(), ksock()
    replier.bind("$.Fred", replier=True)
    caller.bind("$.Other.%")

    def others(request: Message) -> None:
        sender.send_msg(Announcement("$.Other.1", b"12345"))
        sender.send_msg(Announcement("$.Other.2"))

    with meanwhile(lambda: answer_one(replier, others)):
        assert caller.call("$.Fred", "ab", PATIENCE).data == b"ba"
    sender.send_msg(Announcement("$.Other.3"))
    return caller


def test_other_messages_are_read_later_in_order(ksock: OpenKsock) -> None:
    caller = call_amid_others(ksock)
    assert caller.num_messages() == 3
    assert [message.name for message in caller] == ["$.Other.1", "$.Other.2", "$.Other.3"]
    assert caller.num_messages() == 0


def test_other_messages_are_waited_for_in_order(ksock: OpenKsock) -> None:
    caller = call_amid_others(ksock)
    waited = [caller.wait_for_msg(PATIENCE) for _ in range(3)]
    assert [message and message.name for message in waited] == ["$.Other.1", "$.Other.2", "$.Other.3"]
    assert caller.wait_for_msg(0) is None


def test_other_messages_can_be_read_in_pieces(ksock: OpenKsock) -> None:
    caller = call_amid_others(ksock)
    length = caller.next_msg()
    assert caller.len_left() == length == 64
    pieces = [caller.read_data(10)]
    assert caller.len_left() == length - 10
    pieces.append(caller.read_data(1000))
    assert caller.len_left() == 0
    assert caller.read_data(1) == b""
    message = Message.from_bytes(b"".join(pieces))
    assert (message.name, message.data) == ("$.Other.1", b"12345")
    caller.next_msg()
    caller.read_data(1)
    assert [message.name for message in caller] == ["$.Other.3"]
    assert caller.len_left() == 0


def test_other_messages_do_not_outlive_a_close(ksock: OpenKsock) -> None:
    caller = call_amid_others(ksock)
    caller.close()
    with pytest.raises(ValueError, match="closed file"):
        caller.read_next_msg()


def test_a_second_call_does_not_mix_up_what_was_put_aside(ksock: OpenKsock) -> None:
    caller, replier = call_amid_others(ksock), ksock()
    replier.bind("$.Jim", replier=True)
    with meanwhile(lambda: answer_one(replier)):
        assert caller.call("$.Jim", "xy", PATIENCE).data == b"yx"
    assert [message.name for message in caller] == ["$.Other.1", "$.Other.2", "$.Other.3"]


def test_a_caller_that_listens_to_its_own_call(ksock: OpenKsock) -> None:
    caller, replier = ksock(), ksock()
    caller.bind("$.Fred")
    replier.bind("$.Fred", replier=True)
    with meanwhile(lambda: answer_one(replier)):
        reply = caller.call("$.Fred", "ab", PATIENCE)
    assert reply.data == b"ba"
    assert [message.data for message in caller] == [b"ab", b"ba"]


@pytest.mark.rule(28)
def test_call_gives_up_in_time(ksock: OpenKsock) -> None:
    caller, replier = ksock(), ksock()
    replier.bind("$.Fred", replier=True)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer within 0.05 seconds: '\$.Fred'") as caught:
        caller.call("$.Fred", timeout=0.05)
    assert time.monotonic() - began >= 0.05
    assert caught.value.errno == errno.ETIMEDOUT
    assert ksock_stats(caller)["awaiting"] == 0
    assert not take(replier).wants_us_to_reply()


@pytest.mark.rule(28)
def test_call_gives_up_in_time_though_more_is_queued(ksock: OpenKsock) -> None:
    caller, replier, sender = ksock(), ksock(), ksock()
    replier.bind("$.Fred", replier=True)
    caller.bind("$.Other")
    for number in range(50):
        sender.send_msg(Announcement("$.Other", str(number)))
    with pytest.raises(TimeoutError):
        caller.call("$.Fred", timeout=0)
    assert ksock_stats(caller)["awaiting"] == 0
    assert ksock_stats(caller)["queued"] == 49
    assert caller.num_messages() == 50
    assert [message.data for message in caller] == [str(number).encode() for number in range(50)]


class AnsweredTooLate(Ksock):
    """A KSock that is sent the answer, and something else before it, just as it gives up."""

    def __init__(self, replier: Ksock) -> None:
        super().__init__()
        self._replier = replier

    def abandon(self, id: MessageId) -> None:
        def other(request: Message) -> None:
            self._replier.send_msg(Announcement("$.Other"))

        answer_one(self._replier, other)
        super().abandon(id)


@pytest.mark.rule(28)
def test_an_answer_that_came_in_the_gap_is_taken(ksock: OpenKsock) -> None:
    replier = ksock()
    replier.bind("$.Fred", replier=True)
    with AnsweredTooLate(replier) as caller:
        caller.bind("$.Other")
        assert caller.call("$.Fred", "ab", timeout=0).data == b"ba"
        assert [message.name for message in caller] == ["$.Other"]


class HandlerError(Exception):
    """Raised by a handler."""


@pytest.mark.rule(28)
def test_call_abandons_when_a_signal_handler_raises(ksock: OpenKsock) -> None:
    caller, replier = ksock(), ksock()
    replier.bind("$.Fred", replier=True)

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise HandlerError

    before = signal.signal(signal.SIGALRM, on_signal)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(HandlerError):
            caller.call("$.Fred")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ksock_stats(caller)["awaiting"] == 0


def close_when_asked(replier: Ksock, read: bool) -> None:
    """Wait for a Request, read it or not, and close."""
    wait_until(lambda: replier.num_messages() == 1, "the Request is there")
    if read:
        take(replier)
    replier.close()


@pytest.mark.rule(27)
@pytest.mark.parametrize(("read", "name"), [(False, "GoneAway"), (True, "Ignored")])
def test_a_status_is_raised(ksock: OpenKsock, read: bool, name: str) -> None:
    caller, replier = ksock(), ksock()
    replier.bind("$.Fred", replier=True)
    with meanwhile(lambda: close_when_asked(replier, read)), pytest.raises(StatusError) as caught:
        caller.call("$.Fred", timeout=PATIENCE)
    status = caught.value.status
    assert status.name == f"$.KBUS.Replier.{name}"
    assert status.is_synthetic()
    assert status.in_reply_to == caller.last_msg_id()
    assert status.from_ == replier.ksock_id()
    assert status.data is None


# serve


def serving(server: Ksock, name: str, handle: Callable[[Message], str | bytes | None]) -> Callable[[], None]:
    """What serves until the data of a Request is 'stop'."""

    def stoppable(request: Message) -> str | bytes | None:
        if request.data == b"stop":
            raise StopServing("stopped")
        return handle(request)

    return lambda: server.serve(name, stoppable)


def stop(caller: Ksock, name: str) -> None:
    """End what `serving` began."""
    assert caller.call(name, "stop", PATIENCE).data == b"stopped"


def until_served(caller: Ksock, name: str) -> None:
    """Wait until somebody serves `name`."""
    wait_until(lambda: caller.find_replier(name) is not None, f"{name} is served")


def test_serve_answers_until_it_is_stopped(ksock: OpenKsock) -> None:
    server, caller = ksock(), ksock()
    with meanwhile(serving(server, "$.Fred", lambda request: (request.data or b"").upper())):
        until_served(caller, "$.Fred")
        assert [caller.call("$.Fred", data, PATIENCE).data for data in ("a", "b", None)] == [b"A", b"B", None]
        stop(caller, "$.Fred")
    assert caller.find_replier("$.Fred") is None
    assert server.num_unreplied_to() == 0


def test_an_answer_and_the_wait_for_the_next_request_are_one_call(
    ksock: OpenKsock, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, replier = ksock(), ksock()
    answered: list[object] = []

    def handler(request: Message) -> bytes:
        if request.data == b"3":
            raise StopServing(b"3")
        return request.data or b""

    def ask() -> None:
        wait_until(lambda: caller.find_replier("$.Fred") is not None, "somebody serves")
        answered.extend(caller.call("$.Fred", str(number), PATIENCE).data for number in (1, 2, 3))

    with meanwhile(ask), counted(monkeypatch, replier) as calls:
        replier.serve("$.Fred", handler)
    assert answered == [b"1", b"2", b"3"]
    assert [call for call in calls if call == TRANSFER] == [TRANSFER] * 4


def test_a_request_that_came_during_another_is_answered_too(ksock: OpenKsock) -> None:
    """The handler's own call has put it aside, where nothing else would look for it."""
    callers, replier, helper = [ksock(), ksock()], ksock(), ksock()
    helper.bind("$.Help", replier=True)
    asked: list[Message] = []

    def help_late() -> None:
        request = helper.wait_for_msg(PATIENCE)
        assert request is not None
        callers[1].send_msg(Request("$.Fred", "second"))
        helper.send_msg(reply_to(request))

    def handler(request: Message) -> bytes:
        asked.append(request)
        if len(asked) == 2:
            raise StopServing(b"done")
        replier.call("$.Help", timeout=PATIENCE)
        return b"done"

    def ask() -> None:
        wait_until(lambda: callers[0].find_replier("$.Fred") is not None, "somebody serves")
        callers[0].send_msg(Request("$.Fred", "first"))

    with meanwhile(ask), meanwhile(help_late):
        replier.serve("$.Fred", handler)
    assert [request.data for request in asked] == [b"first", b"second"]
    assert [take(caller).data for caller in callers] == [b"done", b"done"]


def test_serve_can_end_without_data(ksock: OpenKsock) -> None:
    server, caller = ksock(), ksock()

    def handle(request: Message) -> None:
        raise StopServing

    with meanwhile(lambda: server.serve("$.Fred", handle)):
        until_served(caller, "$.Fred")
        assert caller.call("$.Fred", timeout=PATIENCE).data is None


def test_an_error_in_the_handler_ends_serving(ksock: OpenKsock) -> None:
    server, caller = ksock(), ksock()

    def handle(request: Message) -> None:
        raise HandlerError

    def serve_and_close() -> None:
        with pytest.raises(HandlerError):
            server.serve("$.Fred", handle)
        assert server.find_replier("$.Fred") is None
        assert server.num_unreplied_to() == 1
        server.close()

    with meanwhile(serve_and_close):
        until_served(caller, "$.Fred")
        with pytest.raises(StatusError, match=r"Replier\.Ignored"):
            caller.call("$.Fred", timeout=PATIENCE)


def test_serving_what_is_served_already(ksock: OpenKsock) -> None:
    server, other = ksock(), ksock()
    other.bind("$.Fred", replier=True)
    with fails(errno.EADDRINUSE):
        server.serve("$.Fred", lambda request: None)
    assert server.find_replier("$.Fred") == other.ksock_id()


def test_requesters_who_went_away_do_not_end_serving(ksock: OpenKsock) -> None:
    server, caller, gone, tired, hasty = ksock(), ksock(), ksock(), ksock(), ksock()

    def handle(request: Message) -> bytes:
        if request.data == b"gone":
            gone.close()
            hasty.abandon(hasty.send_msg(Request("$.Fred", "hasty")))
        elif request.data == b"tired":
            assert request.id is not None
            tired.abandon(request.id)
        else:
            assert request.data != b"hasty"
        return b"answer"

    with meanwhile(serving(server, "$.Fred", handle)):
        until_served(caller, "$.Fred")
        gone.send_msg(Request("$.Fred", "gone"))
        tired.send_msg(Request("$.Fred", "tired"))
        assert caller.call("$.Fred", timeout=PATIENCE).data == b"answer"
        stop(caller, "$.Fred")
    assert gone.fd is None
    assert [idle.num_messages() for idle in (tired, hasty, server)] == [0, 0, 0]


def test_serve_puts_other_messages_aside(ksock: OpenKsock) -> None:
    server, caller = ksock(), ksock()
    server.bind("$.Other.%")
    with meanwhile(serving(server, "$.Fred", lambda request: b"answer")):
        until_served(caller, "$.Fred")
        for name in ("$.Other.1", "$.Other.2"):
            caller.send_msg(Announcement(name))
            assert caller.call("$.Fred", timeout=PATIENCE).data == b"answer"
        stop(caller, "$.Fred")
    assert [message.name for message in server] == ["$.Other.1", "$.Other.2"]


def test_a_handler_may_call(ksock: OpenKsock) -> None:
    server, helper, caller, second = ksock(), ksock(), ksock(), ksock()
    helper.bind("$.Helper", replier=True)

    def handle(request: Message) -> bytes | None:
        return server.call("$.Helper", request.data, PATIENCE).data

    def help_twice() -> None:
        # While the server waits for the first, it is sent a second Request, which it must not lose.
        answer_one(helper, lambda request: second.send_msg(Request("$.Fred", "cd")))
        answer_one(helper)

    with meanwhile(serving(server, "$.Fred", handle)), meanwhile(help_twice):
        until_served(caller, "$.Fred")
        assert caller.call("$.Fred", "ab", PATIENCE).data == b"ba"
        reply = second.wait_for_msg(PATIENCE)
        assert reply is not None
        assert reply.data == b"dc"
        stop(caller, "$.Fred")
