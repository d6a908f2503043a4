# SPDX-License-Identifier: MIT
"""A task that is held up while a message is copied to it, for as long as it likes."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbus import Ksock
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import PATIENCE, refused, take, wait_until
from tests.kernel.module import parameter
from tests.kernel.transfer import ARGUMENT, NOW
from tests.kernel.userfault import LateMemory

pytestmark = pytest.mark.rule(31)

ROOM = 1 << 16
DATA = {"small": b"data", "pages": bytes(range(256)) * 64}

_libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def memory() -> Iterator[LateMemory]:
    memory = LateMemory(ROOM // 4096)
    yield memory
    memory.close()


def receive(ksock: Ksock, address: int) -> int:
    """TRANSFER with room for messages; how many have come."""
    argument = bytearray(ARGUMENT.pack(0, 0, address, NOW, 0, 0, ROOM, *(0,) * 9))
    fcntl.ioctl(ksock.fileno(), raw.IOCTLS["TRANSFER"], argument)
    return int(ARGUMENT.unpack(argument)[10])


def read(ksock: Ksock, address: int) -> int:
    """read(2); how many bytes have come."""
    return int(_libc.read(ksock.fileno(), ctypes.c_void_p(address), ROOM))


class HeldUp:
    """A thread that receives into memory that is not there; after the constructor it is held up by that."""

    def __init__(self, ksock: Ksock, memory: LateMemory, call: Callable[[Ksock, int], int]) -> None:
        self._results: list[int] = []
        self._memory = memory
        self._thread = threading.Thread(
            target=lambda: self._results.append(call(ksock, memory.address)), daemon=True
        )
        self._thread.start()
        assert memory.is_wanted(PATIENCE)

    def result(self) -> int:
        self._memory.come()
        self._thread.join(PATIENCE)
        (result,) = self._results
        return result


@pytest.fixture
def reader(ksock: OpenKsock) -> Ksock:
    """Whose messages two receive."""
    reader = ksock()
    reader.bind("$.A")
    return reader


@pytest.fixture
def sender(ksock: OpenKsock) -> Ksock:
    return ksock()


@pytest.mark.axiom("isolation")
@pytest.mark.abi("TRANSFER")
@pytest.mark.parametrize("call", [receive, read])
@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_others_are_not_held_up(
    reader: Ksock, sender: Ksock, memory: LateMemory, data: bytes, call: Callable[[Ksock, int], int]
) -> None:
    """They send to the same reader meanwhile; what it was reading comes as it was."""
    packet = raw.message(b"$.A", data)
    raw.send(sender, packet)
    if call is read:
        reader.next_msg()
    slow = HeldUp(reader, memory, call)
    raw.send(sender, raw.message(b"$.A", b"next"))
    assert reader.num_messages() == (1 if call is read else 2)
    assert slow.result() == (len(packet) if call is read else 1)
    assert raw.parse(memory.read(len(packet))).data == data
    assert take(reader).data == b"next"


@pytest.mark.rule(44)
@pytest.mark.parametrize("call", [receive, read])
def test_what_is_being_copied_is_charged(
    reader: Ksock, sender: Ksock, memory: LateMemory, call: Callable[[Ksock, int], int]
) -> None:
    packet = raw.message(b"$.A", bytes(60_000))
    with parameter("max_user_bytes", 100_000):
        raw.send(sender, packet)
        if call is read:
            reader.next_msg()
        slow = HeldUp(reader, memory, call)
        with refused(errno.ENOBUFS):
            raw.send(sender, packet)
        slow.result()
        raw.send(sender, packet)
        assert take(reader).data == bytes(60_000)


@pytest.mark.rule(10)
@pytest.mark.axiom("lifetime")
@pytest.mark.abi("UNBIND", "TRANSFER")
def test_an_unbind_waits_for_what_is_being_copied(reader: Ksock, sender: Ksock, memory: LateMemory) -> None:
    """Else that was freed meanwhile."""
    raw.send(sender, raw.message(b"$.A", b"data"))
    slow = HeldUp(reader, memory, receive)
    unbinding = threading.Thread(target=reader.unbind, args=("$.A",), daemon=True)
    unbinding.start()
    status = Path(f"/proc/self/task/{unbinding.native_id}/status")
    wait_until(lambda: "\nState:\tD" in status.read_text(), "UNBIND waits for a mutex")
    assert slow.result() == 1
    unbinding.join(PATIENCE)
    assert not unbinding.is_alive()
    assert reader.num_messages() == 0
