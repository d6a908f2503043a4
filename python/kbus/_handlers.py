# SPDX-License-Identifier: MIT
"""Which handler gets which message in a service: by name, as the bus itself chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Optional, TypeVar

from ._transfer import seconds_to_wait
from .errors import ReplierError
from .messages import Message
from .names import check, matches, specificity

_H = TypeVar("_H")


class Handling(Generic[_H]):
    """A handler, and how many seconds it may take."""

    def __init__(self, handler: _H, time_limit: Optional[float]) -> None:
        self.handler = handler
        self.time_limit = time_limit

    def too_late(self) -> ReplierError:
        """Return the error that the requester gets when they are over."""
        return ReplierError("TimeLimit", f"no answer within {self.time_limit:g} seconds")


class Handlers(Generic[_H]):
    """The handlers of a service, whose names begin with ``prefix`` unless they begin with ``$.``."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.repliers: dict[str, Handling[_H]] = {}
        self.listeners: dict[str, Handling[_H]] = {}

    def replier(self, name: str, time_limit: Optional[float] = None) -> Callable[[_H], _H]:
        """Return a decorator that makes a function the replier for a name; it has ``time_limit`` seconds.

        Raises ValueError for NaN, and for a name that is illegal or has a handler.
        """
        return self._adder(self.repliers, name, time_limit)

    def listener(self, name: str) -> Callable[[_H], _H]:
        """Return a decorator that makes a function a listener to a name."""
        return self._adder(self.listeners, name, None)

    def _adder(
        self, table: dict[str, Handling[_H]], name: str, time_limit: Optional[float]
    ) -> Callable[[_H], _H]:
        whole = name if name.startswith("$.") else f"{self._prefix}.{name}"
        check(whole)
        if whole in table:
            raise ValueError(f"{whole} has a handler already")
        limit = None if time_limit is None else seconds_to_wait(time_limit)

        def add(handler: _H) -> _H:
            table[whole] = Handling(handler, limit)
            return handler

        return add

    def bindings(self) -> list[tuple[str, bool]]:
        """Return the names to bind, each with whether as a replier, in the order in which that is done."""
        return [*((name, False) for name in self.listeners), *((name, True) for name in self.repliers)]

    def replier_for(self, message: Message) -> Optional[Handling[_H]]:
        """Return the handler that answers a Request: the most specific of those that match its name."""
        if not message.wants_us_to_reply():
            return None
        found = [name for name in self.repliers if matches(name, message.name)]
        return self.repliers[max(found, key=specificity)] if found else None

    def listeners_for(self, message: Message) -> list[Handling[_H]]:
        """Return all listeners to a message, the most specific first."""
        found = [name for name in self.listeners if matches(name, message.name)]
        return [self.listeners[name] for name in sorted(found, key=specificity, reverse=True)]

    def wants(self, message: Message) -> bool:
        """Return whether a message is for one of these.

        So is a Request for one of the names that is not to be answered because it has been abandoned.
        """
        if message.is_request() and any(matches(name, message.name) for name in self.repliers):
            return True
        return any(matches(name, message.name) for name in self.listeners)
