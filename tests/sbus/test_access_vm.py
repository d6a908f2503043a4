# SPDX-License-Identifier: MIT
"""Access by key for several users and groups, and for what KBUS programs send and hear."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbus import Announcement
from kbus.sbus import Client
from tests.kernel.helpers import PATIENCE
from tests.kernel.processes import in_child
from tests.sbus.conftest import OpenKsock, StartDaemon
from tests.sbus.running import Daemon, receive, settle

ALICE, BOB = 1001, 1002
STAFF = 3000
RULES = f"""\
default deny
allow both user:0 ""
deny subscribe user:{BOB} Lab/Secret/
allow subscribe group:{STAFF} Lab/
allow publish user:{ALICE} Lab/*/Set
"""


@pytest.fixture
def running(place: Path, daemon: StartDaemon) -> Daemon:
    """A daemon with these rules, that everybody can connect to."""
    os.chmod(place, 0o755)
    rules = place / "rules"
    rules.write_text(RULES)
    return daemon("-o", "--access", str(rules))


def become_member(uid: int, gid: int, groups: list[int]) -> None:
    """Give up root for a user, its group, and supplementary groups, for good."""
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def hears(running: Daemon, uid: int, gid: int, groups: list[int]) -> list[bytes]:
    """The keys of what somebody with these ids receives, of all there is in the laboratory."""

    def listen() -> list[bytes]:
        become_member(uid, gid, groups)
        with Client(running.path) as client:
            client.subscribe("")
            client.subscribe("Lab/Secret/Door")
            settle(client)
            os.write(ready, b".")
            os.read(go, 1)
            settle(client)
            keys = []
            while (message := client.receive(0)) is not None:
                keys.append(message.key)
            return keys

    reader, ready = os.pipe()
    go, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(reader, 1)
        with running.client() as publisher:
            for key in ("Lab/Door", "Lab/Secret/Door", "Elsewhere"):
                publisher.publish(key)
            settle(publisher)
        os.write(writer, b".")
        os._exit(0)
    try:
        return in_child(listen)
    finally:
        os.waitpid(pid, 0)
        for fd in (reader, ready, go, writer):
            os.close(fd)


@pytest.mark.parametrize(
    ("uid", "gid", "groups", "expected"),
    [
        (0, 0, [], [b"Lab/Door", b"Lab/Secret/Door", b"Elsewhere"]),
        (ALICE, ALICE, [], []),
        (ALICE, STAFF, [], [b"Lab/Door", b"Lab/Secret/Door"]),
        (ALICE, ALICE, [STAFF], [b"Lab/Door", b"Lab/Secret/Door"]),
        (ALICE, ALICE, [*range(4000, 5000), STAFF], [b"Lab/Door", b"Lab/Secret/Door"]),
        (BOB, BOB, [STAFF], [b"Lab/Door"]),
    ],
    ids=["root", "nobody", "group", "supplementary", "thousand-groups", "denied"],
)
def test_rule_who_may_hear_what(
    running: Daemon, uid: int, gid: int, groups: list[int], expected: list[bytes]
) -> None:
    assert hears(running, uid, gid, groups) == expected


def test_rule_what_is_denied_does_not_reach_the_device(running: Daemon, ksock: OpenKsock) -> None:
    listener = ksock()
    listener.bind("$.*")

    def publish() -> None:
        become_member(ALICE, ALICE, [])
        with Client(running.path) as client:
            for key in ("Lab/Door", "Lab/Door/Set", "Lab/Secret/Door"):
                client.publish(key)
            settle(client)

    in_child(publish)
    assert listener.wait_for_msg(PATIENCE).name == "$.Lab.Door.Set"  # type: ignore[union-attr]
    assert listener.read_next_msg() is None
    assert running.dropped() == {"publish-denied": 2}
    assert f"user {ALICE}): dropped, publish-denied: publish to b'Lab/Door', by default" in running.said()


def test_what_is_too_large_is_dropped_for_whom_it_is_denied_too(running: Daemon, ksock: OpenKsock) -> None:
    """Which had no client to count it for, and ended the daemon."""
    sender = ksock()

    def subscribe() -> None:
        become_member(BOB, BOB, [])
        with Client(running.path) as client:
            client.subscribe("")
            settle(client)
            sender.send_msg(Announcement("$.Lab.Large", bytes(500_000)))
            settle(client)

    in_child(subscribe)
    assert running.dropped() == {"subscribe-denied": 1}


def test_rule_what_kbus_programs_send_is_for_who_may_hear_it(running: Daemon, ksock: OpenKsock) -> None:
    """A KBUS program may send anything, and the rules say who hears it."""

    def listen() -> list[bytes]:
        become_member(BOB, BOB, [STAFF])
        with Client(running.path) as client:
            client.subscribe("")
            settle(client)
            for name in ("$.Lab.Secret.Door", "$.Elsewhere", "$.Lab.Door"):
                sender.send_msg(Announcement(name))
            return [key for key, _ in receive(client, 1)]

    sender = ksock()
    assert in_child(listen) == [b"Lab/Door"]
    assert running.dropped() == {"subscribe-denied": 2}
