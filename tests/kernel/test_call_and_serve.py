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
from typing import Any

import pytest

from kbus import (
    Announcement,
    Ksock,
    Message,
    MessageId,
    ReplierError,
    Request,
    StatusError,
    StopServing,
    reply_to,
)
from tests.kernel.calls import TRANSFER, counted
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PATIENCE, fails, fill, ksock_stats, take, wait_until

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


@contextmanager
def alarm(seconds: float, error: BaseException) -> Iterator[None]:
    """A signal handler raises this after so many seconds."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, on_signal)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("error", [TimeoutError("too slow"), OSError("too slow")])
@pytest.mark.parametrize(
    "wait",
    [
        lambda ksock: ksock.call("$.Fred"),
        lambda ksock: ksock.send_msg(Announcement("$.News", flags=Message.ALL_OR_WAIT)),
        lambda ksock: ksock.send_many([Announcement("$.News", flags=Message.ALL_OR_WAIT)]),
    ],
    ids=["call", "send_msg", "send_many"],
)
def test_what_a_signal_handler_raises_is_passed_on(
    ksock: OpenKsock, wait: Callable[[Ksock], object], error: OSError
) -> None:
    """Though it is an OSError, it is not the kernel's."""
    caller, replier, full = ksock(), ksock(), ksock()
    replier.bind("$.Fred", replier=True)
    fill(full, "$.News")
    with alarm(0.05, error), pytest.raises(OSError, match=r"^too slow$") as caught:
        wait(caller)
    assert caught.value is error
    caller.discard()


def give_up(server: Ksock) -> None:
    with pytest.raises(TimeoutError):
        server.call("$.Fred", timeout=0.05)


def give_up_by_a_signal(server: Ksock) -> None:
    with alarm(0.05, HandlerError()), pytest.raises(HandlerError):
        server.call("$.Fred")


def give_up_later(server: Ksock) -> None:
    sent = server.send_msg(Request("$.Fred"))
    server.bind("$.Nobody", replier=True)
    with pytest.raises(TimeoutError):
        server.call("$.Nobody", timeout=0.05)
    server.abandon(sent)
    server.unbind("$.Nobody", replier=True)


@pytest.mark.rule(28)
@pytest.mark.parametrize("give", [give_up, give_up_by_a_signal, give_up_later])
def test_a_request_of_its_own_that_it_abandons(ksock: OpenKsock, give: Callable[[Ksock], None]) -> None:
    """It was put aside while the answer was waited for, and is not to be answered any more."""
    server, other = ksock(), ksock()
    server.bind("$.Fred", replier=True)
    other.send_msg(Request("$.Fred", "of another"))
    give(server)
    assert server.num_unreplied_to() == 1
    wanted = [message.data for message in server if message.wants_us_to_reply()]
    assert wanted == [b"of another"]


@pytest.mark.axiom("answer")
def test_a_handler_that_calls_itself_until_it_is_too_late(ksock: OpenKsock) -> None:
    server, caller = ksock(), ksock()
    handled = 0

    def handle(request: Message) -> Any:
        nonlocal handled
        handled += 1
        return server.call("$.Fred", timeout=0.05).data

    with meanwhile(serving(server, "$.Fred", handle)):
        until_served(caller, "$.Fred")
        with pytest.raises(ReplierError, match=r"^TimeoutError: "):
            caller.call("$.Fred", timeout=PATIENCE)
        stop(caller, "$.Fred")
    assert handled == 1


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


@pytest.mark.axiom("answer")
def test_an_error_in_the_handler_is_answered_and_serving_goes_on(
    ksock: OpenKsock, caplog: pytest.LogCaptureFixture
) -> None:
    server, caller = ksock(), ksock()

    def handle(request: Message) -> str:
        return str(float((request.data or b"").decode()) * 2)

    with meanwhile(serving(server, "$.Double", handle)):
        until_served(caller, "$.Double")
        with pytest.raises(ReplierError) as caught:
            caller.call("$.Double", "warm", PATIENCE)
        assert caller.call("$.Double", "21", PATIENCE).data == b"42.0"
        stop(caller, "$.Double")
    error = caught.value
    assert (error.kind, error.text) == ("ValueError", "could not convert string to float: 'warm'")
    assert error.message is not None
    assert error.message.name == "$.KBUS.Replier.Failed"
    assert not error.message.is_synthetic()
    assert error.message.from_ == server.ksock_id()
    (logged,) = caplog.records
    assert (logged.name, logged.levelname) == ("kbus.serve", "ERROR")
    assert logged.getMessage() == f"request {error.message.in_reply_to} $.Double failed"
    assert logged.exc_info is not None


