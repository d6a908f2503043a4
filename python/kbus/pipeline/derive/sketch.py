# SPDX-License-Identifier: MIT
"""Quantiles from counts that can be added: each value falls on a step, and steps grow geometrically.

With g = (1 + a) / (1 - a), step k has the values above g**(k-1) and up to g**k. 2 * g**k / (g + 1) is at most
a away from any of them, relatively. So a quantile that is told from counts, whoever added them in whatever
order, is within a of the one of all values. (This is the idea of DDSketch; Masson, Rim, Lee, 2019.)
"""

from __future__ import annotations

import math

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

#: a: how far a quantile may be off, relatively
ERROR = 0.01
GROWTH = (1 + ERROR) / (1 - ERROR)


def step(value: Column) -> Column:
    """Return the step of a value; values below 1 are taken for 1."""
    return F.ceil(F.log(F.greatest(value, F.lit(1)).cast("double")) / math.log(GROWTH)).cast("int")


def value_of(step: Column) -> Column:
    """Return what stands for the values of a step."""
    return F.pow(F.lit(GROWTH), step.cast("double")) * (2 / (GROWTH + 1))


def quantiles(
    counts: DataFrame, by: list[str], wanted: dict[str, float], count: str = "answers"
) -> DataFrame:
    """Return, for each group ``by``, a column for each quantile wanted (name to 0..1), and the ``count`` of
    values.

    ``counts`` has rows with ``step`` and ``count``. The quantile q of n values is the one of rank
    ceil(q * n), at least 1, in ascending order.
    """
    merged = counts.groupBy(*by, "step").agg(F.sum(count).alias("n"))
    order = Window.partitionBy(*by).orderBy("step")
    everything = Window.partitionBy(*by)
    ranked = merged.withColumns({"rank": F.sum("n").over(order), "total": F.sum("n").over(everything)})
    columns = []
    for name, q in wanted.items():
        is_reached = F.col("rank") >= F.greatest(F.ceil(F.col("total") * q), F.lit(1))
        columns.append(value_of(F.min(F.when(is_reached, F.col("step")))).alias(name))
    return ranked.groupBy(*by).agg(F.max("total").alias(count), *columns)
