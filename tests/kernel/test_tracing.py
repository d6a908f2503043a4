# SPDX-License-Identifier: MIT
"""The tracepoints kbus:send and the like, as tracefs shows them: docs/howto/trace.rst."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbus import Announcement, Ksock, Request, reply_to
from tests.kernel import raw, transfer
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import fails, fill, names, take
from tests.kernel.processes import blocked_send
from tests.kernel.room import waiting

TRACEFS = Path("/sys/kernel/tracing")
FIELDS = {
    "send": "dev from to network_id serial_num reply_network_id reply_serial_num flags len name",
    "queue": "dev ksock from network_id serial_num flags len queued name",
    "receive": "dev ksock from network_id serial_num flags len queued name",
    "lost": "dev ksock from network_id serial_num copies name",
    "wait": "dev ksock on what name",
    "bind": "dev ksock bound kind err name",
    "request": "dev ksock replier network_id serial_num name",
    "answer": "dev ksock replier network_id serial_num answer_network_id answer_serial_num flags name",
    "refuse": "dev ksock err to network_id serial_num flags name",
}
"""The fields of each event, in their order."""

pytestmark = pytest.mark.skipif(
    not TRACEFS.is_dir(), reason="this kernel has no tracefs, so there are no tracepoints to see"
)


class Trace:
    """The events of kbus that come from now on, in a buffer of their own."""

    def __init__(self) -> None:
        self._instance = TRACEFS / "instances" / "kbus-test"
        self._instance.mkdir()
        (self._instance / "events" / "kbus" / "enable").write_text("1")

    def close(self) -> None:
        """No more events; can't be repeated."""
        (self._instance / "events" / "kbus" / "enable").write_text("0")
        self._instance.rmdir()

    def take(self, *wanted: str) -> list[str]:
        """What has happened on device 0 since the last call, of these kinds or of all: `event fields`."""
        lines = (self._instance / "trace").read_text().splitlines()
        (self._instance / "trace").write_text("")
        found = [re.fullmatch(r".*?: (\w+): dev=0 (.*)", line) for line in lines if line[:1] != "#"]
        assert all(found), lines
        events = [(match[1], match[2]) for match in found if match]
        return [f"{event} {fields}" for event, fields in events if not wanted or event in wanted]


@pytest.fixture(scope="module")
def tracefs() -> Iterator[None]:
    """It is mounted where it belongs."""
    is_mounted = os.path.ismount(TRACEFS)
    if not is_mounted:
        subprocess.run(["mount", "-t", "tracefs", "none", TRACEFS], check=True)
    # Else the scheduler's own events are switched too, which patches the code that all processors run. An
    # emulated one may go on with what was there in between, a breakpoint, for ever.
    record_commands = TRACEFS / "options" / "record-cmd"
    before = record_commands.read_text()
    record_commands.write_text("0")
    yield
    record_commands.write_text(before)
    if not is_mounted:
        subprocess.run(["umount", TRACEFS], check=True)


@pytest.fixture
def trace(tracefs: None) -> Iterator[Trace]:
    """All events are traced."""
    trace = Trace()
    yield trace
    trace.close()


def serial(ksock: Ksock) -> int:
    """Of the message that was sent last."""
    return raw.msg_id(ksock, "LASTSENT")[1]


@pytest.mark.parametrize("event", FIELDS)
def test_the_fields_of(tracefs: None, event: str) -> None:
    text = (TRACEFS / "events" / "kbus" / event / "format").read_text()
    fields = re.findall(r"\tfield:[^;]*?(\w+)(?:\[\])?;", text)
    assert [field for field in fields if not field.startswith("common_")] == FIELDS[event].split()


def test_the_events_are_these(tracefs: None) -> None:
    directory = TRACEFS / "events" / "kbus"
    assert sorted(path.name for path in directory.iterdir() if path.is_dir()) == sorted(FIELDS)


