# SPDX-License-Identifier: MIT
"""An open KSock of the model, and the calls on it that can wait."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Optional

from .. import _abi as abi
from .._stand_in import TransferAsked, TransferResult
from .core import WAITS, BusClosed, Call, Core, Step
from .model import transfer
from .model.ksock import ModelKsock
from .model.parts import Owner
from .ready import Ready

#: ``has_gone``, if there is one, returns whether the client for which this thread makes calls has gone.
caller = threading.local()


class Handle:
    """What an open file is to the kernel. Each call that can wait is given ``nonblocking``.

    Calls raise OSError with EBADF once it is closed, also those that wait then.
    """

    def __init__(self, core: Core, number: int, mode: str, owner: Owner) -> None:
        self._core = core
        self._ksock: ModelKsock = core.at_once(lambda: self._open(number, mode, owner))

    def _open(self, number: int, mode: str, owner: Owner) -> ModelKsock:
        if not 0 <= number < len(self._core.devices):
            raise OSError(errno.ENOENT, "no such device")
        # First, since there may be no descriptors for it.
        self.ready = Ready()
        try:
            ksock = self._core.devices[number].open(mode, owner)
        except BaseException:
            self.ready.close()
            raise
        self._core.ready[ksock] = self.ready
        return ksock

    def close(self) -> None:
        """Close it. With the bus, all have been closed."""
        with suppress(BusClosed):
            self._core.at_once(self._close)

    def _close(self) -> None:
        if self._core.ready.pop(self._ksock, None):
            self._ksock.close()
            self.ready.close()

    def do(self, method: str, *arguments: Any) -> Any:
        """Call a method of the model's KSock, which does not wait."""
        return self._call(lambda is_over: getattr(self._ksock, method)(*arguments))

    def new_device(self) -> int:
        """NEWDEVICE."""
        return int(self._call(lambda is_over: self._core.new_device()))

    def send(self, nonblocking: bool) -> tuple[int, int]:
        """SEND."""

        def step(is_over: bool) -> Any:
            try:
                return self._ksock.send()
            except OSError as error:
                if error.errno == errno.EAGAIN and not is_over:
                    return WAITS
                raise

        sent: tuple[int, int] = self._call(step, _deadline(nonblocking), self._ksock)
        return sent

    def transfer(self, asked: TransferAsked, nonblocking: bool, delivered: Any = None) -> TransferResult:
        """TRANSFER. ``delivered`` is called with what has come of it, before each step is over."""
        going = _Transfer(self._ksock, asked)

        def step(is_over: bool) -> Any:
            is_done, found = going.step(is_over)
            # Also while it waits: a caller that is interrupted then sees how far it has come.
            if delivered:
                delivered(found)
            return found if is_done else WAITS

        when = abi.TRANSFER_NOW if nonblocking else asked.deadline
        outcome: TransferResult = self._call(step, when, self._ksock)
        return outcome

    def _call(self, step: Step, deadline: int = abi.TRANSFER_NOW, sender: Optional[ModelKsock] = None) -> Any:
        has_gone: Optional[Callable[[], bool]] = getattr(caller, "has_gone", None)
        has_waited = False

        def checked(is_over: bool) -> Any:
            nonlocal has_waited
            if has_waited and has_gone and has_gone():
                raise OSError(errno.EINTR, "the client has gone")
            has_waited = True
            # A thread or a process may have been about to make the call, or waits in it.
            if self._ksock not in self._core.ready:
                raise OSError(errno.EBADF, "it is closed")
            return step(is_over)

        return self._core.do(Call(checked, deadline, sender))


def _deadline(nonblocking: bool) -> int:
    return abi.TRANSFER_NOW if nonblocking else abi.TRANSFER_NEVER


class _Transfer:
    """How far a TRANSFER has come."""

    def __init__(self, ksock: ModelKsock, asked: TransferAsked) -> None:
        self._ksock = ksock
        self._asked = asked
        #: what has not been sent, and whether the first of it is one that was kept
        self._rest, self._kept = asked.to_send, asked.kept
        self._is_begun = False
        self._ids: list[Any] = []

    def step(self, is_over: bool) -> tuple[bool, TransferResult]:
        """Go on; return whether this is the end, and what has come of it so far."""
        asked = self._asked
        if not self._is_begun:
            transfer.check(self._ksock, self._rest, asked.room, self._kept)
            # From now on, so also for what this sends.
            self._ksock.wants_times |= asked.timed
            self._is_begun = True
        ids, error, kept, left = transfer.send(self._ksock, self._rest, self._kept)
        self._ids += ids
        self._rest, self._kept = self._rest[len(self._rest) - left :], kept
        waits_for_room = bool(kept) and not is_over
        room = 0 if waits_for_room else asked.room
        found = self._ksock.transfer(b"", room, asked.receive_max, 0, asked.timed)
        is_nothing = not (found.packets or error or found.next_len)
        waits = waits_for_room or (is_nothing and bool(room) and not is_over)
        return not waits, found._replace(ids=self._ids, error=error, kept=kept, left=left)
