# SPDX-License-Identifier: MIT
"""Messages of many pages, which come from wherever there are some: what is read is what was written."""

from __future__ import annotations

import mmap
import os
from collections import deque
from random import Random

import pytest

from tests.kernel import raw
from tests.kernel import transfer as calls
from tests.kernel.conftest import OpenKsock
from tests.kernel.raw import HasFileno

NAME = b"$.Long"
MOST_PAGES = 40
ROOM = (MOST_PAGES + 1) * mmap.PAGESIZE
MOST_QUEUED = 6
MESSAGES = 150


def _cuts(random: Random, length: int) -> list[int]:
    """Where to cut so many bytes into pieces."""
    return sorted({0, length, *(random.randrange(length) for _ in range(random.randrange(6)))})


def _write(random: Random, ksock: HasFileno, packet: bytes) -> None:
    if random.randrange(2):
        assert calls.send(ksock, packet).sent == 1
        return
    cuts = _cuts(random, len(packet))
    for begin, end in zip(cuts, cuts[1:]):
        assert os.write(ksock.fileno(), packet[begin:end]) == end - begin
    raw.msg_id(ksock, "SEND")


def _read(random: Random, ksock: HasFileno) -> bytes:
    if random.randrange(2):
        (packet,) = calls.Transfer(room=ROOM, receive_max=1).call(ksock).packets
        return packet
    length = raw.number(ksock, "NEXTMSG")
    cuts = _cuts(random, length)
    return b"".join(os.read(ksock.fileno(), end - begin) for begin, end in zip(cuts, cuts[1:]))


@pytest.mark.rule(13)
@pytest.mark.parametrize("seed", range(4))
def test_every_byte_arrives(ksock: OpenKsock, seed: int) -> None:
    random = Random(seed)
    sender, listener = ksock(), ksock()
    listener.bind(NAME.decode())
    queued: deque[bytes] = deque()
    for _ in range(MESSAGES):
        data = random.randbytes(4 * random.randrange(MOST_PAGES * mmap.PAGESIZE // 4))
        _write(random, sender, raw.message(NAME, data))
        queued.append(data)
        while len(queued) > random.randrange(MOST_QUEUED):
            assert raw.parse(_read(random, listener)).data == queued.popleft()
