# SPDX-License-Identifier: MIT
"""Answers that nobody reads: rule 43. The limits hold, and only who does not read is the worse for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbus import Ksock
from tests.effort import reduced
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import packets, stats_lines, wait_until
from tests.kernel.module import PARAMETERS, parameter
from tests.kernel.processes import NOBODY
from tests.model.load import memory
from tests.neighbours.neighbour import Neighbour, StartNeighbour

pytestmark = [pytest.mark.axiom("isolation", "answer"), pytest.mark.rule(43, 20, 37)]

MIB = 1 << 20
REQUESTS = reduced(9000)
USER_BYTES = 64 * MIB
"""What each user may have where a test sets it; more than a queue may, and less than the replies are."""
SLACK = 4 * MIB
"""Bytes that come and go without the bus."""
EVERY = 50
"""After so many replies it is looked whether the limits hold, and whether somebody else is served."""
SERVICE = b"$.Service"
SOMEBODY = 1234


@pytest.fixture
def service(ksock: OpenKsock) -> Ksock:
    """A replier with a long queue."""
    one = ksock()
    one.set_max_messages(10_000)
    one.bind(SERVICE.decode(), replier=True)
    return one


@pytest.fixture
def customer(ksock: OpenKsock, open_to_all: None) -> Ksock:
    """A KSock of another user who reads its replies."""
    os.setresuid(SOMEBODY, SOMEBODY, 0)
    try:
        return ksock()
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.parametrize(
    ("orders", "length", "user_bytes"),
    [
        (f"open 1 queue {REQUESTS} flood $.Service 0 REQUEST done pause", 64 << 10, None),
        (f"open 9 queue {REQUESTS // 9} flood $.Service 0 REQUEST done pause", 64 << 10, USER_BYTES),
        ("open 700 queue 1 flood $.Service 0 REQUEST done pause", MIB, USER_BYTES),
    ],
    ids=["one queue", "9 queues", "700 queues with one reply"],
)
def test_replies_that_nobody_reads(
    service: Ksock,
    customer: Ksock,
    neighbour: StartNeighbour,
    orders: str,
    length: int,
    user_bytes: int | None,
) -> None:
    limit = user_bytes or int((PARAMETERS / "max_user_bytes").read_text())
    killed, before = oom_kills(), sum(memory.held())
    with parameter("max_user_bytes", limit), neighbour(orders) as hoarder:
        assert hoarder.refused_with == "ENOLCK"
        count = service.num_messages()
        assert count in (REQUESTS, REQUESTS // 9 * 9, 700)
        served, refused = serve(service, customer, length, lambda: limits_hold(limit))
        assert served + refused == count
        assert min(served, refused) > 0
        limits_hold(limit)
        assert sum(memory.held()) - before < min(limit, held(NOBODY) * 1.15 + count * 2048) + SLACK
        assert hoarder.is_running()
    assert oom_kills() == killed
    wait_until(lambda: sum(memory.held()) - before < SLACK, "the memory is free again")


def serve(service: Ksock, customer: Ksock, length: int, look: Callable[[], None]) -> tuple[int, int]:
    """Answer all Requests with so many bytes: how many replies to the neighbour came, and did not.

    The customer asks now and then, and must get its reply each time.
    """
    served = refused = 0
    data = bytes(length - len(raw.message(SERVICE)))
    for number in range(10_000):
        if number % EVERY == 0:
            look()
            asked = raw.send(customer, raw.message(SERVICE, flags=raw.WANT_A_REPLY | raw.URGENT))
            raw.send(service, reply_to(raw.parse(raw.receive(service)), data))
            assert [packet.in_reply_to for packet in packets(customer)] == [asked]
        packet = raw.receive(service)
        if not packet:
            break
        try:
            raw.send(service, reply_to(raw.parse(packet), data))
            served += 1
        except OSError as error:
            assert errno.errorcode[error.errno or 0] == "ENOBUFS"
            refused += 1
    return served, refused


def reply_to(request: raw.Packet, data: bytes) -> bytes:
    return raw.message(SERVICE, data, to=request.from_, in_reply_to=request.id)


def limits_hold(user_bytes: int) -> None:
    """No queue has ever had more bytes than it may, and the neighbour's user has no more either."""
    queues = [line.numbers for line in stats_lines() if line.numbers.get("uid") == NOBODY]
    assert max(queue["bytes_max"] - queue["bytes_limit"] for queue in queues) <= 0
    assert held(NOBODY) <= user_bytes


def held(uid: int) -> int:
    """Bytes in the queues of the user's KSocks."""
    return sum(line.numbers["bytes"] for line in stats_lines() if line.numbers.get("uid") == uid)


def oom_kills() -> int:
    """How many processes have been killed for want of memory, on the whole machine."""
    lines = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(dict(lines)["oom_kill"])


@pytest.mark.rule(20, 21)
@pytest.mark.axiom("loss")
def test_many_listeners_with_one_message_each(ksock: OpenKsock, neighbour: StartNeighbour) -> None:
    """They are 700 copies of one message, and each counts."""
    sender = ksock()
    packet = raw.message(b"$.Own", bytes(MIB - len(raw.message(b"$.Own"))))
    with (
        parameter("max_name_bindings", 1000),
        parameter("max_user_bytes", USER_BYTES),
        neighbour("open 700 bind $.Own 1 done pause") as listener,
    ):
        for _ in range(3):
            raw.send(sender, packet)
            limits_hold(USER_BYTES)
        queues = neighbours_queues(listener)
        assert sum(queue["queued"] for queue in queues) in range(55, 65)
        assert sum(queue["queued"] + queue["lost"] for queue in queues) == 3 * 700


def neighbours_queues(neighbour: Neighbour) -> list[dict[str, int]]:
    return [line.numbers for line in stats_lines() if line.numbers.get("uid") == neighbour.uid]