def test_a_request_and_its_reply(trace: Trace, ksock: OpenKsock) -> None:
    """All that there is to see of it, in its order."""
    asker, replier, listener = ksock(), ksock(), ksock()
    one, two, three = (each.ksock_id() for each in (asker, replier, listener))
    replier.bind("$.A", replier=True)
    listener.bind("$.*")
    assert trace.take() == [
        f"bind ksock={two} bound=1 kind=replier err=0 name=$.A",
        f"bind ksock={three} bound=1 kind=listener err=0 name=$.*",
    ]

    asker.send_msg(Request("$.A", b"data"))
    asked = f"id=0:{serial(asker)}"
    assert trace.take() == [
        f"request ksock={one} replier={two} {asked} name=$.A",
        f"send from={one} to=0 {asked} in_reply_to=0:0 flags=0x1 len=52 name=$.A",
        f"queue ksock={two} from={one} {asked} flags=0x3 len=52 queued=1 name=$.A",
        f"queue ksock={three} from={one} {asked} flags=0x1 len=52 queued=1 name=$.A",
    ]

    request = take(replier)
    assert trace.take() == [f"receive ksock={two} from={one} {asked} flags=0x3 len=52 queued=0 name=$.A"]
    replier.send_msg(reply_to(request))
    answered = f"id=0:{serial(replier)}"
    assert trace.take() == [
        f"send from={two} to={one} {answered} in_reply_to{asked[2:]} flags=0x0 len=48 name=$.A",
        f"queue ksock={one} from={two} {answered} flags=0x0 len=48 queued=1 name=$.A",
        f"queue ksock={three} from={two} {answered} flags=0x0 len=48 queued=2 name=$.A",
        f"answer ksock={one} replier={two} {asked} answer{answered[2:]} flags=0x0 name=$.A",
    ]

    listener.close()
    assert trace.take() == [f"bind ksock={three} bound=0 kind=listener err=0 name=$.*"]


def test_a_status_answers(trace: Trace, ksock: OpenKsock) -> None:
    asker, replier = ksock(), ksock()
    one, two = asker.ksock_id(), replier.ksock_id()
    replier.bind("$.A", replier=True)
    asker.send_msg(Request("$.A"))
    asked = serial(asker)
    replier.unbind("$.A", replier=True)
    assert trace.take("answer") == [
        f"answer ksock={one} replier={two} id=0:{asked} answer=0:{asked + 1} flags=0x4"
        " name=$.KBUS.Replier.Unbound"
    ]


def test_requests_that_have_no_answer(trace: Trace, ksock: OpenKsock) -> None:
    """Abandoned by their sender, or its close: each is over once."""
    asker, replier = ksock(), ksock()
    one, two = asker.ksock_id(), replier.ksock_id()
    replier.bind("$.A", replier=True)
    ids = [asker.send_msg(Request("$.A")) for _ in range(3)]
    asker.abandon(ids[0])
    over = [f"answer ksock={one} replier={two} id=0:{id.serial_num} answer=0:0 flags=0x0 name=" for id in ids]
    assert trace.take("answer") == over[:1]
    requests = [take(replier) for _ in range(3)]
    asker.close()
    assert trace.take("answer") == over[1:]
    with fails(errno.EADDRNOTAVAIL):
        replier.send_msg(reply_to(requests[1]))
    assert trace.take("answer", "refuse") == [
        f"refuse ksock={two} err={-errno.EADDRNOTAVAIL} to={one} id=0:{serial(replier)} flags=0x0 name=$.A",
    ]


def test_a_lost_copy(trace: Trace, ksock: OpenKsock) -> None:
    sender, listener = ksock(), ksock()
    listener.set_max_messages(1)
    for _ in range(3):
        listener.bind("$.A")
    trace.take()
    sender.send_msg(Announcement("$.A"))
    who = f"ksock={listener.ksock_id()} from={sender.ksock_id()}"
    assert trace.take("lost") == [f"lost {who} id=0:{serial(sender)} copies=2 name=$.A"]
    names(listener)
    listener.unbind("$.A")
    listener.unbind("$.A")
    trace.take()
    sender.send_msg(Announcement("$.A"))
    assert trace.take("lost") == []


