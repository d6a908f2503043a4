# SPDX-License-Identifier: MIT
"""Reporting the state of a service: to systemd by sd_notify, to Prometheus in its text format 0.0.4."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

__all__ = ["Metric", "family", "notify"]


def notify(state: str, wait: bool = True) -> None:
    """Report a state such as ``READY=1`` to the service manager, if ``NOTIFY_SOCKET`` says where.

    Raises OSError if that fails; without ``wait`` also if it has to read something else first.
    Source: sd_notify(3).
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.sendto(state.encode(), 0 if wait else socket.MSG_DONTWAIT, address)


class Metric(NamedTuple):
    """A number of some statistics; ``field`` is what it is called there. A counter is one that only grows."""

    field: str
    name: str
    help: str

    @property
    def kind(self) -> str:
        """``counter`` or ``gauge``."""
        return "counter" if self.name.endswith("_total") else "gauge"


def family(prefix: str, metric: Metric, samples: Iterable[tuple[Mapping[str, object], int]]) -> Iterator[str]:
    """Yield the lines, without their ends, of a metric whose samples have such labels and values.

    Labels may have any text; a help may have no line end and no backslash.
    """
    name = prefix + metric.name
    yield f"# HELP {name} {metric.help}"
    yield f"# TYPE {name} {metric.kind}"
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(str(of))}"' for label, of in labels.items())
        yield f"{name}{{{shown}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
