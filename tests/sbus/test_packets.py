# SPDX-License-Identifier: MIT
"""Packets against the protocol text's regular expressions, and what differs between revisions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbus.sbus import packets
from kbus.sbus.packets import CMSG, DOT, MSG, SLASH, SUB, UNSUB, Packet
from tests.sbus.reference import words

#: as the text has them, in Python's spelling; what \1 and the payload are
FORMS = {
    SUB: rb"SUB ([^\x00]*)()(\x00.*)?",
    UNSUB: rb"UNSUB ([^\x00]*)()(\x00.*)?",
    MSG: rb"MSG ([^\x00]*)\x00(.*)",
    CMSG: rb"CMSG ([^\x00]*)(?:\x00(.*))?",
}


def reference(packet: bytes, has_control: bool) -> Packet | None:
    for kind, form in FORMS.items():
        match = re.fullmatch(form, packet, re.DOTALL)
        if match and (kind != CMSG or has_control):
            return Packet(kind, match[1], match[2] or b"")
    return None


@pytest.mark.parametrize("protocol", [DOT, SLASH])
def test_rule_forms(protocol: packets.Protocol) -> None:
    beginnings = [
        b"",
        b" ",
        b"SUB",
        b"SUB ",
        b"UNSUB ",
        b"MSG ",
        b"CMSG ",
        b"msg ",
        b"MSG",
        b"XSUB ",
        b"\0MSG ",
    ]
    for beginning in beginnings:
        for rest in words(b"a\0\n ", 4):
            _compare(beginning + rest, protocol)


@given(st.binary(max_size=20), st.sampled_from([DOT, SLASH]))
def test_rule_anything_else(packet: bytes, protocol: packets.Protocol) -> None:
    _compare(packet, protocol)


def _compare(packet: bytes, protocol: packets.Protocol) -> None:
    expected = reference(packet, protocol.has_control)
    if expected is None:
        with pytest.raises(ValueError, match=r"MSG|no message"):
            packets.parse(packet, protocol)
    else:
        assert packets.parse(packet, protocol) == expected


def test_revisions_1_and_2_have_three_kinds_and_dots() -> None:
    assert DOT.separator == b"."
    with pytest.raises(ValueError, match="no message"):
        packets.parse(b"CMSG echo/off", DOT)


def test_revisions_3_and_4_have_four_kinds_and_slashes() -> None:
    assert SLASH.separator == b"/"
    assert packets.parse(b"CMSG echo/off", SLASH) == Packet(CMSG, b"echo/off", b"")


@given(st.sampled_from(list(FORMS)), st.binary().filter(lambda key: 0 not in key), st.binary())
def test_what_is_built_is_parsed(kind: bytes, key: bytes, payload: bytes) -> None:
    packet = packets.build(kind, key, payload)
    assert packets.parse(packet) == Packet(kind, key, payload if kind in (MSG, CMSG) else b"")


def test_a_key_with_a_nul_is_not_built() -> None:
    with pytest.raises(ValueError, match="NUL"):
        packets.build(MSG, b"a\0b")
