# SPDX-License-Identifier: MIT
"""Who somebody is, and what users may take: rules 36 and 37, and the limits of rule 33."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbus import Announcement, Ksock, Request
from tests.kernel import raw
from tests.kernel.conftest import NewDevice, OpenKsock, StartChild
from tests.kernel.helpers import fails, names, packets, refused, stats_lines
from tests.kernel.module import parameter
from tests.kernel.processes import (
    CLONE_NEWPID,
    CLONE_NEWUSER,
    NOBODY,
    as_nobody,
    become,
    in_child,
    opened_by,
    unshare,
)

# Whoever may not look at /proc/kbus cannot see that nothing has changed.

SOMEBODY = 1234


def as_user(body: Callable[[], None], uid: int = NOBODY) -> None:
    """Run `body` in a child of another user."""

    def changed() -> None:
        become(uid)
        body()

    in_child(changed)


@pytest.mark.rule(33)
def test_others_may_not_open_the_device() -> None:
    def try_it() -> None:
        for mode in ("r", "rw"):
            with fails(errno.EACCES):
                Ksock(0, mode)

    as_user(try_it)


# PEERINFO.


@pytest.mark.rule(36)
@pytest.mark.abi("PEERINFO")
def test_a_peer_is_who_opened_it(ksock: OpenKsock) -> None:
    asker, other = ksock(mode="r"), ksock()
    expected = (other.ksock_id(), os.getpid(), 0, 0)
    assert raw.peer_info(asker, other.ksock_id()) == expected
    assert raw.peer_info(asker, asker.ksock_id()) == (asker.ksock_id(), os.getpid(), 0, 0)


@pytest.mark.rule(31, 36)
@pytest.mark.abi("PEERINFO", "from")
def test_a_sender_of_another_user_is_known(ksock: OpenKsock, open_to_all: None, child: StartChild) -> None:
    listener = ksock()
    listener.bind("$.A")

    def send() -> Ksock:
        os.setgroups([])
        os.setresgid(SOMEBODY + 1, SOMEBODY + 1, SOMEBODY + 1)
        os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
        sender = Ksock()
        sender.send_msg(Announcement("$.A"))
        return sender

    process = child(send)
    (packet,) = packets(listener)
    assert raw.peer_info(listener, packet.from_) == (packet.from_, process.pid, SOMEBODY, SOMEBODY + 1)
    process.kill()
    with refused(errno.ESRCH):
        raw.peer_info(listener, packet.from_)


@pytest.mark.rule(36)
@pytest.mark.abi("PEERINFO")
def test_changing_later_does_not_change_who_opened_it(ksock: OpenKsock, child: StartChild) -> None:
    asker = ksock()

    def open_and_change() -> Ksock:
        opened = Ksock()
        become(SOMEBODY)
        opened.send_msg(Announcement("$.A"))
        return opened

    asker.bind("$.A")
    process = child(open_and_change)
    (packet,) = packets(asker)
    assert raw.peer_info(asker, packet.from_) == (packet.from_, process.pid, 0, 0)


@pytest.mark.rule(36)
@pytest.mark.abi("PEERINFO")
def test_unknown_peers(ksock: OpenKsock) -> None:
    asker, gone = ksock(), ksock()
    gone_id = gone.ksock_id()
    gone.close()
    for id in (0, gone_id, 0xFFFFFFFF):
        with refused(errno.ESRCH):
            raw.peer_info(asker, id)


@pytest.mark.rule(36)
def test_pids_are_those_of_the_askers_namespace(ksock: OpenKsock) -> None:
    outer = ksock()
    outer.bind("$.A")

    def look() -> tuple[int, int]:
        with Ksock() as inner:
            inner.send_msg(Announcement("$.A"))
            assert raw.peer_info(outer, inner.ksock_id())[1] == 1
            return raw.peer_info(inner, inner.ksock_id())[1], raw.peer_info(inner, outer.ksock_id())[1]

    def enter() -> tuple[int, int]:
        unshare(CLONE_NEWPID)
        return in_child(look)

    assert in_child(enter) == (1, 0)


@pytest.mark.rule(36)
def test_users_are_those_of_the_askers_namespace(
    ksock: OpenKsock, open_to_all: None, child: StartChild
) -> None:
    by_root = ksock()

    def open_as_somebody() -> Ksock:
        become(SOMEBODY)
        return Ksock()

    somebody = child(open_as_somebody)
    by_somebody = by_root.ksock_id() + 1
    assert raw.peer_info(by_root, by_somebody)[1:] == (somebody.pid, SOMEBODY, SOMEBODY)

    def look() -> list[tuple[int, int]]:
        with Ksock() as asker:
            unshare(CLONE_NEWUSER)
            before = raw.peer_info(asker, by_root.ksock_id())[2:]
            for file, line in (("uid_map", "7 0 1"), ("setgroups", "deny"), ("gid_map", "7 0 1")):
                Path("/proc/self", file).write_text(line)
            return [before, *(raw.peer_info(asker, id)[2:] for id in (by_root.ksock_id(), by_somebody))]

    overflow = (65534, 65534)
    assert in_child(look) == [overflow, (7, 7), overflow]


# Limits of users.


@pytest.mark.rule(33)
def test_too_many_ksocks_are_emfile(open_to_all: None) -> None:
    def try_it() -> None:
        kept = [Ksock(), Ksock(mode="r")]
        with refused(errno.EMFILE):
            Ksock()
        kept[0].close()
        kept.append(Ksock())
        with refused(errno.EMFILE):
            Ksock()
        for one in kept:
            one.close()

    with parameter("max_user_ksocks", 2):
        as_user(try_it)
        as_user(try_it, SOMEBODY)


@pytest.mark.rule(33, 40)
def test_limits_of_users_span_devices(ksock: OpenKsock, new_device: NewDevice) -> None:
    device = new_device()
    here = ksock()
    with parameter("max_user_ksocks", 1), refused(errno.EMFILE):
        Ksock(device)
    with Ksock(device) as there:
        there.bind("$.A")
        with parameter("max_user_bindings", 1), refused(errno.ENOSPC):
            here.bind("$.A")


@pytest.mark.rule(11, 33)
@pytest.mark.axiom("isolation")
def test_one_users_bindings_are_not_anothers(ksock: OpenKsock, open_to_all: None) -> None:
    roots = ksock()

    def try_it() -> None:
        with Ksock() as first, Ksock() as second:
            first.bind("$.A")
            second.bind("$.A")
            with refused(errno.ENOSPC):
                second.bind("$.B")
            first.close()
            second.bind("$.B")

    with parameter("max_user_bindings", 2):
        for name in ("$.A", "$.B"):
            roots.bind(name)
        as_user(try_it)
        with refused(errno.ENOSPC):
            roots.bind("$.C")


MEGABYTE, HALF = (raw.message(b"$.A", bytes(size)) for size in ((1 << 20) - 100, 1 << 19))


@pytest.mark.rule(13, 37)
def test_a_users_messages_have_a_limit(open_to_all: None) -> None:
    def try_it() -> None:
        with Ksock() as sender:
            with refused(errno.ENOBUFS):
                sender.write_data(MEGABYTE)
            sender.discard()
            sender.write_data(HALF)
            with Ksock() as second:
                with refused(errno.ENOBUFS):
                    second.write_data(HALF)
                sender.send()
                raw.send(second, HALF)

    with parameter("max_user_bytes", 800_000):
        as_user(try_it)


@pytest.mark.rule(37)
def test_an_open_that_fails_is_charged_nothing(open_to_all: None) -> None:
    """Whatever it lacks; a user that goes and is still charged is a warning in the kernel log."""

    def opens() -> bool:
        try:
            Ksock().close()
        except OSError as error:
            assert error.errno == errno.ENOBUFS
            return False
        return True

    limit, has_opened = 0, False
    while not has_opened:
        limit += 500
        with parameter("max_user_bytes", limit):
            has_opened = as_nobody(opens)
    assert limit > 3000


@pytest.mark.rule(13, 37)
def test_a_write_can_be_tried_again_after_enobufs(ksock: OpenKsock) -> None:
    sender, listener = ksock(), ksock()
    listener.bind("$.A")
    sender.write_data(MEGABYTE[:20])
    with parameter("max_user_bytes", 1000), refused(errno.ENOBUFS):
        os.write(sender.fileno(), MEGABYTE[20:])
    sender.write_data(MEGABYTE[20:])
    sender.send()
    assert raw.receive(listener)[32:] == MEGABYTE[32:]


@pytest.mark.rule(30, 37)
def test_a_message_being_read_counts(open_to_all: None) -> None:
    """Until all of it has been read, or the next one is asked for."""

    def try_it() -> None:
        with Ksock() as one, Ksock() as other:
            one.bind("$.A")
            raw.send(one, HALF)
            one.next_msg()
            os.read(one.fileno(), 1000)
            with refused(errno.ENOBUFS):
                other.write_data(HALF)
            assert len(os.read(one.fileno(), 1 << 20)) == len(HALF) - 1000
            assert (one.len_left(), os.read(one.fileno(), 1)) == (0, b"")
            raw.send(other, HALF)
            one.next_msg()
            with refused(errno.ENOBUFS):
                other.write_data(HALF)
            assert one.next_msg() == 0
            raw.send(other, HALF)
            one.next_msg()

    with parameter("max_user_bytes", 800_000):
        for _ in range(2):
            as_user(try_it)


@pytest.mark.rule(20, 37)
def test_a_short_message_counts_for_what_it_takes(open_to_all: None) -> None:
    """It takes more than its bytes, and a message that is sent to oneself is paid for once."""
    limit = 1_000_000

    def try_it() -> None:
        with Ksock() as one:
            one.set_max_messages(10_000)
            one.bind("$.A")
            # What one user sends to itself it has paid for as it was written.
            with fails(errno.ENOBUFS):
                for _ in range(10_000):
                    raw.send(one, raw.message(b"$.A"))
            taken = limit / one.num_messages()
            assert 2 * len(raw.message(b"$.A")) < taken < 400

    with parameter("max_user_bytes", limit):
        as_user(try_it)


def neglect() -> list[Ksock]:
    """Two KSocks of another user, listening to $.A and $.B, who never reads."""
    become(NOBODY)
    opened = [Ksock(), Ksock()]
    for one, name in zip(opened, ("$.A", "$.B")):
        one.bind(name)
    return opened


@pytest.mark.rule(20, 37, 43)
@pytest.mark.axiom("isolation", "loss")
def test_a_reader_who_does_not_read_pays_himself(
    ksock: OpenKsock, open_to_all: None, child: StartChild
) -> None:
    sender, roomy = ksock(), ksock()
    roomy.bind("$.*")
    child(neglect)
    first, second = (("ksock", 0, roomy.ksock_id() + more) for more in (1, 2))
    with parameter("max_user_bytes", 5 << 19):
        for _ in range(4):
            raw.send(sender, MEGABYTE)
            assert names(roomy) == ["$.A"]
        stats = dict(stats_lines())[first]
        assert stats["queued"] + stats["lost"] == 4
        assert stats["queued"] == 2
        with refused(errno.ENOBUFS, serials=1):
            raw.send(sender, raw.message(b"$.A", bytes(1 << 19), flags=raw.ALL_OR_FAIL))
        # An empty queue is no exception, as long as the user has anything else.
        raw.send(sender, raw.message(b"$.B", bytes(900_000)))
        stats = dict(stats_lines())[second]
        assert (stats["queued"], stats["lost"]) == (0, 1)


@pytest.mark.rule(37)
@pytest.mark.abi("BIND")
def test_bindings_count_too(open_to_all: None) -> None:
    def bind_much() -> None:
        with Ksock() as one:
            with fails(errno.ENOBUFS):
                for number in range(1000):
                    one.bind(f"$.N{number}." + "a" * 900)
            with refused(errno.ENOBUFS):
                one.bind("$.N." + "a" * 900)
            one.unbind("$.N0." + "a" * 900)
            one.bind("$.N." + "a" * 900)

    with parameter("max_user_bytes", 50_000):
        as_user(bind_much)


@pytest.mark.rule(37)
@pytest.mark.abi("SEND")
def test_requests_count_too(ksock: OpenKsock, open_to_all: None) -> None:
    replier = ksock()
    replier.bind("$.A", replier=True)

    def ask_much() -> None:
        with Ksock() as one:
            one.set_max_messages(10_000)
            with fails(errno.ENOBUFS):
                for _ in range(10_000):
                    one.send_msg(Request("$.A"))
                    replier.next_msg()
            with refused(errno.ENOBUFS):
                one.send_msg(Request("$.A"))
            one.abandon(one.last_msg_id())
            one.send_msg(Request("$.A"))

    with parameter("max_user_bytes", 1_000_000):
        as_user(ask_much)


@pytest.mark.rule(11)
@pytest.mark.abi("BIND")
def test_bindings_of_a_user_to_one_name_are_few(open_to_all: None) -> None:
    """Each brings a copy of the same message. Wildcards are names like others."""

    def try_it() -> None:
        with Ksock() as one:
            for number in range(20):
                one.bind(f"$.N{number}.*")
            for _ in range(16):
                one.bind("$.A")
            with refused(errno.ENOSPC):
                one.bind("$.A")
            one.bind("$.A", replier=True)
            one.unbind("$.A")
            one.bind("$.A")

    as_user(try_it)


@pytest.mark.rule(22, 27, 37)
@pytest.mark.axiom("answer", "loss")
def test_a_limit_below_what_a_user_has_takes_nothing_back(ksock: OpenKsock, open_to_all: None) -> None:
    """What would come besides is missed, and counted. An answer has its memory already."""
    sender, replier = ksock(), ksock()
    listener, asker = opened_by(ksock, NOBODY), opened_by(ksock, NOBODY)
    listener.bind("$.A")
    replier.bind("$.Asked", replier=True)
    raw.send(sender, raw.message(b"$.A"))
    raw.send(asker, raw.message(b"$.Asked", flags=raw.WANT_A_REPLY))
    sender.write_data(raw.message(b"$.A"))
    with parameter("max_user_bytes", 1):
        sender.send()
        assert (listener.num_messages(), listener.lost_messages()) == (1, 1)
        replier.close()
        listener.set_max_messages(1)
    assert names(asker) == ["$.KBUS.Replier.GoneAway"]
    assert names(listener) == ["$.A"]
