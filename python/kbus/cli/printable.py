# SPDX-License-Identifier: MIT
"""Text that others have chosen, for a terminal: names of processes and files, what captures say, errors."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_text", "printable"]


def printable(text: str) -> str:
    r"""Return the text with escapes, such as ``\n`` and ``\u202e``, in place of all that is not printable.

    That is control characters, ends of lines, what changes the direction of writing, blanks other than the
    space, what is for private use or not assigned, and bytes that were no UTF-8. So the text is a part of one
    line, and what is shown is what is there. Backslashes stay: to double them would spoil text that has
    escapes already.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def json_text(value: Any) -> str:
    """Return the value as JSON, in printable ASCII."""
    return json.dumps(value)
