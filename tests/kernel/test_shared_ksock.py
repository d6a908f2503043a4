# SPDX-License-Identifier: MIT
"""A Ksock that another thread closes, or that a process has forked with."""

from __future__ import annotations

import os
import threading

import pytest

from kbus import Announcement, Ksock
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import IOCTL, PATIENCE, blocked_in, wait_until
from tests.kernel.test_call_and_serve import call_amid_others

pytestmark = pytest.mark.rule(31)


def wait(reader: Ksock, seconds: float, found: list[object]) -> None:
    """Wait for a message; add what comes of it to ``found``."""
    try:
        found.append(reader.wait_for_msg(seconds))
    except ValueError as error:
        found.append(str(error))


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_close_in_another_thread_ends_a_wait(is_sent: bool, ksock: OpenKsock) -> None:
    """With the message that comes next, or at the end of its time."""
    reader, sender = Ksock(), ksock()
    reader.bind("$.Fred")
    found: list[object] = []
    thread = threading.Thread(target=wait, args=[reader, PATIENCE if is_sent else 0.5, found])
    thread.start()
    wait_until(lambda: blocked_in(thread.native_id or 0, IOCTL), "it waits")
    reader.close()
    if is_sent:
        sender.send_msg(Announcement("$.Fred"))
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert [str(getattr(each, "name", each)) for each in found] == [
        "$.Fred" if is_sent else "I/O operation on closed file"
    ]


def test_both_have_what_was_put_aside_before_a_fork(ksock: OpenKsock) -> None:
    """What was not is read by one of them."""
    caller = call_amid_others(ksock)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, " ".join(message.name for message in caller).encode())
        finally:
            os._exit(0)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    with open(reader) as file:
        assert file.read() == "$.Other.1 $.Other.2 $.Other.3"
    assert [message.name for message in caller] == ["$.Other.1", "$.Other.2"]
