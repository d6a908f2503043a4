# SPDX-License-Identifier: MIT
"""Running Python functions as tasks of Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Files of a task
MOST = 1000
Item = TypeVar("Item")
Result = TypeVar("Result")


def run(
    spark: SparkSession, function: Callable[[Item], Result], items: Sequence[Item], what: str
) -> list[Result]:
    """Return what ``function`` gives for each item, a task an item. ``what`` is how Spark shows the job."""
    if not items:
        return []
    context = spark.sparkContext
    context.setJobDescription(what)
    return context.parallelize(items, len(items)).map(function).collect()


def grouped(
    items: Sequence[Item], weight: Callable[[Item], int], limit: int, most: int = MOST
) -> list[list[Item]]:
    """Return the items in groups, in their order, each up to ``limit`` heavy or a single item.

    A group has up to ``most`` items: there is work to do for each, however light it is.
    """
    groups: list[list[Item]] = []
    room = 0
    for item in items:
        if not groups or weight(item) > room or len(groups[-1]) == most:
            groups.append([])
            room = limit
        groups[-1].append(item)
        room -= weight(item)
    return groups
