# SPDX-License-Identifier: MIT
"""Requests without an answer, and what becomes of them without one: rules 10, 27 and 28."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from ... import _abi as abi
from .delivery import give_status, report_lost
from .parts import Copy, PendingRequest
from .wire import MsgId

if TYPE_CHECKING:
    from .bus import Device
    from .ksock import ModelKsock


def owed_by(replier: ModelKsock) -> list[PendingRequest]:
    """The Requests that this KSock must answer, read or not, in the order in which they were sent."""
    return [request for request in replier.device.requests if request.replier is replier]


def answer_removed(device: Device, removed: list[Copy]) -> None:
    """Rule 10: a status for each Request that an unbind took out unread, in the Requests' order."""
    unread = [copy.request for copy in removed]
    for request in [request for request in device.requests if request in unread]:
        give_status(device, request, abi.NAME_REPLIER_UNBOUND)


def answer_for_closing(replier: ModelKsock) -> None:
    """Rule 27: the statuses that a close causes; the closing KSock itself gets none."""
    device = replier.device
    for request in owed_by(replier):
        give_status(
            device, request, abi.NAME_REPLIER_IGNORED if request.popped else abi.NAME_REPLIER_GONEAWAY
        )


def forget(sender: ModelKsock) -> None:
    """Rule 16: drop the Requests of a KSock that closes."""
    device = sender.device
    device.requests[:] = [request for request in device.requests if request.sender is not sender]


def abandon(sender: ModelKsock, number: MsgId) -> None:
    """Rule 28: give up the oldest Request with this id."""
    for request in sender.device.requests:
        if request.sender is sender and request.id == number:
            request.abandoned = True
            sender.device.requests.remove(request)
            report_lost(sender)
            return
    raise OSError(errno.ENOENT, "decisions: no such Request")
