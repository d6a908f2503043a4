# SPDX-License-Identifier: MIT
"""The report: one HTML file that opens without a network, for a person who asks how the bus is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

from pyspark.sql import SparkSession

from ..scope import Scope, Tables
from ..session import suit
from ..warehouse import Warehouse
from .facts import gather
from .page import page

__all__ = ["write_report"]


def write_report(
    spark: SparkSession,
    warehouse: Warehouse,
    output: Path,
    scope: Scope,
    compare: Optional[tuple[Scope, Scope]] = None,
) -> int:
    """Write the report on what is in ``scope`` to ``output``, and return its length in bytes.

    ``compare`` are two scopes to set side by side. Raises OSError.
    """
    snapshot = warehouse.snapshot()
    suit(spark, sum(part.rows for part in snapshot.parts.values() if part.table != "messages"))
    facts = gather(Tables(spark, warehouse, scope, snapshot), scope, compare)
    text = page(facts).encode()
    draft = output.with_name(f".{output.name}.draft")
    draft.write_bytes(text)
    os.replace(draft, output)
    return len(text)
