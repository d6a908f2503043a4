# SPDX-License-Identifier: MIT
"""Readings of the machine that this runs on, as messages would carry them."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path


def readings() -> dict[str, str]:
    """Texts by message names, which are below `$.Machine.`. Which there are depends on the machine."""
    return {
        "$.Machine.Load": Path("/proc/loadavg").read_text().split()[0],
        "$.Machine.Memory": _memory(),
        **_temperatures(),
        **_network(),
    }


def _memory() -> str:
    lines = Path("/proc/meminfo").read_text().splitlines()
    (kib,) = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return f"{kib // 1024} MiB available"


def _temperatures() -> dict[str, str]:
    found = {}
    for zone in sorted(Path("/sys/class/thermal").glob("thermal_zone*")):
        # A sensor may be there and not answer.
        with suppress(OSError):
            found[f"$.Machine.Temperature.{_word(zone.name)}"] = (
                f"{int((zone / 'temp').read_text()) / 1000:.1f} C"
            )
    return found


def _network() -> dict[str, str]:
    found = {}
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        interface, _, counters = line.partition(":")
        received, sent = [int(counters.split()[column]) for column in (0, 8)]
        found[f"$.Machine.Network.{_word(interface)}"] = f"{received} bytes in, {sent} out"
    return found


def _word(text: str) -> str:
    """The text as one word of a message name."""
    return re.sub("[^A-Za-z0-9]", "", text)
