# SPDX-License-Identifier: MIT
"""What a client has asked the daemon, which answers in order, and answers that come too late."""

from __future__ import annotations

from collections import Counter


class Asked:
    """How many answers are to come, by the key that asks and answers.

    Whoever asked last waits; what is answered before that was asked by somebody who has given up.
    """

    def __init__(self) -> None:
        self._due: Counter[bytes] = Counter()

    def ask(self, key: bytes) -> None:
        """One more answer is to come."""
        self._due[key] += 1

    def is_late(self, key: bytes) -> bool:
        """An answer has come; return whether it is not the last one that is to come."""
        if self._due[key]:
            self._due[key] -= 1
        return self._due[key] > 0

    def is_due(self, key: bytes) -> bool:
        """Return whether an answer is to come."""
        return self._due[key] > 0

    def forget(self, key: bytes) -> None:
        """Nothing of this is answered."""
        del self._due[key]
