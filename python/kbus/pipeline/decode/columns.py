# SPDX-License-Identifier: MIT
"""Columns: their names, types and meaning, and those of messages.

Spark has no unsigned types, so a u32 is a ``bigint``. A u64 (sequence numbers, CLOCK_MONOTONIC, counts of
lost messages) is a ``bigint`` too: none of them reaches 2**63.
"""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """A column: its name, its type in Spark's words, and what it means."""

    name: str
    type: str
    meaning: str


SESSION = (
    Column(
        "session",
        "bigint",
        "a number for (device, boot, load, bus): 64 bits of their SHA-256; if nothing of that is known, for"
        " what the packets say of it",
    ),
    Column("device", "string", "the machine's name, as the recorder says; empty if a tool has lost it"),
    Column("boot", "string", "boot id of the machine"),
    Column("load", "string", "id of this load of the module"),
    Column("bus", "int", "N of /dev/kbusN"),
)

MESSAGES = (
    *SESSION,
    Column("ts", "timestamp", "CLOCK_REALTIME when the message was sent, UTC, cut to microseconds"),
    Column("ts_ns", "bigint", "the same in nanoseconds since 1970"),
    Column("mono_ns", "bigint", "CLOCK_MONOTONIC of the device at the same moment, ns"),
    Column("rec_seq", "bigint", "the recorder's sequence number"),
    Column("lost", "bigint", "messages that the recorder's KSock had lost by then"),
    Column("network", "bigint", "id: network_id"),
    Column("serial", "bigint", "id: serial_num"),
    Column("reply_network", "bigint", "in_reply_to: network_id"),
    Column("reply_serial", "bigint", "in_reply_to: serial_num; both 0 unless this is an answer"),
    Column("to", "bigint", "KSock id, or 0"),
    Column("from", "bigint", "KSock id of the sender; 0 is KBUS itself"),
    Column("want_a_reply", "boolean", "flag WANT_A_REPLY: a Request"),
    Column("want_you_to_reply", "boolean", "flag WANT_YOU_TO_REPLY"),
    Column("synthetic", "boolean", "flag SYNTHETIC: KBUS made the message"),
    Column("urgent", "boolean", "flag URGENT"),
    Column("all_or_wait", "boolean", "flag ALL_OR_WAIT"),
    Column("all_or_fail", "boolean", "flag ALL_OR_FAIL"),
    Column("user_flags", "int", "bits 16 to 29 of the flags, shifted down"),
    Column("orig_network", "bigint", "orig_from: network_id; null unless the message is EXTENDED"),
    Column("orig_local", "bigint", "orig_from: local_id; likewise"),
    Column("final_network", "bigint", "final_to: network_id; likewise"),
    Column("final_local", "bigint", "final_to: local_id; likewise"),
    Column("big_endian", "boolean", "byte order of the device, which numbers in `data` have"),
    Column("name", "string", "the message's name"),
    Column("data", "binary", "its data without padding; null if there are none"),
    Column("capture", "string", "SHA-256 of the beginning of the section, up to and with its first packet"),
    Column(
        "offset", "bigint", "where the message's block begins, in bytes from the beginning of the section"
    ),
    Column("length", "bigint", "bytes of that block"),
)
