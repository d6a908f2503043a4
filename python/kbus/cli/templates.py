# SPDX-License-Identifier: MIT
"""A line for each message, as ``kbus listen --format`` asks for it.

In the template, ``%`` and a letter stand for a part of the message: ``%t`` when it was sent, as ``-t`` says,
``%n`` its name, ``%d`` its data, ``%i`` its id, ``%f`` the KSock that sent it, ``%k`` the letter of its kind,
``%l`` the length of its data; ``%%`` is a percent sign. Data are text if all of it is printable, else pairs
of hex digits.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from .. import Message
from .lines import letter_of, shown_data

__all__ = ["DATA", "filled", "template"]

#: what ``--data`` is short for
DATA = "%d"

_PARTS: dict[str, Callable[[Message, str, bool], str]] = {
    "t": lambda message, when, always_hex: when,
    "n": lambda message, when, always_hex: message.name,
    "d": lambda message, when, always_hex: shown_data(message.data or b"", always_hex),
    "i": lambda message, when, always_hex: str(message.id),
    "f": lambda message, when, always_hex: str(message.from_),
    "k": lambda message, when, always_hex: letter_of(message),
    "l": lambda message, when, always_hex: str(len(message.data or b"")),
    "%": lambda message, when, always_hex: "%",
}
_PART = re.compile("%(.?)", re.DOTALL)


def template(text: str) -> str:
    """A template, for argparse."""
    for part in _PART.findall(text):
        if part not in _PARTS:
            known = " ".join(f"%{each}" for each in _PARTS)
            what = f"there is no %{part}, but" if part else "a % ends it, which is %%; there are"
            raise argparse.ArgumentTypeError(f"{what} {known}")
    return text


def filled(text: str, message: Message, when: str, always_hex: bool = False) -> str:
    """The template with the parts of a message."""
    return _PART.sub(lambda found: _PARTS[found[1]](message, when, always_hex), text)
