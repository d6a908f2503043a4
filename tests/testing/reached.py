# SPDX-License-Identifier: MIT
"""A bus of another process, or of this one by a socket, in the place of the module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kbus import _device as device
from kbus._test_bus import RemoteBus
from kbus.testing.server import serving


@contextmanager
def reached(path: str) -> Iterator[None]:
    """In the block, the bus whose socket has this path is the one of this process."""
    device.stand_ins.append(RemoteBus(path))
    try:
        yield
    finally:
        device.stand_ins.pop()


@contextmanager
def served(devices: int = 1) -> Iterator[str]:
    """In the block there is a bus at a socket, whose path is given, and it is the one of this process."""
    with serving(devices) as path, reached(path):
        yield path
