# SPDX-License-Identifier: MIT
"""KBUS: lightweight messaging through the Linux kernel.

::

    from kbus import Announcement, Ksock

    with Ksock() as sender, Ksock() as listener:
        listener.bind("$.Sensors.*")
        sender.send_msg(Announcement("$.Sensors.Kitchen", "21.5"))
        print(listener.wait_for_msg(timeout=1))
"""

from ._ids import MessageId, OrigFrom
from ._settings import PeerInfo
from ._transfer import Batch
from .bindings import read_bindings
from .errors import ReplierError, SendManyError, StatusError, StopServing
from .ksock import Ksock
from .messages import (
    Announcement,
    Data,
    Message,
    Reply,
    Request,
    Status,
    reply_to,
    split_replier_bind_event_data,
    stateful_request,
)
from .service import Service

__version__ = "0.1.0"

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
