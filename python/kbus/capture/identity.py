# SPDX-License-Identifier: MIT
"""What a recording is of: machine, boot, load of the module, and devices."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Optional, Union

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MODULE = Path("/sys/module/kbus")
#: Bytes. A name has 255: time and number take 25, suffixes such as .recovered.pcapng.recovering 28.
_LONGEST_PREFIX = 200


def boot_id() -> Optional[str]:
    """Return what Linux calls this boot, a UUID; None if it does not say."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return None


def load_id() -> Optional[int]:
    """Return a number that no other load of the module in this boot has; None if it is not loaded.

    It is the inode of the module's directory in sysfs, where no inode is used twice.
    """
    try:
        return _MODULE.stat().st_ino
    except OSError:
        return None


def bus_of(buses: Sequence[int]) -> Union[int, list[int]]:
    """Return what a capture of these devices says of them: the number of one, or a list of several."""
    return buses[0] if len(buses) == 1 else list(buses)


def file_prefix(device: str, buses: list[int]) -> str:
    """Return how the names of the machine's captures of these devices begin: ``DEVICE-BUS-``.

    What is no letter, digit, dot, minus or underscore in DEVICE becomes an underscore. BUS is the numbers,
    with ``+`` between them. Of what is too long the beginning is left. Where the name is changed so, the
    CRC-32 of all of it follows, so that no other machine or devices have the same.
    """
    whole = f"{device}-{'+'.join(map(str, buses))}"
    prefix = re.sub("[^A-Za-z0-9._+-]", "_", whole)
    if prefix != whole or len(prefix) > _LONGEST_PREFIX:
        crc = zlib.crc32(whole.encode("utf-8", "surrogateescape"))
        prefix = f"{prefix[: _LONGEST_PREFIX - 9]}~{crc:08x}"
    return prefix + "-"
