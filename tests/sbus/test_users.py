# SPDX-License-Identifier: MIT
"""How much the clients of one user may have together."""

from __future__ import annotations

import pytest

from kbus.sbus.limits import Limits
from kbus.sbus.users import OverUserLimit, Users


def fill(users: Users, uid: int) -> int:
    """Connect as often as the user may."""
    count = 0
    while True:
        try:
            users.connect(uid)
        except OverUserLimit:
            return count
        count += 1


def test_rule_a_user_leaves_to_others_as_much_as_it_has() -> None:
    users = Users(Limits(), 1000)
    assert [fill(users, uid) for uid in range(5)] == [500, 250, 125, 63, 31]


def test_rule_a_limit_that_is_given_is_the_limit() -> None:
    users = Users(Limits(user_clients=3), 4)
    one = users.connect(1)
    assert fill(users, 1) == 2
    with pytest.raises(OverUserLimit, match="user 1 has 3 clients") as caught:
        users.connect(1)
    assert "--max-user-clients" in str(caught.value)
    users.disconnect(one)
    assert fill(users, 1) == 1


def test_a_user_without_clients_is_forgotten() -> None:
    users = Users(Limits(), 100)
    for uid in range(1000):
        users.disconnect(users.connect(uid))
    assert not users._users
