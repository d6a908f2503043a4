# SPDX-License-Identifier: MIT
"""Data as text: UTF-8."""

from __future__ import annotations

from .messages import Message


def encode(value: str) -> bytes:
    """Return the data for a text."""
    return value.encode()


def decode(message: Message) -> str:
    """Return the data of a message as text. Raises ValueError if it is not UTF-8."""
    return (message.data or b"").decode()
