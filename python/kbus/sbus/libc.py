# SPDX-License-Identifier: MIT
"""The C library, for calls that Python does not have."""

from __future__ import annotations

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def failure() -> OSError:
    """Return why the last call failed."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
