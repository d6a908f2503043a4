# SPDX-License-Identifier: MIT
"""Messages, and single calls on a KSock, right and wrong, that do not depend on what has happened before."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from kbus import _abi as abi
from kbus.testing.model.wire import MsgId, WireMessage

Call = tuple[Any, ...]
"""The name of a method of `ModelKsock`, and the arguments."""

SENT = (b"$.A", b"$.A.B", b"$.A", b"$.A.B", b"$.A.B.C", b"$.Z")
"""Names to send to; what is there twice is sent to more often."""

NAMES = (b"$.A", b"$.A.B", b"$.A.%", b"$.A.*", b"$.*", b"$.A.B.C", b"$.KBUS.*", b"$.KBUS.ReplierBindEvent")
WRONG_NAMES = (b"", b"$", b"$.", b"A", b"$.A.", b"$..A", b"$.*.A", b"$.A*", b"$.\xe9", b"$.A\0")
NOT_TO_SEND = (b"$.*", b"$.A.%", b"$.KBUS.A", b"$.KBUS.Replier.GoneAway", b"$.KBUS.*")
LONG_NAMES = (b"$." + 998 * b"A", b"$." + 999 * b"A")


def outcome(call: Callable[..., object], *arguments: object) -> object:
    """What a call gave, or the name of the errno that it failed with."""
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def spoiled(message: WireMessage, at: int, value: int) -> bytes:
    """The message's bytes with one word, `at` bytes from the begin (or the end, if negative), replaced."""
    raw = bytearray(message.to_bytes())
    at %= len(raw)
    raw[at : at + 4] = abi.U32.pack(value)
    return bytes(raw)


_SOUND = WireMessage(b"$.A", data=b"data")
WRONG_MESSAGES = (
    spoiled(_SOUND, 0, 0),  # start guard
    spoiled(_SOUND, -4, 0),  # end guard
    spoiled(_SOUND, 28, 1 << 4),  # flags without a meaning
    spoiled(_SOUND, 28, 1 << 15),
    spoiled(_SOUND, 28, abi.BIT_ALL_OR_WAIT | abi.BIT_ALL_OR_FAIL),
    spoiled(WireMessage(b"$.A", in_reply_to=MsgId(0, 1)), 28, abi.BIT_WANT_A_REPLY),
    spoiled(_SOUND, 28, abi.BIT_EXTENDED),
    spoiled(_SOUND, 32, 1001),  # name length
    spoiled(_SOUND, 32, 0xFFFFFFFF),
    spoiled(_SOUND, 36, 0xFFFFFFFF),  # data length
    spoiled(_SOUND, 36, 1 << 30),
    spoiled(_SOUND, 36, 0),
    spoiled(_SOUND, 36, 2),  # promises more than comes
    spoiled(_SOUND, 40, 0xFFFFFFFF),  # padding of the name
    _SOUND.to_bytes() + b"more",
    bytes(100),
)

_ids = st.sampled_from(4 * [MsgId(0, 0)] + [MsgId(0, 77), MsgId(9, 5), MsgId(9, 0)])
_urgent = st.sampled_from((0, 0, 0, abi.BIT_URGENT))
_when_full = st.sampled_from((0, 0, 0, abi.BIT_ALL_OR_WAIT, abi.BIT_ALL_OR_FAIL))
_others = st.sampled_from((0, 0, 0, abi.BIT_SYNTHETIC | abi.BIT_WANT_YOU_TO_REPLY, 1 << 16 | 3 << 30))
_data = st.sampled_from((0, 0, 0, 1, 2, 30)).map(lambda words: words * b"data")
_extensions = st.sampled_from((b"", b"", b"", b"0123456789abcdef"))


def _message(name: bytes, flags: tuple[int, ...], id: MsgId, data: bytes, extension: bytes) -> WireMessage:
    return WireMessage(
        name, sum(flags) | (abi.BIT_EXTENDED if extension else 0), id, data=data, extension=extension
    )


messages = st.builds(
    _message, st.sampled_from(SENT), st.tuples(_urgent, _when_full, _others), _ids, _data, _extensions
)
"""Messages of good form."""

_switches = st.sampled_from((1, 0, abi.SWITCH_ASK))
_anything = st.sampled_from((None, *NAMES, *WRONG_NAMES, *LONG_NAMES))
_not_sent = st.sampled_from((*WRONG_NAMES, *NOT_TO_SEND, *LONG_NAMES))
_flags = st.sampled_from((0, abi.BIT_WANT_A_REPLY))


def _call(method: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Call]:
    return st.tuples(st.just(method), *arguments)


common_calls = st.one_of(
    _call("max_msgs", st.sampled_from((1, 2, 3, 4, 0, 20000))),
    _call("set_only_once", _switches),
    _call("set_report_lost", _switches),
    _call("set_report_binds", _switches),
    _call("discard"),
    _call("read", st.sampled_from((0, 1, 7, 40, 500))),
    _call("next_msg"),
)

odd_calls = st.one_of(
    _call("bind", _anything, st.sampled_from((0, 1, 2, 3))),
    _call("unbind", _anything, st.sampled_from((0, 1, 2, 3))),
    _call("replier", _anything),
    _call("resolve", _anything),
    _call("peer", st.integers(0, 8)),
    _call("write", st.sampled_from(WRONG_MESSAGES)),
    _call(
        "write",
        st.tuples(st.sampled_from(WRONG_MESSAGES), st.integers(0, 80)).map(lambda raw: raw[0][: raw[1]]),
    ),
    _call("write", st.builds(WireMessage, _not_sent, _flags).map(WireMessage.to_bytes)),
    _call("set_only_once", st.just(2)),
    _call("set_report_lost", st.just(2)),
    _call("set_report_binds", st.just(2)),
    _call("set_verbose", st.sampled_from((abi.SWITCH_ASK, 0, 2))),  # 1 fills the log of a slow console
    _call("max_msg_size", st.sampled_from((0, 1, 1 << 20, 16 << 20, 2, 99, 100, 120, (16 << 20) + 1))),
)
