# SPDX-License-Identifier: MIT
"""Recorded bus traffic on Spark: a data source, tables, answers and a report.

This is the only part of the package that needs more than the standard library: ``pip install
'kbus[pipeline]'``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CorruptCapture", "KbusDataSource", "register"]


def __getattr__(name: str) -> Any:
    # So that the command can say what is missing, this package can be imported without Spark.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .source import data_source

    return getattr(data_source, name)
