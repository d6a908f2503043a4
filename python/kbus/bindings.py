# SPDX-License-Identifier: MIT
"""The bindings of all devices, with names for the KSocks that the caller knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union


def read_bindings(names: Mapping[int, str]) -> list[tuple[Union[str, int], bool, str]]:
    """Return ``(who, is_replier, name)`` for each binding, in the order of ``/proc/kbus/bindings``.

    ``names`` says what to call a KSock id, for instance ``{ksock.ksock_id(): "me"}``; ``who`` is
    that, or the id itself if it is not in ``names``. ``name`` is the message name. With more than one
    device, ``kbus.inspect.bindings`` says which it is.

    Raises FileNotFoundError if the module is not loaded, PermissionError if this user may not look at
    ``/proc/kbus``. Source: semantics, rule 35.
    """
    # Imported late: it takes a quarter of the time that the package takes, and few programs need it.
    from . import inspect

    return [
        (names.get(binding.ksock_id, binding.ksock_id), binding.is_replier, binding.name)
        for binding in inspect.bindings()
    ]
