# SPDX-License-Identifier: MIT
"""What is bound, with a KBUS like the module: a copy comes by the newest binding that matches."""

from __future__ import annotations

import errno
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbus import names
from kbus.sbus.bindings import NEVER, Bindings


class Kernel:
    """Bindings of one KSock with MSGONLYONCE, and its queue of (number, name, binding that it came by)."""

    def __init__(self, most: int = 10**6) -> None:
        self.most = most
        self.bound: list[str] = []
        self.queue: list[tuple[int, str, str]] = []
        self.sent = 0
        self.read: list[int] = []
        self.calls = 0
        #: sent in the middle of what the bridge does
        self.meanwhile: list[str] = []

    def bind(self, name: bytes) -> None:
        names.check(name.decode())
        self._other_things_happen()
        if len(self.bound) >= self.most:
            raise OSError(errno.ENOSPC, "no binding is left")
        assert name.decode() not in self.bound
        self.bound.append(name.decode())

    def unbind(self, name: bytes) -> None:
        self._other_things_happen()
        self.bound.remove(name.decode())
        self.queue = [each for each in self.queue if each[2] != name.decode()]

    def drain(self) -> None:
        self.read += [number for number, _, _ in self.queue]
        self.queue = []
        self._other_things_happen()

    def send(self, name: str) -> None:
        self.sent += 1
        for binding in reversed(self.bound):
            if names.matches(binding, name):
                self.queue.append((self.sent, name, binding))
                return

    def _other_things_happen(self) -> None:
        self.calls += 1
        for name in self.meanwhile:
            self.send(name)


def bridge(kernel: Kernel, most: int = 1000) -> Bindings:
    return Bindings(kernel.bind, kernel.unbind, kernel.drain, b"$.", most)


PATTERNS = ["$.*", "$.%", "$.a", "$.a.*", "$.a.%", "$.a.b", "$.a.b.*", "$.a.b.c", "$.b", "$.b.%", "$.b.a"]
NAMES = ["$.a", "$.b", "$.a.b", "$.a.c", "$.a.b.c", "$.a.b.d", "$.b.a", "$.c.d.e"]
STEPS = st.lists(st.one_of(st.sampled_from(PATTERNS), st.sampled_from(["tidy", "undo", "read"])), max_size=30)


@settings(max_examples=500)
@given(STEPS, st.sampled_from([2000, 4, 3, 2, 1]))
def test_rule_nothing_is_lost_and_nothing_comes_twice(steps: list[str], most: int) -> None:
    """Whatever is wanted and not, with messages sent between any two calls; and nothing is refused."""
    kernel = Kernel(most)
    bindings = bridge(kernel, most)
    kernel.meanwhile = NAMES
    wanted: list[str] = []
    must_come: set[int] = set()
    for step in steps:
        before, had = kernel.sent, list(wanted)
        if step == "tidy":
            bindings.tidy()
        elif step == "read":
            kernel.drain()
        elif step == "undo":
            if wanted:
                bindings.unwant(wanted.pop().encode())
        else:
            bindings.want(step.encode())
            wanted.append(step)
        for name in NAMES:
            kernel.send(name)
        for number in range(before, kernel.sent):
            # Wanted before and after the step, it must not be missed during it.
            if any(names.matches(each, NAMES[number % len(NAMES)]) for each in had if each in wanted):
                must_come.add(number + 1)
    kernel.meanwhile = []
    kernel.drain()
    counts = Counter(kernel.read)
    assert set(counts.values()) <= {1}
    assert must_come <= set(counts)


@given(st.lists(st.sampled_from(PATTERNS), max_size=12))
def test_rule_what_is_bound_after_tidying(patterns: list[str]) -> None:
    """The widest of what is wanted, each once, and nothing else."""
    kernel = Kernel()
    bindings = bridge(kernel)
    for pattern in patterns:
        bindings.want(pattern.encode())
    bindings.tidy()
    expected = {
        each for each in patterns if not any(other != each and _covers(other, each) for other in patterns)
    }
    assert set(kernel.bound) == expected
    for pattern in patterns:
        bindings.unwant(pattern.encode())
    bindings.tidy()
    assert kernel.bound == []


def _covers(wide: str, narrow: str) -> bool:
    if wide.endswith("*"):
        return narrow.startswith(wide[:-1]) and narrow != wide
    return (
        wide.endswith("%")
        and narrow.startswith(wide[:-1])
        and "." not in narrow[len(wide) - 1 :]
        and narrow[-1] != "*"
    )


def test_coming_and_going_costs_no_calls() -> None:
    kernel = Kernel()
    bindings = bridge(kernel)
    for _ in range(100):
        bindings.want(b"$.a.*")
        bindings.want(b"$.a.b")
        bindings.unwant(b"$.a.b")
        bindings.unwant(b"$.a.*")
    assert kernel.calls == 1
    assert bindings.tidy_at < NEVER


def test_one_that_covers_all_is_bound_in_place_of_too_many() -> None:
    """Until fewer are wanted."""
    kernel = Kernel(200)
    bindings = bridge(kernel, 200)
    for number in range(1000):
        bindings.want(b"$.n%d.*" % number)
    assert len(kernel.bound) == 200
    bindings.tidy()
    assert kernel.bound == ["$.*"]
    for number in range(199, 1000):
        bindings.unwant(b"$.n%d.*" % number)
    bindings.tidy()
    assert sorted(kernel.bound) == sorted(f"$.n{number}.*" for number in range(199))


def test_a_limit_that_was_not_known() -> None:
    """As when other programs of the user have used it up: that is an error, and no more than that."""
    kernel = Kernel(10)
    bindings = bridge(kernel, 4096)
    for number in range(10):
        bindings.want(b"$.n%d" % number)
    with pytest.raises(OSError, match="no binding is left"):
        bindings.want(b"$.more")
    kernel.most = 11
    bindings.want(b"$.more")
    assert set(kernel.bound) == {"$.more", *(f"$.n{number}" for number in range(10))}


def test_rule_long_names_are_not_tidied() -> None:
    """What takes long holds up all clients: a thousand names may have 25 words each, and a few many more."""
    for count, words, is_tidied in ((1000, 24, True), (60, 490, False)):
        kernel = Kernel()
        bindings = bridge(kernel)
        names_ = [b"$." + b".".join([b"x"] * (words - 1) + [b"%d" % number]) for number in range(count)]
        for name in (*names_, b"$.short"):
            bindings.want(name)
        bindings.unwant(b"$.short")
        bindings.tidy()
        assert (b"$.short" not in bindings.bound) == is_tidied
        for name in names_:
            bindings.unwant(name)
        bindings.tidy()
        assert not bindings.bound
