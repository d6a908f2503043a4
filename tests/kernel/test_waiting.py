# SPDX-License-Identifier: MIT
"""SEND that sleeps until there is room: rule 22. That a message waits is read in /proc/kbus/stats."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable

import pytest

from kbus import Announcement, Ksock
from tests.kernel import raw
from tests.kernel.conftest import NewDevice, OpenKsock, StartChild
from tests.kernel.helpers import (
    IOCTL,
    blocked_in,
    device_stats,
    fails,
    fill,
    handler,
    ksock_stats,
    names,
    refused,
    take,
    texts,
    wait_until,
)
from tests.kernel.module import parameter
from tests.kernel.processes import Sending, blocked_send, times_slept
from tests.kernel.room import MAKES_ROOM, close, raise_limit, read, waiting

pytestmark = [pytest.mark.rule(22), pytest.mark.abi("ALL_OR_WAIT")]


@pytest.mark.parametrize("event", MAKES_ROOM)
def test_every_event_that_makes_room_wakes(ksock: OpenKsock, event: Callable[[Ksock], None]) -> None:
    full, roomy, sender = ksock(), ksock(), ksock()
    fill(full, "$.A")
    roomy.bind("$.A")
    serial = device_stats()["last_serial"]
    sending = blocked_send(sender, waiting(b"wait"))
    assert roomy.num_messages() == 0
    assert device_stats()["last_serial"] == serial
    event(full)
    assert sending.result() == (0, serial + 1)
    assert texts(roomy) == [b"wait"]
    if event in (read, raise_limit):
        assert texts(full)[-1] == b"wait"
    assert ksock_stats(sender)["waiting"] == 0


@pytest.mark.rule(20)
def test_room_in_bytes_is_waited_for(ksock: OpenKsock) -> None:
    with parameter("max_queue_bytes", 1000):
        full, sender = ksock(), ksock()
        full.bind("$.A")
        for _ in range(2):
            raw.send(sender, raw.message(b"$.A", bytes(400)))
        sending = blocked_send(sender, waiting(bytes(800)))
        take(full)
        assert sending.waits()
        take(full)
        sending.result()
        assert texts(full) == [bytes(800)]


@pytest.mark.rule(20)
def test_a_raised_limit_on_bytes_wakes_on_each_device(ksock: OpenKsock, new_device: NewDevice) -> None:
    which = new_device()
    with parameter("max_queue_bytes", 1000):
        full, sender = ksock(which), ksock(which)
        full.bind("$.A")
        for _ in range(2):
            raw.send(sender, raw.message(b"$.A", bytes(400)))
        sending = blocked_send(sender, waiting(bytes(400)), which)
        with parameter("max_queue_bytes", 2000):
            sending.result()
    assert texts(full) == [bytes(400)] * 3


def test_what_an_unbind_drops_is_room_for_another_name(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full)
    full.bind("$.A")
    sending = blocked_send(sender, waiting())
    full.unbind("$.Filler")
    sending.result()
    assert names(full) == ["$.A"]


@pytest.mark.abi("MSGONLYONCE")
def test_who_wants_a_message_once_needs_less_room(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full)
    full.set_max_messages(2)
    full.bind("$.A")
    full.bind("$.A")
    sending = blocked_send(sender, waiting())
    full.want_messages_once(True)
    sending.result()
    assert names(full) == ["$.Filler", "$.A"]


@pytest.mark.rule(24)
def test_a_request_that_waits_for_a_listener_ends_with_its_replier(ksock: OpenKsock) -> None:
    full, replier, sender = ksock(), ksock(), ksock()
    fill(full)
    full.bind("$.A")
    replier.bind("$.A", replier=True)
    sending = blocked_send(sender, waiting(flags=raw.WANT_A_REPLY))
    replier.close()
    with fails(errno.EADDRNOTAVAIL):
        sending.result()


def test_a_released_slot_wakes(ksock: OpenKsock) -> None:
    full, replier, sender = ksock(), ksock(), ksock()
    replier.bind("$.B", replier=True)
    full.set_max_messages(1)
    full.bind("$.A")
    id = raw.send(full, raw.message(b"$.B", flags=raw.WANT_A_REPLY))
    sending = blocked_send(sender, waiting())
    raw.abandon(full, id)
    sending.result()
    assert names(full) == ["$.A"]


def test_a_read_answer_wakes(ksock: OpenKsock) -> None:
    full, replier, sender = ksock(), ksock(), ksock()
    replier.bind("$.B", replier=True)
    full.set_max_messages(1)
    full.bind("$.A")
    raw.send(full, raw.message(b"$.B", flags=raw.WANT_A_REPLY))
    sending = blocked_send(sender, waiting())
    replier.close()
    assert sending.waits()
    assert take(full).name == "$.KBUS.Replier.GoneAway"
    sending.result()


@pytest.mark.rule(24)
@pytest.mark.abi("SEND")
@pytest.mark.parametrize(
    "leave", [lambda one: one.unbind("$.A", replier=True), close], ids=["unbind", "close"]
)
def test_a_replier_that_leaves_makes_waiting_pointless(
    ksock: OpenKsock, leave: Callable[[Ksock], None]
) -> None:
    full, listener, sender = ksock(), ksock(), ksock()
    fill(full)
    full.bind("$.A", replier=True)
    listener.bind("$.A")
    serial = device_stats()["last_serial"]
    sending = blocked_send(sender, waiting(flags=raw.WANT_A_REPLY))
    leave(full)
    with fails(errno.EADDRNOTAVAIL):
        sending.result()
    assert sender.last_msg_id().serial_num == serial + 1
    assert (listener.num_messages(), ksock_stats(sender)["awaiting"]) == (0, 0)
    with refused(errno.ENOMSG):
        sender.send()


@pytest.mark.parametrize(
    ("flags", "kind"),
    [(0, "listener"), (raw.WANT_A_REPLY, "replier")],
    ids=["an Announcement", "a Request"],
)
def test_only_those_are_woken_whose_message_a_binding_brings(ksock: OpenKsock, flags: int, kind: str) -> None:
    """Else one user's UNBIND makes many tasks want the lock of the device at once."""
    full, sender = ksock(), ksock()
    fill(full)
    # There could be room for two copies.
    full.set_max_messages(2)
    raw.send(full, raw.message(b"$.Filler"))
    full.bind("$.*", replier=kind == "replier")
    sending = blocked_send(sender, waiting(flags=flags))

    def sleeps() -> int:
        return times_slept(sending.thread_id)

    def rebind(*names: str) -> int:
        """How often SEND had slept before."""
        before = sleeps()
        for name in names:
            full.bind(name, replier=kind == "replier")
            full.unbind(name, replier=kind == "replier")
        return before

    before = rebind("$.B", "$.A.*", "$.A.%", "$.AA")
    assert sleeps() == before
    before = rebind("$.A")
    wait_until(lambda: sleeps() > before, "SEND has tried again")
    take(full)
    sending.result()


