# SPDX-License-Identifier: MIT
"""What neighbours do while the bystanders are measured."""

from __future__ import annotations

from typing import NamedTuple


class Scenario(NamedTuple):
    """What neighbours there are, and with which errno the first one is refused before it goes on for ever."""

    title: str
    orders: tuple[str, ...]
    """For each neighbour."""
    limit: str = ""
    """The errno's name, or ""."""


BUSY_ELSEWHERE = Scenario("uses no bus, and computes", ("done compute",))

ORDINARY = Scenario("sends to itself, and reads", ("open 2 bind $.Own 1 done loop send $.Own 4 0 read",))

HOSTILE = [
    Scenario(
        "listens to the bystanders with all the bindings that it may have, and never reads",
        ("open 1 bind PING 99 bind $.* 99 done pause",),
        "ENOSPC",
    ),
    Scenario(
        "listens to the bystanders with many KSocks, which have room",
        ("open 99 queue 10000 bind PING 1 bind $.* 1 done pause",),
        "ENOSPC",
    ),
    Scenario(
        "opens and closes KSocks in 8 processes",
        ("open 9999 close done fork 8 loop open 512 close",),
        "EMFILE",
    ),
    Scenario(
        "has 65536 bindings, and reads /proc/kbus/bindings again and again",
        ("open 17 names $.Own.N 4096 done loop file /proc/kbus/bindings",),
        "ENOSPC",
    ),
    Scenario(
        "has 1024 KSocks, and reads /proc/kbus/stats again and again in 8 processes",
        ("open 9999 done fork 8 loop file /proc/kbus/stats",),
        "EMFILE",
    ),
    Scenario(
        "sends the longest messages from 8 processes",
        ("fork 8 open 1 bind $.Own 1 done loop send $.Own MEGABYTE 0 read",),
    ),
    Scenario(
        "fills a queue by all the bindings to a name, and closes it",
        ("done loop open 1 queue 10000 bind $.Own 16 flood $.Own 1 ALL_OR_FAIL close",),
    ),
    Scenario(
        "fills a queue by one binding, and undoes it",
        ("open 1 queue 10000 done loop bind $.Own 1 flood $.Own 1 ALL_OR_FAIL unbind $.Own 1",),
    ),
    Scenario(
        "binds and unbinds",
        ("open 1 done loop serve $.Own unserve $.Own bind $.Own 9 unbind $.Own 9",),
    ),
    Scenario(
        "sends messages with a name of 401 words",
        ("open 1 queue 10000 bind $.* 16 done loop send LONG_NAME 1 0 read",),
    ),
    Scenario(
        "asks who answers to a name of 401 words, past as many wildcards as it may have",
        ("open 1 deep 400 done loop resolve LONG_NAME",),
        "ENOSPC",
    ),
    Scenario(
        "is asked, and never answers",
        ("open 1 queue 10000 serve $.Own flood $.Own 0 REQUEST done loop send $.Own 0 REQUEST",),
        "ENOLCK",
    ),
    Scenario(
        "waits in 100 processes for a full accomplice, who listens to the bystanders too",
        (
            "open 1 queue 1 bind PING 1 bind $.Own 1 send $.Own 0 0 done loop bind $.Else 1 unbind $.Else 1",
            "fork 100 open 1 done wait PING 0",
        ),
    ),
]
