# SPDX-License-Identifier: MIT
"""Data as JSON."""

from __future__ import annotations

import json
from typing import Any

from .messages import Message


def encode(value: Any) -> bytes:
    """Return the data for a value. Raises TypeError or ValueError if JSON cannot represent it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def decode(message: Message) -> Any:
    """Return the value in the data of a message. Raises ValueError if that is not JSON."""
    return json.loads(message.data or b"")