@pytest.mark.rule(9)
def test_another_replier_can_take_over(ksock: OpenKsock) -> None:
    full, second, sender = ksock(), ksock(), ksock()
    fill(full)
    full.bind("$.A", replier=True)
    second.bind("$.*", replier=True)
    sending = blocked_send(sender, waiting(flags=raw.WANT_A_REPLY))
    full.unbind("$.A", replier=True)
    sending.result()
    assert [message.wants_us_to_reply() for message in second] == [True]


@pytest.mark.rule(15)
def test_a_full_replier_is_waited_for(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full)
    full.bind("$.A", replier=True)
    sending = blocked_send(sender, waiting(flags=raw.WANT_A_REPLY, to=full.ksock_id()))
    assert ksock_stats(sender)["awaiting"] == 0
    take(full)
    sending.result()
    assert take(full).wants_us_to_reply()
    assert ksock_stats(sender)["awaiting"] == 1


@pytest.mark.rule(15)
def test_a_waiting_request_can_end_without_room_for_its_answer(ksock: OpenKsock) -> None:
    full, sender, other = ksock(), ksock(), ksock()
    fill(full)
    full.bind("$.A", replier=True)
    sender.bind("$.Own")
    sender.set_max_messages(1)
    sending = blocked_send(sender, waiting(flags=raw.WANT_A_REPLY))
    other.send_msg(Announcement("$.Own"))
    take(full)
    with fails(errno.ENOLCK):
        sending.result()
    assert names(full) == []


def test_all_must_have_room(ksock: OpenKsock) -> None:
    first, second, sender = ksock(), ksock(), ksock()
    fill(first, "$.A")
    fill(second)
    second.bind("$.A")
    names(first)
    sending = blocked_send(sender, waiting(b"both"))
    first.send_msg(Announcement("$.A", b"first"))
    take(second)
    assert not sending.done
    assert sending.waits()
    assert take(first).data == b"first"
    sending.result()
    assert (texts(first), texts(second)) == ([b"both"], [b"both"])


def test_waiters_are_served_in_their_order(ksock: OpenKsock) -> None:
    full = ksock()
    fill(full, "$.A")
    sendings = [blocked_send(ksock(), waiting(data)) for data in (b"1111", b"2222", b"3333")]
    take(full)
    for data, sending in zip((b"1111", b"2222", b"3333"), sendings):
        sending.result()
        assert take(full).data == data


