# SPDX-License-Identifier: MIT
"""What a recorder says in the comment of a section's header: a JSON object."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Optional

#: How many messages each device had lost before
LOST_BEFORE = "lost_before"

#: What distinguishes one recording from another
_OF_RECORDING = ("device", "boot_id", "load_id", "bus")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _is_list_of(is_one: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(is_one, value))


#: The keys that mean something, and the kinds that their values may be of
_KEYS: dict[str, tuple[str, list[Callable[[object], bool]]]] = {
    "device": ("a string", [_is_text]),
    "boot_id": ("a string or null", [_is_text, lambda value: value is None]),
    "load_id": ("a number from 0, a string or null", [_is_number, _is_text, lambda value: value is None]),
    "bus": ("a number from 0 or a list of them", [_is_number, _is_list_of(_is_number)]),
    "recorder": ("a string", [_is_text]),
    "bindings": ("a list of strings", [_is_list_of(_is_text)]),
    LOST_BEFORE: ("a list of numbers from 0", [_is_list_of(_is_number)]),
}


def comment_of(info: Mapping[str, Any]) -> str:
    """Return the comment that says ``info``. Raises ValueError if it has more than 65535 bytes."""
    comment = _dump(info)
    if len(comment) > 0xFFFF:
        raise ValueError(f"a section's comment of {len(comment)} bytes, and 65535 is the most")
    return comment


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def recording_of(info: Mapping[str, Any]) -> int:
    """Return the number that packets of this recording have.

    It is the CRC-32 of a JSON list without blanks: the machine, the boot, the load, and the devices.
    """
    return zlib.crc32(_dump([encodable(info.get(key)) for key in _OF_RECORDING]).encode())


def info_in(comment: bytes) -> Optional[dict[str, Any]]:
    """Return what a recorder says in a comment, or None if the comment is of another tool.

    Of the keys only those are there that mean something. Raises ValueError if one of them has a value of
    another kind, or if the comment begins like a recorder's, and is none.
    """
    # A header may have millions of comments, and each would be looked at.
    if not comment.startswith(b"{"):
        return None
    text = comment.decode("utf-8", "surrogateescape")
    try:
        said, end = json.JSONDecoder().raw_decode(text)
        text[:end].encode()
    except RecursionError:
        raise ValueError("a section header whose comment is nested too deeply") from None
    except ValueError:
        raise ValueError("a section header whose comment is no JSON") from None
    if text[end:].strip():
        # mergecap writes behind it.
        return None
    if "recorder" not in said:
        raise ValueError("a section header whose comment lacks the recorder")
    info = {key: said[key] for key in _KEYS if key in said}
    for key, value in info.items():
        name, kinds = _KEYS[key]
        if not any(is_of(value) for is_of in kinds):
            raise ValueError(f"a section header whose {key} is not {name}")
    bus = info.get("bus")
    if isinstance(bus, list) and len(set(bus)) != len(bus):
        raise ValueError("a section header whose bus has a number twice")
    return {key: encodable(value) for key, value in info.items()}


def encodable(value: Any) -> Any:
    """Return the value with escapes in place of what JSON can say and UTF-8 can not, lone surrogates."""
    if isinstance(value, list):
        return [encodable(each) for each in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
