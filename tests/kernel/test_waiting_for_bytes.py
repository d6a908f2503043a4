# SPDX-License-Identifier: MIT
"""SEND that sleeps for want of its recipient's user's bytes: rules 22 and 37."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kbus import Ksock
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import take
from tests.kernel.module import PARAMETERS, parameter
from tests.kernel.processes import Sending
from tests.kernel.room import waiting

pytestmark = [pytest.mark.rule(22, 37), pytest.mark.abi("ALL_OR_WAIT")]

LIMIT = 1_300_000


def read_elsewhere(other: Ksock) -> None:
    take(other)


def close_elsewhere(other: Ksock) -> None:
    other.close()


def raise_limit(other: Ksock) -> None:
    (PARAMETERS / "max_user_bytes").write_text(str(2 * LIMIT))


@pytest.mark.parametrize("event", [read_elsewhere, close_elsewhere, raise_limit])
def test_room_that_another_ksock_makes_wakes(ksock: OpenKsock, event: Callable[[Ksock], None]) -> None:
    full, other, sender = ksock(), ksock(), ksock()
    # Of its two copies, the user that writes the message has paid for one.
    full.bind("$.A")
    full.bind("$.A")
    other.bind("$.B")
    raw.send(sender, raw.message(b"$.A"))
    raw.send(sender, raw.message(b"$.B", bytes(900_000)))
    sender.write_data(waiting(bytes(300_000)))
    with parameter("max_user_bytes", LIMIT):
        sending = Sending(sender)
        event(other)
        sending.result()
    assert full.num_messages() == 4
