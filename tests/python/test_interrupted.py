# SPDX-License-Identifier: MIT
"""An exception that comes anywhere in a call, as from the handler of a signal, loses no message.

In place of the kernel is a queue; each call is interrupted at each of the places in the package where a
handler may run, once and twice.
"""

from __future__ import annotations

import dis
import errno
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Optional

import pytest

import kbus
from kbus import Announcement, Batch, Ksock, Message, MessageId, Reply
from kbus import _abi as abi
from kbus import _transfer as transfer
from kbus._device import DeviceFile

PACKAGE = str(Path(kbus.__file__).parent)
#: What follows a call without a look whether there was a signal, and what an exception goes on with
NO_PLACES = ("RETURN_VALUE", "RETURN_CONST", "PUSH_EXC_INFO")
#: What the shortest of these calls has of them, at least
PLACES = 8


class HandlerError(Exception):
    """Raised by what is in place of a handler."""


class Kernel:
    """In the place of ioctl: a queue, of which TRANSFER brings what fits, and one Request at a time."""

    def __init__(self, *names: str) -> None:
        # The package is not to be interrupted in here.
        self.queue = deque(Announcement(name).to_bytes() for name in names)
        self._answer = Reply("$.Answer", in_reply_to=MessageId(0, 99)).to_bytes()
        self.memories: dict[int, memoryview] = {}

    def memory(self, size: int) -> tuple[memoryview, int]:
        """Memory that this can write to, and its address."""
        view, address = REAL_MEMORY(size)
        self.memories[address] = view
        return view, address

    def __call__(self, _file: object, request: int, argument: Any = 0) -> int:
        if request == abi.IOC_TRANSFER:
            self._transfer(argument)
        elif request == abi.IOC_NUMMSGS:
            abi.U32.pack_into(argument, 0, len(self.queue))
        elif request == abi.IOC_ABANDON:
            # It was answered at once.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return 0

    def _transfer(self, argument: bytearray) -> None:
        send, ids, receive, *_ = transfer.INPUT.unpack_from(argument, 0)
        (room,) = abi.U32.unpack_from(argument, transfer._RECEIVE_LEN_AT)
        (most,) = abi.U32.unpack_from(argument, transfer._RECEIVE_MAX_AT)
        if send:
            abi.MSG_ID.pack_into(self.memories[ids], 0, 0, 99)
            transfer._PROGRESS.pack_into(argument, transfer._PROGRESS_AT, 1, 0, 0)
            self.queue.append(self._answer)
        view, length, received = self.memories[receive], 0, 0
        while self.queue and received < (most or 100):
            raw = self.queue[0]
            if length + len(raw) > room:
                break
            view[length : length + len(raw)] = raw
            length += (len(raw) + 7) & ~7
            received += 1
            self.queue.popleft()
        left = len(self.queue[0]) if self.queue else 0
        transfer._RECEIVED.pack_into(argument, transfer._RECEIVED_AT, received, length, len(self.queue), left)


REAL_MEMORY = transfer.memory


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Kernel, Ksock]]]:
    """Makes a Ksock whose queue has messages of these names."""
    opened: list[Ksock] = []

    def make(*names: str) -> tuple[Kernel, Ksock]:
        one = Kernel(*names)
        monkeypatch.setattr(DeviceFile, "ioctl", one)
        monkeypatch.setattr(transfer, "memory", one.memory)
        monkeypatch.setattr(Ksock, "name", os.devnull)
        opened.append(Ksock())
        return one, opened[-1]

    yield make
    for each in opened:
        each.close()


class Interrupting:
    """Raises HandlerError at each of these places of the package, counted from 1.

    They are where a handler may run from Python 3.11 on: where a function begins, after a call, and where a
    loop goes back. But not between two functions of which the outer one returns what the inner one has
    returned. It does ``handle`` first, which is not interrupted.
    """

    def __init__(self, *at: int, handle: Callable[[], None] = lambda: None) -> None:
        self.at = set(at)
        self.reached = 0
        self.raised = 0
        self._handle = handle
        self._before: dict[FrameType, str] = {}

    def __enter__(self) -> Interrupting:
        self._replaced = sys.gettrace(), sys.getprofile()
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._replaced[1])
        sys.settrace(self._replaced[0])
        self._before.clear()

    def _begin(self) -> None:
        sys.setprofile(self._profile)
        sys.settrace(self._trace)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if sys.gettrace() is None:
            # The exception has ended tracing, and so the first place after it may be here.
            sys.settrace(self._trace)
            if event == "call" and _is_ours(frame):
                frame.f_trace, frame.f_trace_opcodes = self._trace, True
                self._reach()

    def _trace(self, frame: FrameType, event: str, _: object) -> Optional[Callable[..., Any]]:
        if not _is_ours(frame):
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            self._reach()
        elif event == "opcode":
            opcode = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            before, self._before[frame] = self._before.get(frame, ""), opcode
            if before.startswith(("CALL", "JUMP_BACKWARD")) and opcode not in NO_PLACES:
                self._reach()
        return self._trace

    def _reach(self) -> None:
        self.reached += 1
        if self.reached in self.at:
            self._handle()
            self._begin()
            self.raised += 1
            raise HandlerError


