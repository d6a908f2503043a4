# SPDX-License-Identifier: MIT
"""The patterns that take most time with keys that they do not match, within the default limits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from kbus.sbus.limits import DEEPEST_WILDCARD, SEARCH_COST, BridgeLimits


class Worst(NamedTuple):
    """Patterns, and how the keys begin with which they take most time."""

    patterns: list[bytes]
    key: bytes


def _both_ways(depth: int, end: bytes) -> Iterator[bytes]:
    """All that can be written with ``a`` and ``*``: a search in a tree goes both ways at each level."""
    return (b"/".join((*segments, end)) for segments in itertools.product((b"a", b"*"), repeat=depth))


def _one_star(depth: int) -> Iterator[bytes]:
    """As long as patterns can be, with one ``*``, anywhere."""
    return (b"a/" * place + b"*/" + b"a/" * (depth - place) + b"z" for place in range(depth))


_most = BridgeLimits().wildcards
_searches = _most // (2 * SEARCH_COST + 1)
WORST = {
    "both ways": Worst(list(_both_ways(10, b"z")), b"a/" * 10),
    "as many as there can be": Worst([b"*/z%d" % n for n in range(_most // 2)], b"a/"),
    "as long as they can be": Worst(list(_one_star(DEEPEST_WILDCARD - 2)), b"a/" * (DEEPEST_WILDCARD - 1)),
    "beside other bytes": Worst([b"*x%d*" % n for n in range(_searches)], b"aaa"),
}
