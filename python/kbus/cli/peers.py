# SPDX-License-Identifier: MIT
"""The processes that opened KSocks, as PEERINFO reports them. Source: semantics, rule 36."""

from __future__ import annotations

from typing import NamedTuple, Optional

from .. import Ksock
from .._processes import command_of

__all__ = ["Opener", "Peers"]


#: KSocks that are remembered, before all are looked up again
_MOST = 10_000


class Opener(NamedTuple):
    """The process that opened a KSock: its id in our pid namespace, and the name of its program."""

    pid: int
    command: str


class Peers:
    """Looks up the opener of a KSock of the same device, and remembers it: ids do not come again for long."""

    def __init__(self, ksock: Ksock) -> None:
        self._ksock = ksock
        self._known: dict[int, Optional[Opener]] = {0: None}

    def of(self, ksock_id: int) -> Optional[Opener]:
        """The process, or None for KBUS itself and for a KSock that was closed before this was asked."""
        if ksock_id not in self._known:
            if len(self._known) > _MOST:
                self._known = {0: None}
            self._known[ksock_id] = self._look_up(ksock_id)
        return self._known[ksock_id]

    def _look_up(self, ksock_id: int) -> Optional[Opener]:
        try:
            pid = self._ksock.peer(ksock_id).pid
        except ProcessLookupError:
            return None
        return Opener(pid, command_of(pid))
