# SPDX-License-Identifier: MIT
"""What a ``$.KBUS.ReplierBindEvent`` tells."""

from __future__ import annotations

from typing import Optional

from . import abi


def split_replier_bind_event_data(data: Optional[bytes]) -> tuple[bool, int, str]:
    """Return ``(is_bind, binder, name)`` from the data of a ``$.KBUS.ReplierBindEvent``.

    ``is_bind`` is False for an unbind, ``binder`` the KSock id of the replier, ``name`` what it
    bound. Raises ValueError for data of another form. Source: semantics, rule 32.
    """
    data = data or b""
    if len(data) < abi.BIND_EVENT.size:
        raise ValueError(f"not a replier bind event: {len(data)} bytes of data")
    is_bind, binder, name_len = abi.BIND_EVENT.unpack_from(data)
    name = data[abi.BIND_EVENT.size :]
    if len(name) != abi.padded(name_len):
        raise ValueError(f"not a replier bind event: {len(name)} bytes for a name of {name_len}")
    return bool(is_bind), binder, name[:name_len].decode()
