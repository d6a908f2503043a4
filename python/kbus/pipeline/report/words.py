# SPDX-License-Identifier: MIT
"""Numbers and times as a person reads them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Optional

#: Stands for what is not known
DASH = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"
_TIMES = (("ns", 1), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9), ("d", 86_400e9))
_SIZES = ("B", "kB", "MB", "GB", "TB")


def duration(ns: Optional[float]) -> str:
    """Return a time with its unit, three digits of it; a dash for None."""
    if ns is None:
        return DASH
    name, unit = next((each for each in reversed(_TIMES) if ns >= each[1]), _TIMES[0])
    # From 999.5 on, three digits would be 1e+03.
    return f"{ns / unit:.3g} {name}" if ns / unit < 999.5 else f"{ns / unit:,.0f} {name}"


def size(count: Optional[float]) -> str:
    """Return bytes with their unit."""
    value = float(count or 0)
    for unit in _SIZES:
        if value < 999.5 or unit == _SIZES[-1]:
            return f"{value:.3g} {unit}"
        value /= 1000
    raise AssertionError


def power(exponent: int) -> str:
    """Return 2**exponent bytes, in binary units."""
    units = ("B", "KiB", "MiB", "GiB")
    return f"{2 ** (exponent % 10)}\N{NO-BREAK SPACE}{units[exponent // 10]}"


def number(count: Optional[float]) -> str:
    """Return a whole number with commas, or a dash."""
    return DASH if count is None else f"{count:,.0f}"


def rate(value: Optional[float]) -> str:
    """Return a number of three digits, or a dash."""
    return DASH if value is None else f"{value:,.3g}" if value < 999.5 else f"{value:,.0f}"


def share(value: Optional[float]) -> str:
    """Return a share in percent, or a dash."""
    if value is None:
        return DASH
    percent = 100 * value
    return f"{percent:.3g} %" if 0.01 <= percent <= 99.9 or percent in (0, 100) else f"{percent:.4g} %"


def moment(time: Optional[datetime]) -> str:
    """Return a time to the minute, UTC, or a dash."""
    return DASH if time is None else f"{utc(time):%Y-%m-%d %H:%M}"


def utc(time: datetime) -> datetime:
    """Return a time as Spark gives it, which is local and says no zone, in UTC."""
    return time.astimezone(timezone.utc)


def count(number_of: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{number_of:,} {one if number_of == 1 else many}"


def times(before: Optional[float], after: Optional[float]) -> Optional[float]:
    """Return how many times as much something is as before, or None if that is not known."""
    return None if not before or after is None else after / before


def ratio(before: Optional[float], after: Optional[float]) -> str:
    """Return the same as text, or a dash."""
    found = times(before, after)
    return DASH if found is None else f"{TIMES}{found:.3g}"
