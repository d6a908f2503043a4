# SPDX-License-Identifier: MIT
"""Bindings as a tree of the words of their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from ..inspect import Binding

__all__ = ["tree"]

#: what is below a word: words, each with what is below it
_Node = dict[str, "_Node"]
_LAST, _OTHER = ("└── ", "    "), ("├── ", "│   ")


def tree(found: Iterable[Binding], command_of: Callable[[int], str]) -> list[str]:
    """The lines of a tree for each device, the words in their order; ``command_of`` names a process.

    Behind a word are the KSocks bound to the name that ends there, repliers first, and how often if not once.
    """
    by_device: dict[int, list[Binding]] = {}
    for binding in found:
        by_device.setdefault(binding.device, []).append(binding)
    lines = []
    for device, bindings in sorted(by_device.items()):
        lines.append(f"kbus{device}")
        lines += _below("", _words(bindings), "", _bound(bindings, command_of))
    return lines


def _words(bindings: Iterable[Binding]) -> _Node:
    top: _Node = {}
    for binding in bindings:
        node = top
        for word in binding.name.split("."):
            node = node.setdefault(word, {})
    return top


def _bound(bindings: Iterable[Binding], command_of: Callable[[int], str]) -> dict[str, str]:
    """The KSocks that are bound to each name."""
    who: dict[str, list[str]] = {}
    key = lambda item: (item[0].name, not item[0].is_replier, item[0].ksock_id)  # noqa: E731
    for binding, count in sorted(Counter(bindings).items(), key=key):
        kind = "replier" if binding.is_replier else "listener"
        often = f" x{count}" if count > 1 else ""
        who.setdefault(binding.name, []).append(
            f"{kind} {binding.ksock_id} ({binding.pid} {command_of(binding.pid)}){often}"
        )
    return {name: ", ".join(each) for name, each in who.items()}


def _below(prefix: str, node: _Node, name: str, bound: dict[str, str]) -> list[str]:
    lines = []
    for index, (word, below) in enumerate(sorted(node.items()), 1):
        branch, further = _LAST if index == len(node) else _OTHER
        whole = f"{name}.{word}" if name else word
        lines.append(f"{prefix}{branch}{word}  {bound.get(whole, '')}".rstrip())
        lines += _below(prefix + further, below, whole, bound)
    return lines