def test_a_wait(trace: Trace, ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    trace.take()
    sending = blocked_send(sender, waiting())
    who = f"ksock={sender.ksock_id()} on={full.ksock_id()}"
    assert trace.take() == [f"wait {who} what=begin name=$.A"]
    names(full)
    sending.result()
    seen = trace.take("wait")
    assert seen[0] == f"wait {who} what=wake name="
    assert seen[-1] == f"wait {who} what=end name="


def test_refusals(trace: Trace, ksock: OpenKsock) -> None:
    one = ksock()
    id = one.ksock_id()

    def refused(number: int, packet: bytes) -> list[str]:
        with fails(number):
            raw.send(one, packet)
        return trace.take()

    def refusal(number: int, name: str, sent: int = 0, flags: int = 0) -> list[str]:
        return [f"refuse ksock={id} err={-number} to=7 id=0:{sent} flags={flags:#x} name={name}"]

    packet = raw.message(b"$.A", to=7, flags=raw.WANT_A_REPLY)
    assert refused(errno.EADDRNOTAVAIL, packet) == refusal(errno.EADDRNOTAVAIL, "$.A", serial(one), 1)
    packet = raw.message(b"$.A\x1b[1m\n\xff", to=7)
    assert refused(errno.EBADMSG, packet) == refusal(errno.EBADMSG, "$.A?[1m??")
    assert refused(errno.EACCES, raw.message(b"$.KBUS.A", to=7)) == refusal(errno.EACCES, "$.KBUS.A")

    os.write(one.fileno(), packet[:20])
    with fails(errno.EINVAL):
        raw.msg_id(one, "SEND")
    assert trace.take() == [f"refuse ksock={id} err={-errno.EINVAL} to=0 id=0:0 flags=0x0 name="]


def test_bindings_that_are_refused(trace: Trace, ksock: OpenKsock) -> None:
    one, other = ksock(), ksock()
    one.bind("$.A", replier=True)
    with fails(errno.EADDRINUSE):
        other.bind("$.A", replier=True)
    with fails(errno.EINVAL):
        other.unbind("$.B")
    raw.bind_request(other, "BIND", b"$.C", is_replier=raw.OBSERVER)
    id = other.ksock_id()
    assert trace.take()[1:] == [
        f"bind ksock={id} bound=1 kind=replier err={-errno.EADDRINUSE} name=$.A",
        f"bind ksock={id} bound=0 kind=listener err={-errno.EINVAL} name=$.B",
        f"bind ksock={id} bound=1 kind=observer err=0 name=$.C",
    ]


def test_transfer_is_seen_as_send_and_nextmsg_are(trace: Trace, ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A")
    id = one.ksock_id()
    trace.take()
    transfer.send(one, raw.message(b"$.A"))
    transfer.receive(one)
    message = f"id=0:{serial(one)} flags=0x0 len=48"
    assert trace.take("queue", "receive") == [
        f"queue ksock={id} from={id} {message} queued=1 name=$.A",
        f"receive ksock={id} from={id} {message} queued=0 name=$.A",
    ]


def test_what_kbus_sends_itself(trace: Trace, ksock: OpenKsock) -> None:
    """Here: how many messages a KSock has missed."""
    sender, listener = ksock(), ksock()
    raw.number(listener, "REPORTLOST", raw.ON)
    fill(listener, "$.A")
    sender.send_msg(Announcement("$.A"))
    trace.take()
    names(listener)
    name = "name=$.KBUS.MessagesLost"
    sent = next(event for event in trace.take("send") if event.endswith(name))
    assert sent.startswith(f"send from=0 to={listener.ksock_id()} id=0:")
