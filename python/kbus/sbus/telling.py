# SPDX-License-Identifier: MIT
"""``kbus-sbusd --stats``: ask a daemon for its statistics, and print them, as metrics too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Optional

from ..terminal import output
from ..terminal.monitoring import Metric, family
from ..terminal.output import StdoutFailed, tell
from . import address, counts
from .address import Address
from .bridge import STATS
from .client import Client, explain

#: Seconds that the daemon has to answer.
_PATIENCE = 10.0
#: how statistics can be printed, the default first
FORMS = ("json", "prometheus")

# The text format of Prometheus, version 0.0.4.
_PREFIX = "kbus_sbus_"
_IN_ALL = (
    Metric("clients", "clients", "Clients that are connected."),
    Metric("subscriptions", "subscriptions", "Subscriptions of clients that are connected."),
    Metric("received", "received_packets_total", "Packets that clients have sent."),
    Metric(
        "published", "published_messages_total", "Messages that KBUS, or for secrets the daemon, has taken."
    ),
    Metric("delivered", "delivered_packets_total", "Packets that the sockets of clients have taken."),
    Metric("queued", "queued_packets", "Packets in the queues of clients."),
    Metric("queued_bytes", "queued_bytes", "Bytes in the queues of clients."),
    Metric("queued_max", "queued_max_packets", "The most packets that the queue of a client has held."),
    Metric("queued_bytes_max", "queued_max_bytes", "The most bytes that the queue of a client has held."),
    Metric("bindings", "bindings", "Message names that the daemon is bound to."),
    Metric("kbus_queued", "kbus_queued_messages", "Messages that wait in KBUS for the daemon."),
    Metric(
        "kbus_lost", "kbus_lost_messages_total", "Messages that KBUS had no room for in the daemon's queue."
    ),
)
_BY_CAUSE = (
    (Metric("dropped", "dropped_packets_total", "Packets that were dropped, by cause."), counts.CAUSES),
    (
        Metric("refused", "refused_connections_total", "Connections that were closed at once, by cause."),
        counts.REFUSALS,
    ),
)
_OF_USERS = (
    Metric("clients", "user_clients", "Clients of a user."),
    Metric("subscriptions", "user_subscriptions", "Subscriptions of a user."),
    Metric(
        "subscription_bytes", "user_subscription_bytes", "Bytes that the subscriptions of a user count as."
    ),
    Metric("queued_bytes", "user_queued_bytes", "Bytes in the queues of a user."),
)


def ask(place: str) -> bytes:
    """Return the statistics of the daemon there, lines of JSON. Raises OSError."""
    told = b""
    with Client(place) as client:
        client.control(STATS)
        while piece := client.expect_control(STATS, _PATIENCE).payload:
            told += piece
    return told


def tell_stats(at: Optional[Address], form: str = FORMS[0]) -> int:
    """Print the daemon's statistics in one of ``FORMS``, and return the exit status."""
    place = str(at or address.DEFAULT)
    try:
        told = ask(place)
        if form == "prometheus":
            # A path need not be text, and metrics must be.
            shown = place.encode("utf-8", "backslashreplace").decode()
            told = exposition([json.loads(line) for line in told.splitlines()], shown).encode()
        output.put(told)
        output.flush()
    except StdoutFailed as failure:
        return output.stdout_failed("kbus-sbusd", failure)
    except TimeoutError:
        tell(
            "kbus-sbusd",
            f"{place} has not answered within {_PATIENCE:g} s. It gives statistics only to its own user and"
            " root, and with --protocol dot to no user: then its log has them after SIGUSR1",
        )
        return 1
    except (OSError, ValueError) as error:
        tell("kbus-sbusd", explain(error, place))
        return 1
    return 0


def exposition(records: Sequence[dict[str, Any]], address: str) -> str:
    """Return statistics of the daemon at an address, as ``counts.records`` gives them, as lines of metrics.

    Each sample has the label ``address``, so that those of several daemons can be in one place. Causes that
    nothing was dropped for are there, too, with 0, as a counter must not begin with its first increase.
    """
    at = {"address": address}
    in_all, users = records[0], [record for record in records if "user" in record]
    info = Metric("", "info", "The device and the KSock of the daemon; the value is always 1.")
    families = [(info, [({**at, "device": in_all["device"], "ksock": in_all["ksock"]}, 1)])]
    families += [(metric, [(at, in_all[metric.field])]) for metric in _IN_ALL]
    for metric, causes in _BY_CAUSE:
        values = {**dict.fromkeys(causes, 0), **in_all[metric.field]}
        families.append((metric, [({**at, "cause": cause}, values[cause]) for cause in sorted(values)]))
    for metric in _OF_USERS:
        families.append((metric, [({**at, "uid": each["user"]}, each[metric.field]) for each in users]))
    return "".join(f"{line}\n" for each in families for line in family(_PREFIX, *each))
