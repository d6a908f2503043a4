# SPDX-License-Identifier: MIT
"""Message names: rules 1 to 5."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from kbus import Announcement, Message, Request
from tests.kernel import raw
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import bindings, names, packets, refused, take

LONGEST = b"$." + b"a" * (raw.MAX_NAME_LEN - 2)
TOO_LONG = LONGEST + b"a"

LEGAL = [b"$.A", b"$.z", b"$.0", b"$.a1.B2.c3", b"$.KBUS", b"$.*", b"$.%", b"$.A.*", b"$.A.B.%", LONGEST]

# Empty names are refused for their length; see test_binding.py.
ILLEGAL = [
    *b"$ $. A .A $A A.B $$.A A$.B * %".split(),
    *b"$.A. $..A $.A..B $.A.B. $.. $.A.. $.*.".split(),
    *b"$.A-B $.A_B $.A/B $.A\0 $.\xc3\xa9 $.A\x80 $.@ $.[ $.` $.{ $.: $./ $.A$ $.$".split(),
    *b"$.*.A $.%.A $.A* $.*A $.A% $.%A $.** $.%% $.*% $.A.** $.*.* $.%.*".split(),
    *(b" $.A", b"$.A ", b"$.A B", b"$.A\n"),
]


def _bind(ksock: raw.HasFileno, name: bytes) -> None:
    raw.bind_request(ksock, "BIND", name)


def _bind_replier(ksock: raw.HasFileno, name: bytes) -> None:
    raw.bind_request(ksock, "BIND", name, is_replier=1)


def _unbind(ksock: raw.HasFileno, name: bytes) -> None:
    raw.bind_request(ksock, "UNBIND", name)


def _replier(ksock: raw.HasFileno, name: bytes) -> object:
    return raw.replier_query(ksock, "REPLIER", name)


def _resolve(ksock: raw.HasFileno, name: bytes) -> object:
    return raw.replier_query(ksock, "RESOLVE", name)


def _send(ksock: raw.HasFileno, name: bytes) -> object:
    return raw.send(ksock, raw.message(name))


TAKES_NAME = [
    pytest.param(_bind, marks=pytest.mark.abi("BIND")),
    pytest.param(_bind_replier, marks=pytest.mark.abi("BIND")),
    pytest.param(_unbind, marks=pytest.mark.abi("UNBIND")),
    pytest.param(_replier, marks=pytest.mark.abi("REPLIER")),
    pytest.param(_resolve, marks=pytest.mark.abi("RESOLVE")),
    pytest.param(_send, marks=pytest.mark.abi("SEND")),
]


def _errno_of(call: Callable[[], object]) -> int:
    try:
        call()
    except OSError as error:
        return error.errno or 0
    return 0


@pytest.mark.rule(1)
@pytest.mark.parametrize("operation", TAKES_NAME)
def test_illegal_names_are_ebadmsg(
    ksock: OpenKsock, operation: Callable[[raw.HasFileno, bytes], object]
) -> None:
    one = ksock()
    found = {name: _errno_of(lambda name=name: operation(one, name)) for name in ILLEGAL}  # type: ignore[misc]
    assert found == dict.fromkeys(ILLEGAL, errno.EBADMSG)
    assert bindings() == []


@pytest.mark.rule(1, 2)
@pytest.mark.parametrize("is_replier", [0, 1])
def test_legal_names_can_be_bound_and_unbound(ksock: OpenKsock, is_replier: int) -> None:
    one = ksock()
    for name in LEGAL:
        raw.bind_request(one, "BIND", name, is_replier=is_replier)
    assert [line.name.encode() for line in bindings()] == LEGAL[::-1]
    for name in LEGAL:
        raw.bind_request(one, "UNBIND", name, is_replier=is_replier)
    assert bindings() == []


@pytest.mark.rule(1, 2)
def test_legal_names_can_be_sent(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.*")
    plain = [name for name in LEGAL if name[-1:] not in b"*%"]
    for name in plain:
        raw.send(one, raw.message(name))
    assert [packet.name for packet in raw.receive_all(one)] == plain


@pytest.mark.rule(2)
@pytest.mark.parametrize("operation", TAKES_NAME)
def test_over_1000_bytes_is_enametoolong(
    ksock: OpenKsock, operation: Callable[[raw.HasFileno, bytes], object]
) -> None:
    one = ksock()
    with refused(errno.ENAMETOOLONG):
        operation(one, TOO_LONG)


@pytest.mark.rule(2)
def test_length_is_checked_before_syntax(ksock: OpenKsock) -> None:
    one = ksock()
    with refused(errno.ENAMETOOLONG):
        _bind(one, b"?" * 1001)


@pytest.mark.rule(2)
def test_case_matters(ksock: OpenKsock) -> None:
    lower, upper = ksock(), ksock()
    lower.bind("$.name")
    upper.bind("$.NAME", replier=True)
    lower.send_msg(Announcement("$.Name"))
    lower.send_msg(Announcement("$.name"))
    assert names(lower) == ["$.name"]
    with refused(errno.EINVAL):
        upper.unbind("$.name", replier=True)
    with refused(errno.EADDRNOTAVAIL, serials=1):
        lower.send_msg(Request("$.Name"))


@pytest.mark.rule(3)
@pytest.mark.parametrize(
    ("binding", "matching", "others"),
    [
        ("$.A.*", ["$.A.B", "$.A.B.C", "$.A.B.C.D"], ["$.A", "$.AA", "$.AA.B", "$.B", "$.B.A.C", "$.a.B"]),
        ("$.A.%", ["$.A.B", "$.A.CC"], ["$.A", "$.A.B.C", "$.AA.B", "$.B.C"]),
        ("$.*", ["$.A", "$.A.B", "$.KBUS"], []),
        ("$.%", ["$.A", "$.KBUS"], ["$.A.B"]),
        ("$.A.B", ["$.A.B"], ["$.A", "$.A.B.C", "$.A.BB", "$.B"]),
    ],
)
def test_what_a_binding_matches(
    ksock: OpenKsock, binding: str, matching: list[str], others: list[str]
) -> None:
    listener, sender = ksock(), ksock()
    listener.bind(binding)
    for name in others + matching:
        sender.send_msg(Announcement(name))
    assert names(listener) == matching


@pytest.mark.rule(4)
@pytest.mark.abi("SEND")
@pytest.mark.parametrize("name", ["$.*", "$.A.*", "$.A.%"])
@pytest.mark.parametrize("kind", [Announcement, Request])
def test_cannot_send_to_a_wildcard(ksock: OpenKsock, kind: Callable[[str], Message], name: str) -> None:
    sender, both = ksock(), ksock()
    both.bind(name)
    both.bind(name, replier=True)
    with refused(errno.EBADMSG):
        raw.send(sender, raw.message(name.encode(), flags=kind("$.A").flags))


@pytest.mark.rule(4)
def test_cannot_reply_with_a_wildcard(ksock: OpenKsock) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    sender.send_msg(Request("$.A"))
    request = raw.parse(raw.receive(replier))
    with refused(errno.EBADMSG):
        raw.send(replier, raw.message(b"$.%", to=request.from_, in_reply_to=request.id))
    assert replier.num_unreplied_to() == 1


@pytest.mark.rule(5)
@pytest.mark.parametrize(
    "name", ["$.KBUS.*", "$.KBUS.%", "$.KBUS.Replier.*", "$.KBUS.ReplierBindEvent", "$.KBUS.A"]
)
def test_anyone_may_listen_to_kbus(ksock: OpenKsock, name: str) -> None:
    one = ksock(mode="r")
    one.bind(name)
    assert [line.name for line in bindings()] == [name]


@pytest.mark.rule(5)
@pytest.mark.parametrize("which", ["BIND", "UNBIND"])
def test_nobody_replies_to_the_bind_event(ksock: OpenKsock, which: str) -> None:
    one = ksock()
    with refused(errno.EBADMSG):
        raw.bind_request(one, which, b"$.KBUS.ReplierBindEvent", is_replier=1)


@pytest.mark.rule(5)
@pytest.mark.parametrize("name", ["$.KBUS.A", "$.KBUS.A.*"])
def test_other_names_of_kbus_can_have_repliers(ksock: OpenKsock, name: str) -> None:
    one = ksock()
    one.bind(name, replier=True)
    assert one.find_replier(name) == one.ksock_id()


@pytest.mark.rule(5)
@pytest.mark.abi("SEND")
@pytest.mark.parametrize("name", [b"$.KBUS.A", b"$.KBUS.Replier.GoneAway", b"$.KBUS.ReplierBindEvent"])
@pytest.mark.parametrize("flags", [0, raw.WANT_A_REPLY, raw.SYNTHETIC])
def test_nobody_sends_to_kbus(ksock: OpenKsock, name: bytes, flags: int) -> None:
    one = ksock()
    one.bind("$.KBUS.*")
    one.bind("$.KBUS.*", replier=True)
    with refused(errno.EACCES):
        raw.send(one, raw.message(name, flags=flags))


@pytest.mark.rule(5)
@pytest.mark.abi("SEND")
def test_a_reply_may_have_a_name_of_kbus_and_nothing_after_it(ksock: OpenKsock) -> None:
    asker, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    request = raw.send(asker, raw.message(b"$.A", flags=raw.WANT_A_REPLY))
    replier.next_msg()
    raw.send(replier, raw.message(b"$.KBUS.A", to=asker.ksock_id(), in_reply_to=request))
    assert [packet.name for packet in packets(asker)] == [b"$.KBUS.A"]
    for flags in (0, raw.WANT_A_REPLY):
        with refused(errno.EACCES):
            raw.send(replier, raw.message(b"$.KBUS.A", flags=flags))


@pytest.mark.rule(5)
@pytest.mark.parametrize("name", [b"$.KBUS", b"$.KBUSX.A", b"$.kbus.A", b"$.A.KBUS.B"])
def test_names_that_only_look_like_kbus_are_free(ksock: OpenKsock, name: bytes) -> None:
    one = ksock()
    one.bind("$.*")
    raw.send(one, raw.message(name))
    assert raw.parse(raw.receive(one)).name == name


@pytest.mark.rule(5)
def test_a_reply_may_have_a_name_of_kbus(ksock: OpenKsock) -> None:
    sender, replier = ksock(), ksock()
    replier.bind("$.A", replier=True)
    sender.send_msg(Request("$.A"))
    request = raw.parse(raw.receive(replier))
    raw.send(replier, raw.message(b"$.KBUS.A", to=request.from_, in_reply_to=request.id))
    answer = take(sender)
    assert (answer.name, answer.is_synthetic()) == ("$.KBUS.A", False)


@pytest.mark.rule(1, 14)
@pytest.mark.abi("name_len")
def test_an_empty_name_cannot_be_sent(ksock: OpenKsock) -> None:
    one = ksock()
    one.bind("$.*")
    packet = raw.message(b"")
    assert os.write(one.fileno(), packet) == len(packet)
    with refused(errno.EBADMSG):
        raw.msg_id(one, "SEND")
