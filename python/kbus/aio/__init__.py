# SPDX-License-Identifier: MIT
"""KBUS for asyncio.

::

    from kbus import Announcement
    from kbus.aio import AsyncKsock

    async with AsyncKsock() as ksock:
        ksock.bind("$.Sensors.*")
        await ksock.send_msg(Announcement("$.Sensors.Kitchen", "21.5"))
        async for message in ksock:
            print(message)
"""

from .ksock import AsyncKsock
from .service import Handler, Service

__all__ = ["AsyncKsock", "Handler", "Service"]
