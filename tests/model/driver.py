# SPDX-License-Identifier: MIT
"""The real device behind the methods of the model's `Ksock` (ksock.py)."""

from __future__ import annotations

import os
import select

from kbus._stand_in import TransferResult
from kbus.testing.model.parts import CallClock
from kbus.testing.model.wire import MsgId
from tests.kernel import raw
from tests.kernel.helpers import PATIENCE
from tests.kernel.transfer import Transfer

MODES = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}


class Ksock:
    """An open descriptor of /dev/kbus0."""

    def __init__(self, mode: str, nonblocking: bool = True, clock: CallClock | None = None) -> None:
        self.mode = mode
        self._clock = clock or CallClock()
        flags = MODES[mode] | os.O_CLOEXEC | (os.O_NONBLOCK if nonblocking else 0)
        self._file = raw.Descriptor(os.open("/dev/kbus0", flags))
        self.is_open = True
        self.id = raw.number(self._file, "KSOCKID")

    def fileno(self) -> int:
        """The descriptor."""
        return self._file.fd

    def bind(self, name: bytes | None, replier: int) -> None:
        """BIND; `name` None is address 0."""
        raw.bind_request(self._file, "BIND", name or b"", is_replier=replier, address=no_address(name))

    def unbind(self, name: bytes | None, replier: int) -> None:
        """UNBIND."""
        raw.bind_request(self._file, "UNBIND", name or b"", is_replier=replier, address=no_address(name))

    def replier(self, name: bytes | None) -> int:
        """REPLIER."""
        return self._query("REPLIER", name)

    def resolve(self, name: bytes | None) -> int:
        """RESOLVE."""
        return self._query("RESOLVE", name)

    def _query(self, which: str, name: bytes | None) -> int:
        ignored = 0xDEAD
        returned, ksock_id = raw.replier_query(
            self._file, which, name or b"", ksock_id=ignored, address=no_address(name)
        )
        assert returned == (1 if ksock_id else 0)
        return ksock_id

    def peer(self, number: int) -> tuple[int, int, int]:
        """PEERINFO."""
        asked, *who = raw.peer_info(self._file, number)
        assert asked == number
        return who[0], who[1], who[2]

    def write(self, data: bytes) -> int:
        """write(2)."""
        return os.write(self._file.fd, data)

    def send(self) -> MsgId:
        """SEND."""
        return MsgId(*raw.msg_id(self._file, "SEND"))

    def discard(self) -> None:
        """DISCARD."""
        raw.command(self._file, "DISCARD")

    def abandon(self, number: MsgId) -> None:
        """ABANDON."""
        raw.abandon(self._file, number)

    def next_msg(self) -> int:
        """NEXTMSG."""
        returned, length = raw.returned_and_number(self._file, "NEXTMSG")
        assert returned == (1 if length else 0)
        return length

    def read(self, count: int) -> bytes:
        """read(2)."""
        return os.read(self._file.fd, count)

    def poll(self, awaited: int = 0) -> int:
        """What poll(2) says of POLLIN, POLLPRI and POLLOUT at once, or when something awaited has come."""
        poller = select.poll()
        if awaited:
            poller.register(self._file.fd, awaited)
            poller.poll(1000 * PATIENCE)
        poller.register(self._file.fd, select.POLLIN | select.POLLPRI | select.POLLOUT)
        return dict(poller.poll(0)).get(self._file.fd, 0)

    def transfer(self, to_send: bytes, room: int, receive_max: int, kept: int, timed: bool) -> TransferResult:
        """TRANSFER, with deadline 0."""
        done = Transfer(to_send, room, kept=kept, receive_max=receive_max, timed=timed).call(self)
        ids = [MsgId(*pair) for pair in done.ids]
        left, packets = len(done.to_send), done.packets
        times = [self._clock.call_at(time) for time in done.times] if timed else []
        return TransferResult(
            ids, done.error, done.kept, left, packets, done.queued, done.next_len, done.lost, times
        )

    def max_msgs(self, count: int) -> int:
        """MAXMSGS."""
        return raw.number(self._file, "MAXMSGS", count)

    def set_only_once(self, value: int) -> int:
        """MSGONLYONCE."""
        return raw.number(self._file, "MSGONLYONCE", value)

    def set_report_lost(self, value: int) -> int:
        """REPORTLOST."""
        return raw.number(self._file, "REPORTLOST", value)

    def set_verbose(self, value: int) -> int:
        """VERBOSE."""
        return raw.number(self._file, "VERBOSE", value)

    def set_report_binds(self, value: int) -> int:
        """REPORTREPLIERBINDS."""
        return raw.number(self._file, "REPORTREPLIERBINDS", value)

    def max_msg_size(self, value: int) -> int:
        """MAXMSGSIZE."""
        return raw.number(self._file, "MAXMSGSIZE", value)

    def lost_msgs(self) -> int:
        """LOSTMSGS."""
        return raw.number(self._file, "LOSTMSGS")

    def counts(self) -> dict[str, object]:
        """What the ioctls that only ask say."""
        return {
            "KSOCKID": raw.number(self._file, "KSOCKID"),
            "NUMMSGS": raw.number(self._file, "NUMMSGS"),
            "UNREPLIEDTO": raw.number(self._file, "UNREPLIEDTO"),
            "LASTSENT": MsgId(*raw.msg_id(self._file, "LASTSENT")),
            "LOSTMSGS": self.lost_msgs(),
            "LENLEFT": raw.number(self._file, "LENLEFT"),
        }

    def close(self) -> None:
        """close(2)."""
        os.close(self._file.fd)
        self.is_open = False


def no_address(name: bytes | None) -> int | None:
    """0 as the address of what has none."""
    return 0 if name is None else None
