# SPDX-License-Identifier: MIT
"""KBUS: lightweight messaging through the Linux kernel.

::

    from kbus import Announcement, Ksock

    with Ksock() as sender, Ksock() as listener:
        listener.bind("$.Sensors.*")
        sender.send_msg(Announcement("$.Sensors.Kitchen", "21.5"))
        print(listener.wait_for_msg(timeout=1))
"""

from .bindings import read_bindings
from .errors import ReplierError, SendManyError, StatusError, StopServing
from .events import split_replier_bind_event_data
from .ids import MessageId, OrigFrom
from .ksock import Ksock
from .messages import (
    Announcement,
    Data,
    Message,
    Reply,
    Request,
    Status,
    reply_to,
    stateful_request,
)
from .service import Service
from .settings import PeerInfo
from .transfer import Batch

__all__ = [
    "Announcement",
    "Batch",
    "Data",
    "Ksock",
    "Message",
    "MessageId",
    "OrigFrom",
    "PeerInfo",
    "ReplierError",
    "Reply",
    "Request",
    "SendManyError",
    "Service",
    "Status",
    "StatusError",
    "StopServing",
    "read_bindings",
    "reply_to",
    "split_replier_bind_event_data",
    "stateful_request",
]
