# SPDX-License-Identifier: MIT
"""What an OSError says: what was refused, why in the words of the bus, and what to do. The errno stays."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
from collections.abc import Callable

import pytest

from kbus import Announcement, Ksock, MessageId, Reply, Request, SendManyError, reply_to
from kbus._processes import ENDED, command_of
from kbus.aio import AsyncKsock
from kbus.cli import main
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import fill, ksock_stats, take, wait_until
from tests.kernel.loops import run, until
from tests.kernel.processes import as_nobody


def said(call: Callable[[], object], number: int) -> tuple[object, str | None]:
    """What is refused, and the reason."""
    with pytest.raises(OSError) as caught:
        call()
    assert caught.value.errno == number
    return caught.value.filename, caught.value.strerror


def test_a_device_that_is_not_there() -> None:
    path, why = said(lambda: Ksock(200), errno.ENOENT)
    assert path == "/dev/kbus200"
    assert why is not None
    assert "/dev/kbus0" in why
    more = "its parameter num_kbus_devices and the ioctl NEWDEVICE make", "`kbus-testbus --devices N` have"
    assert why.endswith(tuple(f" {each} more" for each in more))


@pytest.mark.parametrize(
    ("name", "number", "why"),
    [
        ("bad name", errno.EBADMSG, "message name 'bad name' does not start with \"$.\""),
        ("$.bad name", errno.EBADMSG, "has other than ASCII letters and digits in 'bad name'"),
        ("$.*.A", errno.EBADMSG, "has a wildcard that is not the last word"),
        ("$." + 999 * "A", errno.ENAMETOOLONG, "a message name of 1001 bytes is longer than 1000"),
    ],
)
def test_a_bad_name(ksock: OpenKsock, name: str, number: int, why: str) -> None:
    one = ksock()
    for call in (one.bind, one.unbind, one.find_replier, one.resolve):
        what, reason = said(lambda call=call: call(name), number)  # type: ignore[misc]
        assert what == name
        assert reason is not None
        assert why in reason


def test_a_second_replier(ksock: OpenKsock) -> None:
    first, second = ksock(), ksock()
    first.bind("$.Fred", replier=True)
    command = command_of(os.getpid())
    assert said(lambda: second.bind("$.Fred", replier=True), errno.EADDRINUSE) == (
        "$.Fred",
        f"KSock {first.ksock_id()} (process {os.getpid()}, {command}) is the replier for it",
    )


def test_a_replier_that_another_process_has_inherited(
    ksock: OpenKsock, child: StartChild, capsys: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()

    def be_replier() -> Ksock:
        one = Ksock()
        one.bind("$.Fred", replier=True)
        heir = os.fork()
        if heir == 0:
            signal.pause()
        os.write(writer, str(heir).encode())
        return one

    opener = child(be_replier)
    heir = int(os.read(reader, 20))
    try:
        second = ksock()
        opener.kill()
        replier = second.find_replier("$.Fred")
        assert said(lambda: second.bind("$.Fred", replier=True), errno.EADDRINUSE) == (
            "$.Fred",
            f"KSock {replier} is the replier for it: its opener, process {opener.pid}, has ended;"
            f" another process has inherited it, perhaps {heir} ({command_of(heir)}),"
            " and keeps the name until it ends",
        )
        for command in (["bindings"], ["bindings", "--tree"], ["stats"], ["trace", "$.Fred"]):
            assert main(command) == 0
            assert re.search(rf"\b{opener.pid} +{ENDED}\b", capsys.readouterr().out)
    finally:
        os.kill(heir, signal.SIGKILL)
        os.close(reader)
        os.close(writer)
    wait_until(lambda: second.find_replier("$.Fred") is None, "it has ended, too")


def test_what_is_not_bound(ksock: OpenKsock) -> None:
    one = ksock()
    for replier, kind in ((False, "listener"), (True, "replier")):
        assert said(lambda replier=replier: one.unbind("$.Fred", replier), errno.EINVAL) == (  # type: ignore[misc]
            "$.Fred",
            f"this Ksock is not bound to it as a {kind}",
        )


def test_a_replier_that_may_only_read(ksock: OpenKsock) -> None:
    reader = ksock(mode="r")
    needs = "that needs a Ksock that was opened with mode 'rw'"
    assert said(lambda: reader.bind("$.Fred", replier=True), errno.EBADF) == ("$.Fred", needs)
    assert said(lambda: reader.send_msg(Announcement("$.Fred")), errno.EBADF) == ("$.Fred", needs)
    assert said(lambda: reader.call("$.Fred"), errno.EBADF) == ("$.Fred", needs)


def test_nobody_replies(ksock: OpenKsock) -> None:
    one = ksock()
    expected = ("$.Fred", "it has no replier; `kbus bindings` shows what is bound")
    assert said(lambda: one.send_msg(Request("$.Fred")), errno.EADDRNOTAVAIL) == expected
    assert said(lambda: one.call("$.Fred"), errno.EADDRNOTAVAIL) == expected


def test_one_of_many(ksock: OpenKsock) -> None:
    one = ksock()
    with pytest.raises(SendManyError) as caught:
        one.send_many([Announcement("$.A"), Request("$.Fred"), Announcement("$.B")])
    assert str(caught.value) == (
        f"[Errno {errno.EADDRNOTAVAIL}] $.Fred: it has no replier; `kbus bindings` shows what is bound:"
        " message 1 of those to be sent"
    )


def test_a_reply_that_nobody_expects(ksock: OpenKsock) -> None:
    one = ksock()
    reply = Reply("$.Fred", to=one.ksock_id(), in_reply_to=MessageId(0, 99))
    assert said(lambda: one.send_msg(reply), errno.ECONNREFUSED) == (
        "$.Fred",
        "this reply is not expected: the Request has been answered or abandoned",
    )


def test_a_full_queue(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock(nonblocking=True)
    fill(full)
    fails = Announcement("$.Filler", flags=Announcement.ALL_OR_FAIL)
    waits = Announcement("$.Filler", flags=Announcement.ALL_OR_WAIT)
    assert said(lambda: sender.send_msg(fails), errno.EBUSY) == (
        "$.Filler",
        "a recipient that must get it has a full queue, so it was not delivered",
    )
    assert said(lambda: sender.send_msg(waits), errno.EAGAIN) == (
        "$.Filler",
        "a recipient that must get it has no room; poll for POLLOUT, then send() or discard()",
    )
    assert said(lambda: sender.send_msg(fails), errno.EALREADY) == (
        "$.Filler",
        "another message has been written and not sent; send() or discard() that first",
    )


def test_a_message_that_is_too_long(ksock: OpenKsock) -> None:
    one = ksock()
    most = one.max_message_size()
    assert said(lambda: one.send_msg(Announcement("$.A", bytes(most))), errno.EMSGSIZE) == (
        "$.A",
        f"it is longer than the {most} bytes that a message may have",
    )


NOBODY_REPLIES = "it has no replier; `kbus bindings` shows what is bound"
NOT_SENT = "another message has been written and not sent; send() or discard() that first"
HAS_NO_ROOM = "a recipient that must get it has no room; poll for POLLOUT, then send() or discard()"


def test_a_message_that_was_written(ksock: OpenKsock) -> None:
    """`send` knows the name of what `write_msg` has written, or `send_msg` has left."""
    full, one = ksock(), ksock(nonblocking=True)
    most = one.max_message_size()
    assert said(lambda: one.write_msg(Announcement("$.A", bytes(most))), errno.EMSGSIZE) == (
        "$.A",
        f"it is longer than the {most} bytes that a message may have",
    )
    assert said(one.send, errno.ENOMSG) == (None, "nothing has been written")
    one.write_msg(Request("$.Fred"))
    assert said(lambda: one.write_msg(Request("$.Jim")), errno.EMSGSIZE) == (
        "$.Jim",
        "another message had been written and not sent; both are dropped",
    )
    one.write_msg(Request("$.Fred"))
    assert said(one.send, errno.EADDRNOTAVAIL) == ("$.Fred", NOBODY_REPLIES)
    fill(full)
    waits = Announcement("$.Filler", flags=Announcement.ALL_OR_WAIT)
    for write in (one.write_msg, one.send_msg):
        try:
            write(waits)
        except BlockingIOError:
            assert write == one.send_msg
        for _ in range(2):
            assert said(one.send, errno.EAGAIN) == ("$.Filler", HAS_NO_ROOM)
            assert said(lambda: one.write_msg(Request("$.Fred")), errno.EALREADY) == ("$.Fred", NOT_SENT)
            assert said(lambda: one.write_data(b"x"), errno.EALREADY) == (None, NOT_SENT)
        one.discard()
    one.write_msg(Reply("$.A", to=full.ksock_id(), in_reply_to=MessageId(0, 99)))
    full.close()
    assert said(one.send, errno.EADDRNOTAVAIL) == ("$.A", "the requester has gone")


def test_a_message_that_was_written_in_pieces(ksock: OpenKsock) -> None:
    """Its name is not known."""
    one, reader = ksock(), ksock(mode="r")
    most = one.max_message_size()
    request = Request("$.Fred").to_bytes()
    one.write_msg(Announcement("$.A"))
    one.send()
    one.write_data(request[:20])
    assert said(one.send, errno.EINVAL) == (None, "what has been written is not a whole message")
    one.write_data(request)
    assert said(one.send, errno.EADDRNOTAVAIL) == (
        None,
        "this Request has no replier, or the requester of this reply has gone;"
        " `kbus bindings` shows what is bound",
    )
    assert said(lambda: one.write_data(bytes(100)), errno.EINVAL)[1] == (
        "what has been written is not a whole message"
    )
    assert said(lambda: one.write_data(request + b"x"), errno.EMSGSIZE) == (
        None,
        f"it is longer than its header says, or than the {most} bytes that a message may have",
    )
    named = Announcement("$." + 999 * "A").to_bytes()
    assert said(lambda: one.write_data(named), errno.ENAMETOOLONG) == (
        None,
        "a message name has 1000 bytes at most",
    )
    assert said(lambda: reader.write_data(request), errno.EBADF) == (
        None,
        "that needs a Ksock that was opened with mode 'rw'",
    )


def test_flags_that_are_not_allowed(ksock: OpenKsock) -> None:
    one = ksock()
    both = Announcement.ALL_OR_WAIT | Announcement.ALL_OR_FAIL
    why = (
        "a flag is unknown, or flags exclude each other: ALL_OR_WAIT and ALL_OR_FAIL,"
        " or WANT_A_REPLY and in_reply_to"
    )
    for flags in (both, 1 << 12):
        assert said(lambda flags=flags: one.send_msg(Announcement("$.A", flags=flags)), errno.EINVAL) == (  # type: ignore[misc]
            "$.A",
            why,
        )


def test_no_room_for_the_answer(ksock: OpenKsock) -> None:
    replier, one = ksock(), ksock()
    replier.bind("$.A", replier=True)
    one.set_max_messages(3)
    for _ in range(3):
        one.send_msg(Request("$.A"))
    full = (
        "the queue of this Ksock is full: it takes 3 messages, answers to come included;"
        " read them, wait for answers, or let it take more (set_max_messages)"
    )
    for send in (one.send_msg, lambda request: one.call(request.name)):
        assert said(lambda send=send: send(Request("$.A")), errno.ENOLCK) == ("$.A", full)  # type: ignore[misc]


def test_too_many_requests_of_one_id(ksock: OpenKsock) -> None:
    replier, one = ksock(), ksock()
    replier.bind("$.A", replier=True)
    request = Request("$.A", id=MessageId(7, 1))
    for _ in range(16):
        one.send_msg(request)
    assert said(lambda: one.send_msg(request), errno.ENOLCK) == (
        "$.A",
        "16 Requests with the id [7:1] wait for answers already; give it another id",
    )


def test_calls_at_the_same_time(ksock: OpenKsock) -> None:
    """One more than the queue has room for answers to."""

    async def test() -> None:
        async with AsyncKsock() as asker:
            most = asker.ksock.set_max_messages(5)
            calls = [asyncio.ensure_future(asker.call("$.A")) for _ in range(most + 1)]
            ((done,), _) = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            error = done.exception()
            assert isinstance(error, OSError)
            assert (error.errno, error.filename) == (errno.ENOLCK, "$.A")
            assert (error.strerror or "").startswith("the queue of this Ksock is full: it takes 5 messages")
            for _ in range(most):
                replier.send_msg(reply_to(take(replier)))
            calls.remove(done)
            assert len(await asyncio.gather(*calls)) == most

    replier = ksock()
    replier.bind("$.A", replier=True)
    run(test())


def test_after_waiting(ksock: OpenKsock) -> None:
    """A message that has waited for room is refused with its name."""

    async def test() -> None:
        async with AsyncKsock() as sender:
            message = Request("$.A", flags=Request.ALL_OR_WAIT)
            sending = asyncio.ensure_future(sender.send_msg(message))
            many = asyncio.ensure_future(sender.send_many([message]))
            await until(lambda: ksock_stats(sender.ksock)["waiting"] == 1)
            full.close()
            with pytest.raises(OSError) as caught:
                await sending
            assert (caught.value.errno, caught.value.filename) == (errno.EADDRNOTAVAIL, "$.A")
            assert caught.value.strerror == NOBODY_REPLIES
            with pytest.raises(SendManyError, match=r"\] \$\.A: it has no replier"):
                await many

    full = ksock()
    full.bind("$.A", replier=True)
    fill(full)
    run(test())


def test_a_limit_out_of_range(ksock: OpenKsock) -> None:
    one, reader = ksock(), ksock(mode="r")
    highest = one.set_max_message_size(1)
    for size in (3, highest + 1):
        assert said(lambda size=size: one.set_max_message_size(size), errno.EINVAL) == (  # type: ignore[misc]
            None,
            f"the longest message of a device can have 100 to {highest} bytes, not {size}"
            " (module parameter max_message_size)",
        )
    rw = "that needs a Ksock that was opened with mode 'rw'"
    for change in (
        lambda: reader.set_max_message_size(2000),
        reader.kernel_module_verbose,
        reader.report_replier_binds,
    ):
        assert said(change, errno.EBADF) == (None, rw)


def test_devices_are_made_by_root(ksock: OpenKsock) -> None:
    one = ksock()

    def refused() -> tuple[object, str | None]:
        return said(one.new_device, errno.EPERM)

    assert as_nobody(refused) == (None, "a device is made by root, or with CAP_SYS_ADMIN")


def test_names_that_are_not_to_send(ksock: OpenKsock) -> None:
    one = ksock()
    assert said(lambda: one.send_msg(Announcement("$.KBUS.A")), errno.EACCES) == (
        "$.KBUS.A",
        "names that begin with $.KBUS. are KBUS's own",
    )
    assert said(lambda: one.send_msg(Announcement("$.A.*")), errno.EBADMSG) == (
        "$.A.*",
        "no message is sent to a wildcard",
    )


def test_who_and_what_is_not_there(ksock: OpenKsock) -> None:
    one = ksock()
    assert said(lambda: one.peer(9999), errno.ESRCH) == (None, "there is no KSock 9999 now")
    assert said(lambda: one.abandon(MessageId(0, 9)), errno.ENOENT) == (
        None,
        "no answer to Request [0:9] is outstanding here",
    )


def test_an_observer_that_listens_otherwise(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")
    assert said(lambda: one.bind("$.B", observer=True), errno.EINVAL) == (
        "$.B",
        "a Ksock that is an observer by one name is so by all that it listens to",
    )


def test_what_is_of_a_wrong_type(ksock: OpenKsock) -> None:
    """The error names the parameter and its type."""
    one = ksock()
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: Ksock(True), "which is an int, the number of a device, not bool"),
        (lambda: Ksock("0"), "which is an int, the number of a device, not str"),  # type: ignore[arg-type]
        (lambda: one.bind(None), "a message name is a str, not NoneType"),  # type: ignore[arg-type]
        (lambda: one.unbind(b"$.A"), "a message name is a str, not bytes"),  # type: ignore[arg-type]
        (lambda: one.call("$.A", timeout="5"), "timeout is a number of seconds, not str"),  # type: ignore[arg-type]
        (lambda: one.wait_for_msg("5"), "timeout is a number of seconds, not str"),  # type: ignore[arg-type]
    ]
    for call, why in wrong:
        with pytest.raises(TypeError, match=f"^{why}$"):
            call()
