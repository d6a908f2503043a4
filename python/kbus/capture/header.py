# SPDX-License-Identifier: MIT
"""What a recorder says in the comment of a section's header: a JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Optional

#: How many messages each device had lost before
LOST_BEFORE = "lost_before"
#: How many names ``bindings`` lacks, because a comment has no room for all of them
LEFT_OUT = "bindings_left_out"

_LONGEST = 0xFFFF
_ALL = "$.*"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _is_list_of(is_one: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(is_one, value))


def _is_either(*kinds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: any(is_one(value) for is_one in kinds)


def _is_null(value: object) -> bool:
    return value is None


#: The keys that mean something, what their values must be, and the name of that
_KEYS: dict[str, tuple[Callable[[object], bool], str]] = {
    "device": (_is_text, "a string"),
    "boot_id": (_is_either(_is_text, _is_null), "a string or null"),
    "load_id": (_is_either(_is_number, _is_text, _is_null), "a number from 0, a string or null"),
    "bus": (_is_either(_is_number, _is_list_of(_is_number)), "a number from 0 or a list of them"),
    "recorder": (_is_text, "a string"),
    "bindings": (_is_list_of(_is_text), "a list of strings"),
    LEFT_OUT: (_is_number, "a number from 0"),
    LOST_BEFORE: (_is_list_of(_is_number), "a list of numbers from 0"),
}


def comment_of(info: Mapping[str, Any]) -> str:
    """Return the comment that says ``info``; if it would be too long, with the ``bindings`` that fit.

    Then ``bindings_left_out`` counts the others. ``$.*`` stays, as nothing else matters beside it.
    """
    text = _dump(info)
    if len(text) <= _LONGEST:
        return text
    names = sorted(info.get("bindings", []), key=_ALL.__ne__)
    room = _LONGEST - len(_dump({**info, "bindings": [], LEFT_OUT: len(names)}))
    count = 0
    for name in names:
        room -= len(_dump(name)) + len(",")
        if room < 0:
            break
        count += 1
    return _dump({**info, "bindings": names[:count], LEFT_OUT: len(names) - count})


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def info_in(comment: bytes) -> Optional[dict[str, Any]]:
    """Return what a recorder says in a comment, or None if the comment is of another tool.

    Of the keys only those are there that mean something. Raises ValueError if one of them has a value of
    another kind.
    """
    try:
        said = json.loads(comment)
    except RecursionError:
        raise ValueError("a section header whose comment is nested too deeply") from None
    except ValueError:
        return None
    if not isinstance(said, dict) or "recorder" not in said:
        return None
    info = {key: said[key] for key in _KEYS if key in said}
    for key, value in info.items():
        is_right, kind = _KEYS[key]
        if not is_right(value):
            raise ValueError(f"a section header whose {key} is not {kind}")
    return {key: _encodable(value) for key, value in info.items()}


def _encodable(value: Any) -> Any:
    """Return the value with escapes in place of what JSON can say and UTF-8 can not, lone surrogates."""
    if isinstance(value, list):
        return [_encodable(each) for each in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
