# SPDX-License-Identifier: MIT
"""What hypothesis draws: names, ids, and messages of every kind that KBUS can deliver."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from kbus import Announcement, Message, MessageId, OrigFrom, Reply, Request, Status
from kbus import _abi as abi

u32 = st.integers(0, abi.U32_MAX)

words = st.text(string.ascii_letters + string.digits, min_size=1, max_size=8)
literal_names = st.lists(words, min_size=1, max_size=6).map(lambda parts: "$." + ".".join(parts))
wildcards = st.builds(
    lambda parts, wildcard: ".".join(["$", *parts, wildcard]),
    st.lists(words, max_size=5),
    st.sampled_from("*%"),
)
bindable_names = literal_names | wildcards

message_ids = st.builds(MessageId, u32, u32)
orig_froms = st.builds(OrigFrom, u32, u32)

#: Flags that may be in any message of any kind.
common_flags = st.builds(
    lambda bits, user: sum(bits) | user,
    st.sets(st.sampled_from([Message.URGENT, Message.ALL_OR_WAIT, Message.ALL_OR_FAIL])),
    st.integers(0, 0x3FFF).map(lambda bits: bits << 16),
)

_parts = {
    "name": literal_names,
    "data": st.none() | st.binary(max_size=40),
    "to": u32,
    "from_": u32,
    "orig_from": st.none() | orig_froms,
    "final_to": st.none() | orig_froms,
    "id": st.none() | message_ids,
}
_some_id = message_ids.filter(lambda message_id: message_id != MessageId(0, 0))

announcements = st.builds(Announcement, flags=common_flags, **_parts)
requests = st.builds(
    Request,
    flags=common_flags | common_flags.map(lambda flags: flags | Message.WANT_YOU_TO_REPLY),
    **_parts,
)
replies = st.builds(Reply, flags=common_flags, in_reply_to=_some_id, **_parts)
statuses = st.builds(
    Status,
    original=_parts.pop("name"),
    flags=common_flags,
    in_reply_to=st.none() | _some_id,
    **_parts,
)
kinds = announcements | requests | replies | statuses

#: The same as plain Messages, as they are read.
messages = kinds.map(Message.from_message)
