# SPDX-License-Identifier: MIT
"""In which bucket a device is, in Python and in Spark."""

from __future__ import annotations

import zlib

from pyspark.sql import Column
from pyspark.sql import functions as F


def bucket_of(device: str, buckets: int) -> int:
    """Return the bucket of a device."""
    return zlib.crc32(device.encode()) % buckets


def bucket_column(device: Column, buckets: int) -> Column:
    """Return the same of a column of devices."""
    return (F.crc32(F.encode(device, "UTF-8")) % buckets).cast("int")
