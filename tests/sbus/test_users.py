# SPDX-License-Identifier: MIT
"""How much the clients of one user may have together."""

from __future__ import annotations

import os

import pytest

from kbus.sbus.counts import Dropped
from kbus.sbus.limits import PACKET_COST, BridgeLimits, Users, cost
from tests.kernel.helpers import wait_until
from tests.sbus.conftest import StartDaemon
from tests.sbus.running import Daemon, receive, settle

MIB = 1 << 20


def fill(users: Users, uid: int) -> int:
    """Connect as often as the user may."""
    count = 0
    while True:
        try:
            users.check_clients(uid)
        except Dropped:
            return count
        users.connect(uid)
        count += 1


def test_rule_a_user_leaves_to_others_as_much_as_it_has() -> None:
    users = Users(BridgeLimits(), 1000)
    assert [fill(users, uid) for uid in range(1, 6)] == [496, 248, 124, 62, 31]


def test_rule_some_places_are_left_for_root_and_the_daemons_own_user() -> None:
    """However many others there are; then as many as these two use."""
    users = Users(BridgeLimits(), 1000)
    for uid in range(1, 100):
        fill(users, uid)
    assert fill(users, os.geteuid()) + fill(users, 0) == 8
    few = Users(BridgeLimits(), 2)
    assert (fill(few, 1), fill(few, 0)) == (1, 1)


def test_rule_places_are_left_for_root_whatever_a_user_may_have() -> None:
    users = Users(BridgeLimits(user_clients=16_383), 16_383)
    assert (fill(users, 1), fill(users, 0)) == (16_375, 8)


def test_rule_root_may_have_all_that_there_are_descriptors_for() -> None:
    assert fill(Users(BridgeLimits(), 26), 0) == 26


def test_rule_a_limit_that_is_given_is_the_limit() -> None:
    users = Users(BridgeLimits(user_clients=3), 4)
    one = users.connect(1)
    assert fill(users, 1) == 2
    with pytest.raises(Dropped, match="user 1 has 3 clients") as caught:
        users.check_clients(1)
    assert "--max-user-clients" in str(caught.value)
    users.disconnect(one)
    assert fill(users, 1) == 1


def test_a_user_without_clients_is_forgotten() -> None:
    users = Users(BridgeLimits(), 100)
    for uid in range(1000):
        users.disconnect(users.connect(uid))
    assert not users._users


def test_rule_memory_for_subscriptions_of_a_user_is_counted_together(without_kbus: StartDaemon) -> None:
    running = without_kbus("--max-user-subscription-bytes", str(3 * cost(b"a", b"/")))
    with running.client() as one, running.client() as other:
        for client in (one, other):
            for pattern in ("a", "b"):
                client.subscribe(pattern)
            settle(client)
        assert running.dropped() == {"too-many-subscriptions": 1}
        assert "(--max-user-subscription-bytes)" in running.said()
        for pattern in ("a", "b"):
            one.unsubscribe(pattern)
        settle(one)
        assert of_user(running)["subscription_bytes"] == cost(b"a", b"/")
        other.close()
        wait_until(lambda: of_user(running)["subscriptions"] == 0, "they are removed")
        one.subscribe("c")
        one.publish("c")
        assert receive(one, 1) == [(b"c", b"")]


def test_rule_bytes_queued_for_a_user_are_counted_together(without_kbus: StartDaemon) -> None:
    """Of one who takes what is queued, and of one who leaves, they are given back."""
    running = without_kbus("--max-user-queued-bytes", str(MIB))
    with running.client() as one, running.client() as other, running.client() as publisher:
        for client in (one, other):
            client.subscribe("a")
            settle(client)
        for _ in range(30):
            publisher.publish("a", b"x" * 100_000)
        settle(publisher)
        queued = of_user(running)["queued_bytes"]
        assert MIB - 100_006 - PACKET_COST <= queued <= MIB
        assert running.dropped().keys() == {"user-queued-bytes"}
        assert f"wait for clients of user {os.getuid()} (--max-user-queued-bytes)" in running.said()
        one.close()
        wait_until(lambda: running.stats()[0]["clients"] == 3, "it has left")
        left = of_user(running)["queued_bytes"]
        assert 0 < left == running.stats()[0]["queued_bytes"] < queued
        while other.receive(0.2):
            pass
        assert of_user(running)["queued_bytes"] == 0


def test_rule_queues_of_a_user_leave_as_much_to_others(without_kbus: StartDaemon) -> None:
    """Unless a limit is given. So a few users together cannot have all."""
    running = without_kbus("--max-queued-bytes-in-all", str(MIB))
    with running.client() as slow, running.client() as publisher:
        slow.subscribe("a")
        settle(slow)
        for _ in range(30):
            publisher.publish("a", b"x" * 100_000)
        settle(publisher)
        assert MIB / 2 - 100_200 < of_user(running)["queued_bytes"] <= MIB / 2
        assert running.dropped().keys() == {"user-queued-bytes"}


def test_rule_one_that_has_left_counts_no_more(without_kbus: StartDaemon) -> None:
    """However it has left: without a word, after one, or for what it has sent."""
    running = without_kbus("--max-user-clients", "3")
    for packet in (None, b"SUB a", b"SUB !/cred/*"):
        for _ in range(10):
            with running.socket() as connection:
                if packet:
                    connection.send(packet)
            wait_until(lambda: of_user(running)["clients"] == 1, "it has left")
    assert running.stats()[0]["refused"] == {}


def of_user(running: Daemon) -> dict[str, int]:
    """What the daemon tells of this process's user."""
    (found,) = (each for each in running.stats() if each.get("user") == os.getuid())
    return found
