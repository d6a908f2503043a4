# SPDX-License-Identifier: MIT
"""The client for asyncio, with a socket in place of the daemon."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from kbus.sbus.aio import AsyncClient

COUNT = 500


def test_several_tasks_send_while_there_is_no_room(tmp_path: Path) -> None:
    """All of them wait, none for ever."""

    async def publish(client: AsyncClient, key: str) -> None:
        for _ in range(COUNT):
            await client.publish(key, b"x" * 1000)

    async def talk(listening: socket.socket) -> list[bytes]:
        loop = asyncio.get_running_loop()
        async with AsyncClient(listening.getsockname()) as client:
            connected, _ = listening.accept()
            with connected:
                connected.setblocking(False)
                sending = [asyncio.ensure_future(publish(client, key)) for key in "ab"]
                # Until both have met a full socket.
                await asyncio.sleep(0.1)
                came = [await loop.sock_recv(connected, 5) for _ in range(2 * COUNT)]
                await asyncio.gather(*sending)
                return came

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(tmp_path / "sbus"))
        listening.listen()
        came = asyncio.run(asyncio.wait_for(talk(listening), 60))
    assert (came.count(b"MSG a"), came.count(b"MSG b")) == (COUNT, COUNT)
