# SPDX-License-Identifier: MIT
"""Recorded bus traffic: pcapng files, which other tools read too.

::

    from kbus.capture import Reader

    with Reader("device-0-20260101T120000Z-0001.pcapng") as capture:
        for time_ns, message, facts in capture:
            print(time_ns, message, facts.sequence)
"""

from .blocks import Damage
from .frame import Frame
from .reader import CaptureError, Facts, Reader, Record
from .sections import Interface, Section, Statistics
from .writer import Writer

__all__ = [
    "CaptureError",
    "Damage",
    "Facts",
    "Frame",
    "Interface",
    "Reader",
    "Record",
    "Section",
    "Statistics",
    "Writer",
]