class Mute(Exception):
    """It has no text that can be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.axiom("answer")
@pytest.mark.parametrize("error", [Mute(), ReplierError(5, None)])  # type: ignore[arg-type]
def test_an_error_that_is_hard_to_tell_of_is_answered(ksock: OpenKsock, error: Exception) -> None:
    server, caller = ksock(), ksock()

    def handle(request: Message) -> str:
        if request.data:
            raise error
        return "good"

    with meanwhile(serving(server, "$.A", handle)):
        until_served(caller, "$.A")
        with pytest.raises(ReplierError, match=r"^(Mute|5): "):
            caller.call("$.A", "x", PATIENCE)
        assert caller.call("$.A", timeout=PATIENCE).data == b"good"
        stop(caller, "$.A")


def test_a_handler_may_choose_its_error(ksock: OpenKsock) -> None:
    server, caller = ksock(), ksock()

    def handle(request: Message) -> None:
        raise ReplierError("Door.Jammed", "there is a foot in it")

    with meanwhile(serving(server, "$.Door", handle)):
        until_served(caller, "$.Door")
        with pytest.raises(ReplierError, match=r"^Door\.Jammed: there is a foot in it$"):
            caller.call("$.Door", timeout=PATIENCE)
        stop(caller, "$.Door")


@pytest.mark.parametrize("wrong", [5, object()])
def test_a_handler_that_gives_no_data_has_failed(ksock: OpenKsock, wrong: Any) -> None:
    server, caller = ksock(), ksock()
    with meanwhile(serving(server, "$.Fred", lambda request: wrong)):
        until_served(caller, "$.Fred")
        with pytest.raises(ReplierError, match="TypeError: data is text, bytes"):
            caller.call("$.Fred", timeout=PATIENCE)
        stop(caller, "$.Fred")


def test_an_answer_that_is_too_long_is_an_error(ksock: OpenKsock) -> None:
    server, caller = ksock(), ksock()
    most = caller.max_message_size()
    with meanwhile(serving(server, "$.Fred", lambda request: bytes(most))):
        until_served(caller, "$.Fred")
        with pytest.raises(ReplierError, match=rf"^AnswerTooLong: .* and a message {most} at most$"):
            caller.call("$.Fred", timeout=PATIENCE)
        stop(caller, "$.Fred")


def test_an_error_is_cut_to_the_length_that_a_message_can_have(ksock: OpenKsock) -> None:
    server, caller = ksock(), ksock()
    before = caller.max_message_size()

    def handle(request: Message) -> None:
        raise ValueError(100 * "\N{GREEK SMALL LETTER ALPHA}")

    caller.set_max_message_size(120)
    try:
        with meanwhile(serving(server, "$.Fred", handle)):
            until_served(caller, "$.Fred")
            with pytest.raises(ReplierError, match=r"^ValueError: \u03b1+$"):
                caller.call("$.Fred", timeout=PATIENCE)
            stop(caller, "$.Fred")
    finally:
        caller.set_max_message_size(before)


@pytest.mark.axiom("answer")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_ends_serving_after_the_answer(
    ksock: OpenKsock, error: type[BaseException]
) -> None:
    server, caller = ksock(), ksock()

    def handle(request: Message) -> None:
        raise error

    def serve() -> None:
        with pytest.raises(error):
            server.serve("$.Fred", handle)
        assert server.find_replier("$.Fred") is None
        assert server.num_unreplied_to() == 0

    with meanwhile(serve):
        until_served(caller, "$.Fred")
        with pytest.raises(ReplierError, match=f"^{error.__name__}$"):
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
