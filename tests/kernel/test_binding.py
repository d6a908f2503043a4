# SPDX-License-Identifier: MIT
"""Binding and unbinding: rules 6 to 12."""

from __future__ import annotations

import errno
from contextlib import closing

import pytest

from kbus import Announcement, Request
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import bindings, names, packets, refused, stats_lines, take, texts
from tests.kernel.module import parameter

UNMAPPED = 1
"""An address at which no process has memory."""


@pytest.mark.rule(6)
@pytest.mark.abi("BIND")
def test_each_listener_binding_gives_a_copy(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    for name in ["$.A.B", "$.A.B", "$.A.B", "$.A.%", "$.*"]:
        listener.bind(name)
    sender.send_msg(Announcement("$.A.B"))
    assert names(listener) == ["$.A.B"] * 5


@pytest.mark.rule(6)
@pytest.mark.abi("UNBIND")
def test_bindings_are_unbound_one_at_a_time(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    for _ in range(3):
        listener.bind("$.A")
    for left in (2, 1, 0):
        listener.unbind("$.A")
        sender.send_msg(Announcement("$.A"))
        assert len(names(listener)) == left
    with refused(errno.EINVAL):
        listener.unbind("$.A")


@pytest.mark.rule(6, 10)
def test_the_newest_binding_is_unbound_first(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.bind("$.A")
    sender.send_msg(Announcement("$.A", b"before"))
    listener.bind("$.A")
    sender.send_msg(Announcement("$.A", b"after"))
    assert listener.num_messages() == 3
    listener.unbind("$.A")
    assert texts(listener) == [b"before", b"after"]


@pytest.mark.rule(6)
@pytest.mark.abi("UNBIND")
@pytest.mark.parametrize(
    ("name", "replier"),
    [("$.A", False), ("$.A.B", True), ("$.A.%", False), ("$.A.*", False), ("$.*", True), ("$.A.B.C", False)],
)
def test_unbind_must_match_name_and_kind(ksock: OpenKsock, name: str, replier: bool) -> None:
    one = ksock()
    one.bind("$.A.B")
    one.bind("$.A.%", replier=True)
    with refused(errno.EINVAL):
        one.unbind(name, replier)


@pytest.mark.rule(6)
@pytest.mark.parametrize("replier", [False, True])
def test_nobody_unbinds_for_another(ksock: OpenKsock, replier: bool) -> None:
    owner, other = ksock(), ksock()
    owner.bind("$.A", replier)
    with refused(errno.EINVAL):
        other.unbind("$.A", replier)


@pytest.mark.rule(7)
@pytest.mark.abi("BIND")
@pytest.mark.parametrize("name", ["$.A", "$.A.*", "$.A.%"])
@pytest.mark.parametrize("same", [True, False])
def test_one_replier_a_name(ksock: OpenKsock, name: str, same: bool) -> None:
    first = ksock()
    second = first if same else ksock()
    first.bind(name, replier=True)
    with refused(errno.EADDRINUSE):
        second.bind(name, replier=True)
    first.unbind(name, replier=True)
    second.bind(name, replier=True)
    assert second.find_replier(name) == second.ksock_id()


@pytest.mark.rule(7)
def test_wildcards_are_names_of_their_own(ksock: OpenKsock) -> None:
    owners = {name: ksock() for name in ("$.A.*", "$.A.%", "$.A.B", "$.*", "$.%")}
    for name, owner in owners.items():
        owner.bind(name, replier=True)
    assert {name: owner.find_replier(name) for name, owner in owners.items()} == {
        name: owner.ksock_id() for name, owner in owners.items()
    }


@pytest.mark.rule(7)
def test_a_name_is_free_again_after_close(ksock: OpenKsock) -> None:
    first, second = ksock(), ksock()
    first.bind("$.A", replier=True)
    first.close()
    second.bind("$.A", replier=True)
    assert second.find_replier("$.A") == second.ksock_id()


@pytest.mark.rule(8)
@pytest.mark.abi("BIND", "UNBIND")
@pytest.mark.parametrize("which", ["BIND", "UNBIND"])
def test_replier_needs_writing(ksock: OpenKsock, which: str) -> None:
    reader = ksock(mode="r")
    with refused(errno.EBADF):
        raw.bind_request(reader, which, b"$.A", is_replier=1)


@pytest.mark.rule(8)
def test_listener_needs_only_reading(ksock: OpenKsock) -> None:
    reader, sender = ksock(mode="r"), ksock()
    reader.bind("$.A")
    sender.send_msg(Announcement("$.A"))
    assert names(reader) == ["$.A"]


@pytest.mark.rule(8)
@pytest.mark.parametrize("is_replier", [0, 1])
@pytest.mark.parametrize("which", ["BIND", "UNBIND"])
def test_no_binding_without_reading(
    ksock: OpenKsock, write_only: raw.Descriptor, which: str, is_replier: int
) -> None:
    with refused(errno.EBADF):
        raw.bind_request(write_only, which, b"$.A", is_replier=is_replier)


@pytest.mark.rule(9)
def test_the_most_specific_replier_gets_the_request(ksock: OpenKsock) -> None:
    sender = ksock()
    ranking = ["$.A.B.C", "$.A.B.%", "$.A.B.*", "$.A.*", "$.*"]
    repliers = {name: ksock() for name in ranking}
    for name in sorted(ranking):
        repliers[name].bind(name, replier=True)
    for name in ranking:
        sender.send_msg(Request("$.A.B.C"))
        assert {other: replier.num_messages() for other, replier in repliers.items()} == {
            other: int(other == name) for other in ranking
        }
        assert take(repliers[name]).wants_us_to_reply()
        repliers[name].unbind(name, replier=True)
    with refused(errno.EADDRNOTAVAIL, serials=1):
        sender.send_msg(Request("$.A.B.C"))


@pytest.mark.rule(9)
@pytest.mark.parametrize(
    ("binding", "name"), [("$.A.%", "$.A.B.C"), ("$.%", "$.A.B"), ("$.A.*", "$.A"), ("$.A.B", "$.A.B.C")]
)
def test_a_replier_that_does_not_match_gets_nothing(ksock: OpenKsock, binding: str, name: str) -> None:
    replier, sender = ksock(), ksock()
    replier.bind(binding, replier=True)
    with refused(errno.EADDRNOTAVAIL, serials=1):
        sender.send_msg(Request(name))


@pytest.mark.rule(10)
@pytest.mark.abi("UNBIND")
def test_unbind_removes_the_copies_of_that_binding_only(ksock: OpenKsock) -> None:
    listener, other, sender = ksock(), ksock(), ksock()
    for name in ["$.A.B", "$.A.%", "$.A.*"]:
        listener.bind(name)
    other.bind("$.A.%")
    for data in (b"1", b"2"):
        sender.send_msg(Announcement("$.A.B", data))
    sender.send_msg(Announcement("$.A.C", b"3"))
    listener.unbind("$.A.%")
    assert listener.num_messages() == 5
    listener.unbind("$.A.B")
    assert texts(listener) == [b"1", b"2", b"3"]
    assert texts(other) == [b"1", b"2", b"3"]


@pytest.mark.rule(10)
def test_unbinding_the_listener_keeps_the_flagged_copy(ksock: OpenKsock) -> None:
    both, sender = ksock(), ksock()
    both.bind("$.A")
    both.bind("$.A", replier=True)
    sender.send_msg(Request("$.A"))
    both.unbind("$.A")
    assert [message.wants_us_to_reply() for message in both] == [True]
    assert names(sender) == []


@pytest.mark.rule(10)
def test_unbinding_the_replier_keeps_the_plain_copy(ksock: OpenKsock) -> None:
    both, sender = ksock(), ksock()
    both.bind("$.A")
    both.bind("$.A", replier=True)
    sender.send_msg(Request("$.A"))
    both.unbind("$.A", replier=True)
    assert [message.wants_us_to_reply() for message in both] == [False]
    assert names(sender) == ["$.KBUS.Replier.Unbound"]


@pytest.mark.rule(10)
@pytest.mark.abi("UNBIND")
@pytest.mark.axiom("answer")
def test_unread_requests_are_answered_by_a_status(ksock: OpenKsock) -> None:
    replier, listener, first, second = ksock(), ksock(), ksock(), ksock()
    replier.bind("$.A", replier=True)
    replier.bind("$.B", replier=True)
    listener.bind("$.A")
    wanted = [sender.send_msg(Request("$.A")) for sender in (first, second, first)]
    first.send_msg(Request("$.B"))
    replier.unbind("$.A", replier=True)
    statuses = packets(first)
    assert [status.name for status in statuses] == [b"$.KBUS.Replier.Unbound"] * 2
    assert [status.in_reply_to[1] for status in statuses] == [wanted[0].serial_num, wanted[2].serial_num]
    assert {status.from_ for status in statuses} == {replier.ksock_id()}
    assert take(second).in_reply_to == wanted[1]
    assert names(replier) == ["$.B"]
    assert len(names(listener)) == 3


@pytest.mark.rule(10, 26)
@pytest.mark.axiom("answer")
def test_a_popped_request_can_be_answered_after_unbind(ksock: OpenKsock) -> None:
    replier, sender = ksock(), ksock()
    replier.bind("$.A", replier=True)
    wanted = sender.send_msg(Request("$.A"))
    length = replier.next_msg()
    replier.unbind("$.A", replier=True)
    assert names(sender) == []
    request = raw.parse(replier.read_data(length))
    raw.send(replier, raw.message(b"$.A", to=request.from_, in_reply_to=request.id))
    answer = take(sender)
    assert (answer.name, answer.in_reply_to) == ("$.A", wanted)


@pytest.mark.rule(10, 19)
@pytest.mark.abi("MSGONLYONCE")
def test_the_one_plain_copy_came_by_the_newest_binding(ksock: OpenKsock) -> None:
    listener, sender = ksock(), ksock()
    listener.want_messages_once(True)
    listener.bind("$.A.B")
    listener.bind("$.A.*")
    sender.send_msg(Announcement("$.A.B"))
    listener.unbind("$.A.B")
    assert listener.num_messages() == 1
    listener.bind("$.A.B")
    listener.unbind("$.A.*")
    assert listener.num_messages() == 0


@pytest.mark.rule(1, 2, 11)
@pytest.mark.abi("BIND", "UNBIND")
@pytest.mark.parametrize("which", ["BIND", "UNBIND"])
@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ({"name": b"$.A", "is_replier": 3}, errno.EINVAL),
        ({"name": b"$.A", "is_replier": 0xFFFFFFFF, "address": 0}, errno.EINVAL),
        ({"name": b"$.A", "address": 0}, errno.EFAULT),
        ({"name": b"", "address": 0}, errno.EFAULT),
        ({"name": b"", "name_len": 0}, errno.EBADMSG),
        ({"name": b"$.A", "address": UNMAPPED, "name_len": 1001}, errno.ENAMETOOLONG),
        ({"name": b"$.A", "address": UNMAPPED, "name_len": 0xFFFFFFFF}, errno.ENAMETOOLONG),
        ({"name": b"$.A", "address": UNMAPPED}, errno.EFAULT),
        ({"name": b"$.A", "address": 1 << 63}, errno.EFAULT),
        ({"name": b"$.taken."}, errno.EBADMSG),
    ],
)
def test_arguments_are_checked_in_order(
    ksock: OpenKsock, which: str, arguments: dict[str, object], number: int
) -> None:
    one = ksock()
    with refused(number):
        raw.bind_request(one, which, **arguments)  # type: ignore[arg-type]


@pytest.mark.rule(8, 11)
def test_access_is_checked_before_the_address(ksock: OpenKsock) -> None:
    reader = ksock(mode="r")
    with refused(errno.EBADF):
        raw.bind_request(reader, "BIND", b"$.A", is_replier=1, address=0)


@pytest.mark.rule(11)
@pytest.mark.abi("BIND")
def test_a_name_may_end_where_memory_ends(ksock: OpenKsock) -> None:
    one = ksock()
    with closing(raw.EdgeOfMemory()) as memory:
        address = memory.store(b"$.A")
        raw.bind_request(one, "BIND", b"$.A", address=address)
        with refused(errno.EFAULT):
            raw.bind_request(one, "BIND", b"$.A", name_len=4, address=address)
    assert [line.name for line in bindings()] == ["$.A"]


@pytest.mark.rule(11, 33)
@pytest.mark.parametrize("replier", [False, True])
@pytest.mark.parametrize("limit", ["max_ksock_bindings", "max_user_bindings"])
def test_too_many_bindings_are_enospc(ksock: OpenKsock, limit: str, replier: bool) -> None:
    one = ksock()
    one.bind("$.A")
    one.bind("$.B", replier=True)
    with parameter(limit, 2):
        with refused(errno.ENOSPC):
            one.bind("$.C", replier)
        one.unbind("$.A")
        one.bind("$.C", replier)
        with refused(errno.EADDRINUSE):
            one.bind("$.B", replier=True)
    one.bind("$.D", replier)


@pytest.mark.rule(12)
@pytest.mark.abi("REPLIER")
def test_replier_is_literal(ksock: OpenKsock) -> None:
    one, asker = ksock(), ksock(mode="r")
    one.bind("$.A.*", replier=True)
    one.bind("$.B")
    assert raw.replier_query(asker, "REPLIER", b"$.A.*", ksock_id=99) == (1, one.ksock_id())
    for name in (b"$.A.B", b"$.A.%", b"$.A", b"$.*", b"$.B", b"$.C"):
        assert raw.replier_query(asker, "REPLIER", name, ksock_id=99) == (0, 0)


@pytest.mark.rule(12)
@pytest.mark.abi("RESOLVE")
def test_resolve_says_who_would_be_asked(ksock: OpenKsock) -> None:
    asker = ksock(mode="r")
    ranking = ["$.A.B", "$.A.%", "$.A.*", "$.*"]
    repliers = {name: ksock() for name in ranking}
    repliers["$.A.B"].bind("$.A.B")
    for name in ranking[::-1]:
        repliers[name].bind(name, replier=True)
    for name in ranking:
        assert raw.replier_query(asker, "RESOLVE", b"$.A.B", ksock_id=99) == (1, repliers[name].ksock_id())
        repliers[name].unbind(name, replier=True)
    assert raw.replier_query(asker, "RESOLVE", b"$.A.B", ksock_id=99) == (0, 0)


@pytest.mark.rule(12)
@pytest.mark.abi("RESOLVE")
def test_resolve_of_a_wildcard_is_ebadmsg(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.A.*", replier=True)
    with refused(errno.EBADMSG):
        raw.replier_query(one, "RESOLVE", b"$.A.*")


@pytest.mark.rule(11, 12)
@pytest.mark.abi("REPLIER", "RESOLVE")
@pytest.mark.parametrize("which", ["REPLIER", "RESOLVE"])
@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ({"name": b"", "address": 0}, errno.EFAULT),
        ({"name": b"", "name_len": 0}, errno.EBADMSG),
        ({"name": b"", "name_len": 1001, "address": UNMAPPED}, errno.ENAMETOOLONG),
        ({"name": b"$.A", "address": UNMAPPED}, errno.EFAULT),
    ],
)
def test_queries_check_their_argument(
    ksock: OpenKsock, which: str, arguments: dict[str, object], number: int
) -> None:
    one = ksock()
    with refused(number):
        raw.replier_query(one, which, **arguments)  # type: ignore[arg-type]


@pytest.mark.rule(6, 10)
def test_bindings_of_others_are_not_touched_by_close(ksock: OpenKsock) -> None:
    closing, staying, sender = ksock(), ksock(), ksock()
    for one in (closing, staying):
        one.bind("$.A")
    sender.send_msg(Announcement("$.A"))
    closing.close()
    sender.send_msg(Announcement("$.A"))
    assert len(names(staying)) == 2
    assert len([line for line in stats_lines() if line.key[0] == "ksock"]) == 2
