# SPDX-License-Identifier: MIT
"""What the tests of kbus.aio share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence

from kbus import Message
from tests.effort import DIVISOR
from tests.kernel.helpers import PATIENCE


def run(test: Coroutine[object, object, None]) -> None:
    """Run the coroutine in an event loop, but not for ever; in debug mode where that is not slow."""

    async def in_time() -> None:
        errors: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        await asyncio.wait_for(test, PATIENCE)
        assert errors == []

    asyncio.run(in_time(), debug=DIVISOR == 1)


async def until(condition: Callable[[], bool]) -> None:
    """Let the other tasks work until the condition holds."""
    while not condition():
        await asyncio.sleep(0.002)


def data(message: Message) -> str:
    """The data as text."""
    return (message.data or b"").decode()


async def gathered(tasks: Sequence[asyncio.Future[None]]) -> list[BaseException | None]:
    """Wait for all of them; how each ended."""
    return await asyncio.gather(*tasks, return_exceptions=True)
