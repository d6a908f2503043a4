# SPDX-License-Identifier: MIT
"""The axioms under load, on the real module: many processes that send, read, bind and are killed at once.

KBUS_LOAD_SEED sets what the random numbers of all processes grow from, KBUS_LOAD_SECONDS how long each crowd
is at it. What the scheduler does is not repeatable.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbus.testing.model.wire import WireMessage
from tests.effort import reduced
from tests.kernel import module
from tests.kernel.helpers import bindings, device_stats, fails, stats_lines

from .driver import Ksock
from .load import checks, memory, workers
from .load.crowd import Crowd
from .load.notes import MISSED

pytestmark = pytest.mark.smp("its processes are to race")

SEED = int(os.environ.get("KBUS_LOAD_SEED", "1"))
SECONDS = float(os.environ.get("KBUS_LOAD_SECONDS", reduced(8)))
ATTEMPTS = 3
"""Times that memory is looked for before it is a leak."""


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    crowd = Crowd(tmp_path, SEED, bells=2)
    yield crowd
    crowd.end()
    assert nothing_is_left()


def nothing_is_left() -> bool:
    """Axiom 'Nothing survives its owner', as far as /proc/kbus can tell."""
    assert bindings() == []
    assert [line.key for line in stats_lines() if line.key[0] == "ksock"] == []
    device = device_stats()
    assert {name: device[name] for name in ("ksocks", "bindings", "waiting", "events_aside")} == {
        "ksocks": 0,
        "bindings": 0,
        "waiting": 0,
        "events_aside": 0,
    }
    return True


@pytest.mark.axiom("order", "urgency", "loss", "isolation")
def test_everybody_agrees_on_the_order(crowd: Crowd) -> None:
    stop_sending, stop_reading = range(2)
    stuck = crowd.start(workers.stuck, stop_reading)
    readers = [crowd.start(workers.reader, stop_reading) for _ in range(3)]
    churners = [crowd.start(workers.churner) for _ in range(2)]
    senders = [crowd.start(workers.sender, stop_sending) for _ in range(3)]
    crowd.kill_and_replace(churners, workers.churner, SECONDS)
    crowd.bells[stop_sending].ring()
    for sender in senders:
        crowd.finish(sender)
    crowd.bells[stop_reading].ring()
    for process in (stuck, *readers):
        crowd.finish(process)
    for churner in churners:
        crowd.kill(churner)

    sends = [note for sender in senders for note in sender.notes()]
    reads = [reader.notes() for reader in readers]
    print(f"{len(sends)} messages sent, {[len(notes) for notes in reads]} read")
    checks.order_of_sends(sends)
    checks.order_of_reads(reads)
    for notes in reads:
        checks.urgency(sends, notes)
        (missed,) = (note.missed for note in notes if note.kind == MISSED)
        checks.nothing_lost_in_silence(len(sends), notes, missed)


@pytest.mark.axiom("answer")
def test_every_request_gets_one_answer(crowd: Crowd) -> None:
    repliers = [crowd.start(workers.replier) for _ in range(3)]
    churners = [crowd.start(workers.churner) for _ in range(2)]
    mortal = [crowd.start(workers.asker) for _ in range(2)]
    askers = [crowd.start(workers.asker) for _ in range(3)]
    for _ in range(3):
        crowd.kill_and_replace(repliers, workers.replier, SECONDS / 6)
        crowd.kill_and_replace(mortal, workers.asker, SECONDS / 12)
        crowd.kill_and_replace(churners, workers.churner, SECONDS / 12)
    for process in mortal:
        crowd.kill(process)
    crowd.bells[0].ring()
    for process in churners:
        crowd.kill(process)
    for process in repliers:
        crowd.finish(process)
    for process in askers:
        crowd.finish(process)
        notes = process.notes()
        print(f"{len(notes)} Requests sent, answers read, and Requests abandoned")
        checks.an_answer(notes)


@pytest.mark.axiom("lifetime")
def test_memory_comes_back(crowd: Crowd) -> None:
    """A round goes through 0.8 MB in slabs and 8 MB in pages; what stays of ten is far less.

    The kernel itself now and then takes memory that it keeps, or is late to free some; but not each time.
    """

    def stays(rounds: int) -> tuple[int, int]:
        slabs, pages = memory.held()
        for _ in range(rounds):
            crowd.finish(crowd.start(memory.hoarder))
        slabs_now, pages_now = memory.held()
        print(f"after {rounds} rounds {slabs_now - slabs} bytes more in slabs, {pages_now - pages} in pages")
        return slabs_now - slabs, pages_now - pages

    stays(2)
    tries = (stays(reduced(10)) for _ in range(ATTEMPTS))
    assert any(slabs < 400_000 and pages < 1_000_000 for slabs, pages in tries)


@pytest.mark.axiom("lifetime")
@pytest.mark.rule(38)
def test_the_module_unloads_and_loads_again(crowd: Crowd) -> None:
    """A crowd is killed in the middle of it all; then the module goes, and leaves nothing behind."""
    churners = [crowd.start(workers.churner) for _ in range(4)]
    crowd.kill_and_replace(churners, workers.churner, SECONDS / 2)
    with fails(errno.EAGAIN):
        module.unload()
    for churner in churners:
        crowd.kill(churner)
    assert nothing_is_left()

    parameters = {path.name: path.read_text().strip() for path in module.PARAMETERS.iterdir()}
    module.unload()
    try:
        left = [Path("/dev/kbus0"), Path("/proc/kbus"), Path("/sys/class/kbus"), module.PARAMETERS.parent]
        assert [path for path in left if path.exists()] == []
        assert "kbus" not in Path("/proc/devices").read_text().split()
    finally:
        module.load(**parameters)
    ksock = Ksock("rw")
    ksock.bind(b"$.A", 0)
    memory.post(ksock, WireMessage(b"$.A"))
    assert ksock.next_msg() == WireMessage(b"$.A").length
    ksock.close()
