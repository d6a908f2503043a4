# SPDX-License-Identifier: MIT
"""What an OSError says: what was refused, why in the words of the bus, and what to do. The errno stays."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from kbus import Announcement, Ksock, MessageId, Reply, Request, SendManyError
from kbus._processes import command_of
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import fill


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
    assert why.startswith("the module has made /dev/kbus0")
    assert why.endswith("; its parameter num_kbus_devices and the ioctl NEWDEVICE make more")


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
    expected = ("$.Fred", "nobody replies to it; `kbus bindings` shows who is there")
    assert said(lambda: one.send_msg(Request("$.Fred")), errno.EADDRNOTAVAIL) == expected
    assert said(lambda: one.call("$.Fred"), errno.EADDRNOTAVAIL) == expected


def test_one_of_many(ksock: OpenKsock) -> None:
    one = ksock()
    with pytest.raises(SendManyError) as caught:
        one.send_many([Announcement("$.A"), Request("$.Fred"), Announcement("$.B")])
    assert str(caught.value) == (
        f"[Errno {errno.EADDRNOTAVAIL}] $.Fred: nobody replies to it; `kbus bindings` shows who is there:"
        " message 1 of those to be sent"
    )


def test_a_reply_that_nobody_expects(ksock: OpenKsock) -> None:
    one = ksock()
    reply = Reply("$.Fred", to=one.ksock_id(), in_reply_to=MessageId(0, 99))
    assert said(lambda: one.send_msg(reply), errno.ECONNREFUSED) == (
        "$.Fred",
        "nobody expects this reply: the Request was answered, or is not wanted any more",
    )


def test_a_full_queue(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock(nonblocking=True)
    fill(full)
    fails = Announcement("$.Filler", flags=Announcement.ALL_OR_FAIL)
    waits = Announcement("$.Filler", flags=Announcement.ALL_OR_WAIT)
    assert said(lambda: sender.send_msg(fails), errno.EBUSY) == (
        "$.Filler",
        "somebody who must get it has a full queue, so nobody got it",
    )
    assert said(lambda: sender.send_msg(waits), errno.EAGAIN) == (
        "$.Filler",
        "somebody who must get it has no room; poll for POLLOUT, then send() or discard() it",
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
