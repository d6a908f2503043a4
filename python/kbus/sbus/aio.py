# SPDX-License-Identifier: MIT
"""A client of an sbus daemon for asyncio.

::

    async with AsyncClient() as client:
        await client.subscribe("Sensors/")
        async for message in client:
            print(message.key, message.payload)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Optional

from . import address, packets, secret
from .client import Client, Received, Text


class AsyncClient:
    """What ``Client`` is, with methods to be awaited. Make it inside a running loop.

    Iterating gives messages as they come, and ends when the daemon closes the connection.

    Synchronization: for the tasks of one loop. Several may send; one at a time may receive.
    """

    def __init__(self, at: str = address.DEFAULT, protocol: str = "slash") -> None:
        self._client = Client(at, protocol)
        self._loop = asyncio.get_running_loop()
        self._client.set_blocking(False)
        # A loop wakes only one of those that wait to write to a socket.
        self._sending = asyncio.Lock()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave. Can be repeated. No task may be waiting for it."""
        self._client.close()

    async def subscribe(self, pattern: Text) -> None:
        """Receive messages whose keys match a pattern from now on."""
        await self._send(packets.SUB, pattern)

    async def unsubscribe(self, pattern: Text) -> None:
        """Take back one ``subscribe`` with the same pattern."""
        await self._send(packets.UNSUB, pattern)

    async def publish(self, key: Text, payload: Text = b"") -> None:
        """Send a message to all subscribers of its key, as soon as the daemon has room."""
        await self._send(packets.MSG, key, payload)

    async def control(self, key: Text, payload: Text = b"") -> None:
        """Send a control message to the daemon."""
        await self._send(packets.CMSG, key, payload)

    async def whoami(self) -> bytes:
        """Return this client's credentials as the beginning of a key; what comes before is queued.

        If it is cancelled, the client is closed: the answer could come all the same.
        """
        with self._client.closed_at(asyncio.CancelledError):
            await self.control(secret.WHOAMI)
            return (await self._expect(secret.WHOAMI)).payload

    async def dropped(self) -> Optional[dict[str, int]]:
        """Return what ``Client.dropped`` does, as ``whoami`` does it."""
        with self._client.closed_at(asyncio.CancelledError):
            await self.control(packets.DROPPED)
            await self.control(secret.WHOAMI)
            answer = await self._expect(packets.DROPPED, secret.WHOAMI)
            if answer.key == secret.WHOAMI:
                return None
            await self._expect(secret.WHOAMI)
            dropped: dict[str, int] = json.loads(answer.payload)
            return dropped

    async def _expect(self, *keys: bytes) -> Received:
        while True:
            with suppress(TimeoutError):
                return self._client.expect_control(keys, 0)
            await self._until(self._loop.add_reader, self._loop.remove_reader)

    async def receive(self) -> Received:
        """Return the next message. Raises ConnectionError when the daemon has closed the connection."""
        while (message := self._client.receive(0)) is None:
            await self._until(self._loop.add_reader, self._loop.remove_reader)
        return message

    def __aiter__(self) -> AsyncClient:
        return self

    async def __anext__(self) -> Received:
        try:
            return await self.receive()
        except ConnectionError:
            raise StopAsyncIteration from None

    async def _send(self, kind: bytes, key: Text, payload: Text = b"") -> None:
        async with self._sending:
            while True:
                with suppress(BlockingIOError):
                    self._client.send(kind, key, payload)
                    return
                await self._until(self._loop.add_writer, self._loop.remove_writer)

    async def _until(self, add: Callable[..., Any], remove: Callable[..., Any]) -> None:
        """Wait until the socket is ready."""
        ready = self._loop.create_future()
        add(self._client, _complete, ready)
        try:
            await ready
        finally:
            remove(self._client)


def _complete(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
