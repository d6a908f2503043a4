# SPDX-License-Identifier: MIT
"""A signal handler that receives with the Ksock shares its messages with the call that it interrupts.

In place of the kernel is a queue; each call is interrupted at each of the places in the package where a
handler may run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any
from unittest import mock

import pytest

from kbus import Ksock, Message
from kbus import _abi as abi
from kbus import _transfer as transfer
from kbus._device import DeviceFile
from tests.python.test_interrupted import (
    CALLS,
    PLACES,
    HandlerError,
    Interrupting,
    Kernel,
    everything,
    kernel,
    names_of,
)

__all__ = ["kernel"]

Make = Callable[..., tuple[Kernel, Ksock]]


class Handling(Interrupting):
    """Does something at one of the places of the package, counted from 1, as a handler does."""

    def __init__(self, at: int, handle: Callable[[], object]) -> None:
        super().__init__(at)
        self._do = handle

    def _reach(self) -> None:
        self.reached += 1
        if self.reached in self.at:
            self.raised += 1
            self._do()


@pytest.mark.axiom("loss")
@pytest.mark.parametrize("aside", [False, True])
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("call", CALLS)
def test_each_message_comes_once(kernel: Make, call: str, most: int, aside: bool) -> None:
    """To the handler, to the call or after it."""
    names = ["$.A", "$.B", "$.C"]
    for at in count(1):
        _, one = kernel(*names)
        if aside:
            one._take_all_aside()
        got: list[Message] = []
        handling = Handling(at, lambda: got.extend(one.receive_many(0, most)))  # noqa: B023
        with handling:
            returned = CALLS[call](one)
        if not handling.raised:
            break
        assert sorted(names_of(got) + names_of(returned) + everything(one)) == names, at
    assert at > PLACES


WAITS: dict[str, Callable[[Ksock], object]] = {
    "call": lambda one: one.call("$.Ask"),
    "serve": lambda one: one.serve("$.Asked", lambda request: b""),
}


@pytest.mark.axiom("loss")
@pytest.mark.parametrize("call", WAITS)
def test_what_a_handler_reads_is_not_put_back(
    kernel: Make, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The call has put it aside, and waits, when the handler takes it; then another handler raises."""
    queue, one = kernel("$.A")
    got: list[Message] = []

    def ioctl(file: object, request: int, argument: Any = 0) -> int:
        if request == abi.IOC_TRANSFER and not queue.queue:
            monkeypatch.setattr(DeviceFile, "ioctl", queue)
            got.extend(one.receive_many(0))
            raise HandlerError
        done = queue(file, request, argument)
        if request == abi.IOC_TRANSFER and transfer.INPUT.unpack_from(argument, 0)[0]:
            # It is not answered.
            queue.queue.pop()
        return done

    monkeypatch.setattr(DeviceFile, "ioctl", staticmethod(ioctl))
    with pytest.raises(HandlerError):
        WAITS[call](one)
    assert names_of(got) == ["$.A"]
    assert everything(one) == []


@pytest.mark.long("measures time")
@pytest.mark.parametrize("what", ["abandon", "take_many"])
def test_what_is_put_back_costs_as_much_as_it_is(kernel: Make, what: str) -> None:
    """After an exception ten times as many messages take about ten times as long."""

    def cost(number: int) -> float:
        _, one = kernel(*["$.A"] * number)
        begin = time.process_time()
        if what == "abandon":
            with (
                mock.patch.object(one._inbox, "answer", side_effect=HandlerError),
                pytest.raises(HandlerError),
            ):
                one.call("$.Main")
        else:
            one._take_all_aside()
            begin = time.process_time()
            taken: transfer.Taken = []
            one._inbox.take_many(0, 0, taken)
            one._undone.append((taken, None))
        took = time.process_time() - begin
        assert everything(one) == ["$.A"] * number
        return took

    few, many = (min(cost(number) for _ in range(3)) for number in (1000, 10_000))
    assert many < 20 * few
