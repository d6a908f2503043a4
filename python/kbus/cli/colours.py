# SPDX-License-Identifier: MIT
"""Colours for lines on a terminal that wants them."""

from __future__ import annotations

import os
import sys

from .. import Message
from ..failed import is_failed
from .lines import letter_of

__all__ = ["are_wanted", "of_message"]

_CYAN, _GREEN, _RED = "36", "32", "31"
_OF_LETTERS = {"A": "", "Q": _CYAN, "R": _GREEN, "S": _RED}
_BOLD = "1"


def are_wanted() -> bool:
    """Return whether stdout is a terminal with colours, and its user has nothing against them.

    Source: https://no-color.org, by which NO_COLOR counts unless it is empty.
    """
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") not in ("", "dumb")
    )


def of_message(message: Message) -> str:
    """Return the parameters of SGR that a message's line has on a terminal; "" if it has none."""
    colour = _RED if is_failed(message) else _OF_LETTERS[letter_of(message)]
    return ";".join(filter(None, (_BOLD if message.is_urgent() else "", colour)))
