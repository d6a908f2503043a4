# SPDX-License-Identifier: MIT
"""close and exit with each allocation failing in turn: they cannot fail, and nobody loses his answer."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import pytest

from kbus import Ksock
from tests.debug import faults
from tests.debug.faults import Attempt, Call, Count
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import ksock_stats, names, packets

pytestmark = [pytest.mark.rule(27, 32), pytest.mark.axiom("answer", "lifetime", "loss")]

EVENT = "$.KBUS.ReplierBindEvent"
GONE_AWAY, IGNORED = b"$.KBUS.Replier.GoneAway", b"$.KBUS.Replier.Ignored"
NAMES = ["$.A", "$.B", "$.C.*"]
REQUEST = raw.message(b"$.A", flags=raw.WANT_A_REPLY)


class Scene:
    """A sender that waits for the answers of a replier, and a watcher who is to see events and statuses."""

    def __init__(self, ksock: OpenKsock) -> None:
        self.sender, self.watcher = ksock(), ksock()
        for name in (EVENT, EVENT, "$.KBUS.Replier.*"):
            self.watcher.bind(name)
        self._asked: list[raw.Pair] = []
        self._lost = 0

    def begin(self) -> Ksock:
        """Open a replier who owes five answers, and has read two of the Requests."""
        replier = Ksock()
        for name in NAMES:
            replier.bind(name, replier=True)
        assert names(self.watcher) == [EVENT] * 6
        self._asked = [raw.send(self.sender, REQUEST) for _ in range(5)]
        for _ in range(2):
            replier.next_msg()
        return replier

    def ended(self) -> None:
        """Assert that the replier has gone, and that everything has been told or counted as lost."""
        answers = packets(self.sender)
        assert [answer.in_reply_to for answer in answers] == self._asked
        assert [answer.name for answer in answers] == [IGNORED] * 2 + [GONE_AWAY] * 3
        lost = ksock_stats(self.watcher)["lost"]
        seen = names(self.watcher)
        assert len(seen) + lost - self._lost == 2 * len(NAMES) + 5
        self._lost = lost


@pytest.fixture
def scene(ksock: OpenKsock) -> Iterator[Scene]:
    switch = ksock()
    switch.report_replier_binds()
    yield Scene(ksock)
    switch.report_replier_binds(False)


def test_close_of_a_replier(scene: Scene) -> None:
    fds: list[int] = []

    def prepare() -> Call:
        with scene.begin() as replier:
            fds.append(os.dup(replier.fileno()))
        return Call(faults.CLOSE, fds[-1])

    def done(_: Attempt) -> None:
        with pytest.raises(OSError) as closed:
            os.fstat(fds[-1])
        assert closed.value.errno == errno.EBADF
        scene.ended()

    faults.each("close, replier that owes answers, with events", prepare, done, refused=[])


@pytest.mark.long("a process for each allocation that can fail; the close of a replier is the same without")
def test_exit_of_a_replier(scene: Scene) -> None:
    faults_met = 0
    met = True
    while met:
        replier = scene.begin()
        child = exiting(faults_met + 1, replier)
        assert os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT) is not None
        met = faults.was_injected(child)
        faults_met += met
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        scene.ended()
    faults.counts["exit, replier that owes answers, with events"] = Count(faults_met, 0, 0, 0)


def exiting(nth: int, ksock: Ksock) -> int:
    """The pid of a child that exits, with the `nth` fault, as the last one that has `ksock` open."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        faults.exit_now(nth)
    ksock.close()
    os.close(reader)
    os.close(writer)
    return pid
