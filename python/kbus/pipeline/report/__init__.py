# SPDX-License-Identifier: MIT
"""The report: one HTML file that opens without a network, for a person who asks how the bus is.

Beside it is a JSON file with the verdicts, for programs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, Optional

from pyspark.sql import SparkSession

from ..derive.stale import behind
from ..source.session import suit
from ..tables import schemas
from ..tables.warehouse import Warehouse
from .findings import gather
from .page import page
from .scope import Scope, Tables
from .summary import judged, summary
from .thresholds import Thresholds

__all__ = ["Written", "write_report"]


class Written(NamedTuple):
    """A report that was written: its length in bytes, the level of each verdict, by its title, and the steps
    without which it was made.
    """

    bytes: int
    levels: dict[str, str]
    behind: list[str]


def write_report(
    spark: SparkSession,
    warehouse: Warehouse,
    output: Path,
    scope: Scope,
    compare: Optional[tuple[Scope, Scope]] = None,
    thresholds: Optional[Thresholds] = None,
) -> Written:
    """Write the report on what is in ``scope`` to ``output``, and its verdicts to a file that ends in
    ``.json`` instead.

    ``compare`` are two scopes to set side by side; ``thresholds`` are the defaults if there are none. Raises
    OSError.
    """
    snapshot = warehouse.snapshot()
    suit(
        spark,
        sum(part.rows for table in schemas.TABLES for part in snapshot.of(table) if table != "messages"),
    )
    findings = gather(Tables(spark, warehouse, scope, snapshot), scope, compare, thresholds or Thresholds())
    findings.behind = behind(warehouse, snapshot)
    verdicts = judged(findings)
    text = page(findings, verdicts).encode()
    _write(output, text)
    _write(output.with_suffix(".json"), summary(findings, verdicts).encode())
    return Written(len(text), {title: each.level for title, each in verdicts.items()}, findings.behind)


def _write(output: Path, text: bytes) -> None:
    draft = output.with_name(f".{output.name}.draft")
    draft.write_bytes(text)
    os.replace(draft, output)