@pytest.mark.axiom("isolation")
def test_who_waits_holds_up_nobody_else(ksock: OpenKsock) -> None:
    full, roomy, sender, other = ksock(), ksock(), ksock(), ksock()
    fill(full, "$.A")
    roomy.bind("$.*")
    sending = blocked_send(sender, waiting(b"wait"))
    other.send_msg(Announcement("$.A", b"plain"))
    raw.send(other, raw.message(b"$.B", flags=raw.ALL_OR_WAIT))
    with refused(errno.EBUSY, serials=1):
        raw.send(other, raw.message(b"$.A", flags=raw.ALL_OR_FAIL))
    assert names(roomy) == ["$.A", "$.B"]
    assert sending.waits()
    take(full)
    sending.result()
    assert (texts(full), texts(roomy)) == ([b"wait"], [b"wait"])


@pytest.mark.rule(14)
@pytest.mark.abi("DISCARD")
def test_discard_ends_the_waiting(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    sending = blocked_send(sender, waiting(b"gone"))
    sender.discard()
    with fails(errno.ENOMSG):
        sending.result()
    names(full)
    sender.send_msg(Announcement("$.A", b"next"))
    assert texts(full) == [b"next"]


@pytest.mark.rule(31)
def test_two_threads_wait_for_one_message(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    first = blocked_send(sender, waiting(b"once"))
    second = Sending(sender)
    wait_until(lambda: blocked_in(second.thread_id, IOCTL), "both threads sleep in SEND")
    take(full)
    outcomes = []
    for sending in (first, second):
        try:
            outcomes.append(sending.result())
        except OSError as error:
            assert error.errno == errno.ENOMSG
    assert len(outcomes) == 1
    assert texts(full) == [b"once"]


def test_write_is_refused_while_a_thread_waits(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    sending = blocked_send(sender, waiting(b"wait"))
    with refused(errno.EALREADY):
        os.write(sender.fileno(), waiting())
    take(full)
    sending.result()
    assert texts(full) == [b"wait"]


# Signals.


@pytest.mark.abi("SEND")
def test_a_signal_interrupts(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    serial = device_stats()["last_serial"]
    with handler(signal.SIGUSR1, restart=False) as came:
        sending = blocked_send(sender, waiting(b"kept"))
        sending.interrupt(signal.SIGUSR1)
        with fails(errno.EINTR):
            sending.result()
    assert came == [signal.SIGUSR1]
    assert device_stats()["last_serial"] == serial
    with refused(errno.EALREADY):
        os.write(sender.fileno(), waiting())
    take(full)
    assert raw.msg_id(sender, "SEND") == (0, serial + 1)
    assert texts(full) == [b"kept"]


def test_a_signal_restarts_where_sa_restart_asks_for_it(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    with handler(signal.SIGUSR1, restart=True) as came:
        sending = blocked_send(sender, waiting(b"kept"))
        sending.interrupt(signal.SIGUSR1)
        wait_until(lambda: bool(came), "the handler has run")
        assert sending.waits()
        assert not sending.done
        take(full)
        sending.result()
    assert texts(full) == [b"kept"]


def test_the_place_is_kept_after_a_signal(ksock: OpenKsock) -> None:
    full, first, second = ksock(), ksock(), ksock()
    fill(full, "$.A")
    with handler(signal.SIGUSR1, restart=False):
        sending = blocked_send(first, waiting(b"1111"))
        sending.interrupt(signal.SIGUSR1)
        with fails(errno.EINTR):
            sending.result()
    later = blocked_send(second, waiting(b"2222"))
    again = Sending(first)
    take(full)
    again.result()
    assert take(full).data == b"1111"
    later.result()
    assert take(full).data == b"2222"


def test_an_interrupted_message_can_be_discarded(ksock: OpenKsock) -> None:
    full, sender = ksock(), ksock()
    fill(full, "$.A")
    with handler(signal.SIGUSR1, restart=False):
        sending = blocked_send(sender, waiting(b"gone"))
        sending.interrupt(signal.SIGUSR1)
        with fails(errno.EINTR):
            sending.result()
    sender.discard()
    with refused(errno.ENOMSG):
        sender.send()
    names(full)
    sender.send_msg(Announcement("$.A", b"next"))
    assert texts(full) == [b"next"]


@pytest.mark.axiom("lifetime", "isolation")
def test_sigkill_ends_the_waiting(ksock: OpenKsock, child: StartChild) -> None:
    full, watcher = ksock(), ksock()
    fill(full, "$.A")
    watcher.bind("$.A")

    def wait() -> Ksock:
        sender = Ksock()
        blocked_send(sender, waiting(b"dead"))
        return sender

    process = child(wait)
    second = blocked_send(ksock(), waiting(b"next"))
    process.kill()
    assert device_stats()["waiting"] == 1
    take(full)
    second.result()
    assert (texts(full), texts(watcher)) == ([b"next"], [b"next"])