def _is_ours(frame: FrameType) -> bool:
    # What __del__ raises is told, and goes no further.
    return frame.f_code.co_name != "__del__" and frame.f_code.co_filename.startswith(PACKAGE)


def everything(one: Ksock) -> list[str]:
    """The names of all that can be read."""
    return [each.name for each in one]


CALLS: dict[str, Callable[[Ksock], object]] = {
    "read_next_msg": lambda one: one.read_next_msg(),
    "next": lambda one: one.__next__(),
    "wait_for_msg": lambda one: one.wait_for_msg(1),
    "receive_many": lambda one: one.receive_many(1, 2),
    "receive_bytes": lambda one: one.receive_bytes(),
}


def interrupted(call: Callable[[Ksock], object], one: Ksock, *at: int) -> tuple[list[str], bool]:
    """The names of what a call returns that is interrupted there, and whether it was."""
    got: Any = []
    with Interrupting(*at) as interrupting, suppress(HandlerError):
        got = call(one)
    return names_of(got), interrupting.reached >= min(at)


def read(got: list[object], call: Callable[[Ksock], object], one: Ksock) -> None:
    """Add what a call returns."""
    got.append(call(one))


def names_of(got: Any) -> list[str]:
    """The names of what a call has returned."""
    if isinstance(got, Batch):
        got = [Message.from_bytes(each) for each in got.messages]
    messages = got if isinstance(got, list) else [got] if got is not None else []
    return [each.name for each in messages]


@pytest.mark.axiom("loss")
@pytest.mark.parametrize("aside", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_what_is_received_is_returned_or_read_next(
    kernel: Callable[..., tuple[Kernel, Ksock]], call: str, aside: bool
) -> None:
    names = ["$.A", "$.B", "$.C"]
    for at in count(1):
        for again in (0, 1, 3, 7, 20, 50):
            _, one = kernel(*names)
            if aside:
                # A call puts them aside.
                one.call("$.Ask")
            got, was = interrupted(CALLS[call], one, at, *([at + again] if again else []))
            assert got + everything(one) == names, (at, again)
        if not was:
            break
    assert at > PLACES


@pytest.mark.axiom("loss")
@pytest.mark.parametrize("handling", ["read_next_msg", "receive_bytes"])
@pytest.mark.parametrize("call", CALLS)
def test_a_handler_may_read_before_it_raises(
    kernel: Callable[..., tuple[Kernel, Ksock]], call: str, handling: str
) -> None:
    """Each message comes once, to the handler, to the call or after it."""
    names = ["$.A", "$.B", "$.C"]
    for at in count(1):
        _, one = kernel(*names)
        got: list[object] = []
        interrupting = Interrupting(at, handle=partial(read, got, CALLS[handling], one))
        with interrupting, suppress(HandlerError, StopIteration):
            read(got, CALLS[call], one)
        names_got = [name for each in got for name in names_of(each)]
        assert sorted(names_got + everything(one)) == names, at
        if interrupting.reached < at:
            break
    assert at > PLACES


@pytest.mark.rule(28)
@pytest.mark.axiom("loss")
@pytest.mark.parametrize("before", [0, 2])
def test_a_call_leaves_no_answer_behind(kernel: Callable[..., tuple[Kernel, Ksock]], before: int) -> None:
    names = ["$.A", "$.B"][:before]
    for at in count(1):
        for again in (0, 1, 3, 7, 20, 50):
            _, asker = kernel(*names)
            got, was = interrupted(
                lambda asker: asker.call("$.Ask"), asker, at, *([at + again] if again else [])
            )
            assert got in ([], ["$.Answer"])
            assert everything(asker) == names, (at, again)
        if not was:
            break
    assert at > PLACES
