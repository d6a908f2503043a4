# SPDX-License-Identifier: MIT
"""Calls on a KSock of the stand-in that is closed before they begin, or while they wait."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue

import pytest

from kbus import Announcement, Ksock, Message, inspect
from kbus import _abi as abi
from kbus._device import TEST_BUS
from kbus._stand_in import TransferAsked
from kbus.testing import Bus
from kbus.testing.core import BusClosed, Core
from kbus.testing.handle import Handle
from kbus.testing.model.bus import DeviceLimits
from kbus.testing.model.parts import Owner
from tests.kernel.helpers import fails, wait_until
from tests.testing.reached import served

HEARD = Announcement("$.Heard").to_bytes()
WAITS = Announcement("$.Heard", flags=Message.ALL_OR_WAIT).to_bytes()
NOTHING = TransferAsked(b"", 0, 0, 0, False, abi.TRANSFER_NOW)


def opened(core: Core) -> Handle:
    """Open a KSock."""
    return Handle(core, 0, "rw", Owner(1, 0, 0))


@pytest.fixture
def core() -> Iterator[Core]:
    """A device."""
    core = Core(DeviceLimits(), 1)
    yield core
    with suppress(BusClosed):
        core.stop()


@pytest.fixture
def listener(core: Core) -> Handle:
    """A KSock that listens to ``$.Heard``."""
    handle = opened(core)
    handle.do("bind", b"$.Heard", abi.BIND_LISTENER)
    return handle


CALLS: dict[str, Callable[[Handle], object]] = {
    "do": lambda handle: handle.do("bind", b"$.A", abi.BIND_REPLIER),
    "new_device": lambda handle: handle.new_device(),
    "send": lambda handle: handle.send(False),
    "transfer": lambda handle: handle.transfer(NOTHING._replace(to_send=HEARD), False),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_call_after_the_close_has_no_effect(core: Core, listener: Handle, what: str) -> None:
    """It was made before the close, by another thread or by a process that was killed."""
    handle = opened(core)
    handle.do("write", HEARD)
    handle.close()
    with fails(errno.EBADF):
        CALLS[what](handle)
    assert listener.do("resolve", b"$.A") == 0
    assert listener.do("counts")["NUMMSGS"] == 0
    assert len(core.devices) == 1


WAITING: dict[str, Callable[[Handle], object]] = {
    "send": lambda handle: handle.send(False),
    "sending": lambda handle: handle.transfer(
        NOTHING._replace(to_send=WAITS, deadline=abi.TRANSFER_NEVER), False
    ),
    "receiving": lambda handle: handle.transfer(
        NOTHING._replace(room=100, deadline=abi.TRANSFER_NEVER), False
    ),
}


@pytest.mark.parametrize("what", WAITING)
def test_a_call_that_waits_ends_with_the_close(core: Core, listener: Handle, what: str) -> None:
    """Nothing is sent then, though the recipient has room by the close: the sender filled its own queue."""
    handle = opened(core)
    handle.do("max_msgs", 1)
    if what in ("send", "sending"):
        for name in (b"$.Heard", b"$.Filler"):
            handle.do("bind", name, abi.BIND_LISTENER)
        handle.do("write", Announcement("$.Filler").to_bytes())
        handle.do("send")
    if what == "send":
        handle.do("write", WAITS)
    ended: SimpleQueue[object] = SimpleQueue()

    def wait() -> None:
        try:
            ended.put(WAITING[what](handle))
        except OSError as error:
            ended.put(error.errno)

    threading.Thread(target=wait, daemon=True).start()
    wait_until(core.is_waiting, "it waits")
    handle.close()
    assert ended.get(timeout=10) == errno.EBADF
    assert not core.is_waiting()
    assert listener.do("counts")["NUMMSGS"] == 0


def test_a_file_that_is_closed_says_so() -> None:
    """As a file that is closed does, also if the call began before: Service.run promises a ValueError."""
    with Bus(quiet=True) as bus:
        one = Ksock()
        ended: SimpleQueue[object] = SimpleQueue()

        def wait() -> None:
            try:
                ended.put(one.wait_for_msg())
            except (OSError, ValueError) as error:
                ended.put(error)

        threading.Thread(target=wait, daemon=True).start()
        wait_until(bus.core.is_waiting, "it waits")
        one.close()
        assert isinstance(ended.get(timeout=10), ValueError)


def test_nothing_is_left_of_a_client_that_is_killed() -> None:
    """Neither the thread that made its call, nor the KSock."""
    program = """if True:
        from kbus import Ksock
        with Ksock() as one:
            print("opened", flush=True)
            one.wait_for_msg()
    """
    with served() as path:
        environment = {**os.environ, TEST_BUS: path}
        before = threading.active_count()
        with subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"opened\n"
            wait_until(lambda: threading.active_count() == before + 2, "it waits")
            process.kill()
        wait_until(lambda: not inspect.stats()[0].ksocks, "it is closed")
        wait_until(lambda: threading.active_count() == before, "its threads end")
