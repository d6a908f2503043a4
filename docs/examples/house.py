# SPDX-License-Identifier: MIT
"""A house in one event loop: a replier, a listener, and requests that wait at the same time."""

import asyncio

from kbus import Announcement, Data, Message
from kbus.aio import AsyncKsock, Service


async def lamp(request: Message) -> Data:
    """Take some time to switch a lamp."""
    await asyncio.sleep(0.1)
    return b"lamp is " + (request.data or b"unchanged")


async def show(listener: AsyncKsock, count: int) -> None:
    """Print the messages that come, and stop after some."""
    async for message in listener:
        print("heard", message.name, message.data)
        count -= 1
        if count == 0:
            return


async def main() -> None:
    """Run the house."""
    async with AsyncKsock() as lamps, AsyncKsock() as panel, AsyncKsock() as listener:
        service = Service(lamps, "$.Lamp")
        service.replier("%")(lamp)
        listener.bind("$.Door.*")
        showing = asyncio.create_task(show(listener, 2))
        async with service.running():
            replies = await asyncio.gather(
                panel.call("$.Lamp.Hall", "on", timeout=5),
                panel.call("$.Lamp.Attic", "off", timeout=5),
            )
        for reply in replies:
            print(reply.name, reply.data)
        await panel.send_msg(Announcement("$.Door.Front", "open"))
        await panel.send_msg(Announcement("$.Door.Front", "shut"))
        await showing


asyncio.run(main())
