# SPDX-License-Identifier: MIT
"""``stream``: captures become rows as they are uploaded, each message once, also when it is killed at any
moment.

Spark says which parts of which files are new, and remembers it in its checkpoint. Taking these in is a step
as any other, which the log of the tables has or has not; its entry names the batch, so that one that Spark
gives again, not knowing that it was done, is not done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Optional

from pyspark.sql import DataFrame, SparkSession

from kbus.capture.blocks import Damage
from kbus.terminal.signals import EndSignals

from ..decode.beginning import Beginning, open_upload
from ..decode.paths import Upload, has_scheme
from ..decode.scan import Piece, Range, scan_part
from ..source.data_source import register
from ..source.streaming import reason_at, section_at
from ..tables import tasks
from ..tables.parts import ConflictError
from ..tables.warehouse import Warehouse
from .batch import SPLIT, Ingested, rounds, take
from .loading import Inspected

# How often it is asked whether it shall end, in seconds.
_LOOK = 1


@dataclass
class Followed:
    """What ``stream`` did, and whether it waits until it looks for more."""

    batches: int = 0
    messages: int = 0
    is_waiting: bool = False


def follow(
    spark: SparkSession,
    warehouse: Warehouse,
    inbox: str,
    checkpoint: str,
    every: int,
    max_bytes: Optional[int] = None,
    once: bool = False,
    done: Optional[Followed] = None,
    say: Callable[[str], None] = lambda _: None,
) -> Followed:
    """Take what comes to the directory ``inbox`` into the tables, until it is stopped, or what is there if
    ``once``.

    ``checkpoint`` is a directory in which Spark remembers how far it is, ``every`` are seconds. ``done`` is
    kept up to date meanwhile. ``say`` is called with what there is to say of files, in another thread.
    """
    done = done or Followed()
    # Not by an exception: where that breaks off a call to Spark, Py4J has all its connections closed,
    # sometimes also the one that the next call opens: https://github.com/py4j/py4j/pull/538.
    with EndSignals() as signals:
        register(spark)
        stream = spark.readStream.format("kbus").option("ranges", "true")
        if max_bytes:
            stream = stream.option("maxBytes", max_bytes)
        take_batch = partial(_take, warehouse=warehouse, checkpoint=checkpoint, done=done, say=say)
        writer = stream.load(inbox).writeStream.option("checkpointLocation", checkpoint)
        writer = writer.foreachBatch(take_batch)
        if once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{every} seconds")
        query = writer.start()
        while not signals.came and not query.awaitTermination(_LOOK):
            done.is_waiting = query.status["message"].startswith("Waiting")
        query.stop()
    return done


def _take(batch: DataFrame, number: int, **more: Any) -> None:
    """Take a batch, again if ``tidy`` or another step has changed the same tables meanwhile."""
    while True:
        with suppress(ConflictError):
            return _take_batch(batch, number, **more)


def _take_batch(
    batch: DataFrame,
    number: int,
    warehouse: Warehouse,
    checkpoint: str,
    done: Followed,
    say: Callable[[str], None],
) -> None:
    snapshot = warehouse.snapshot()
    last = snapshot.notes.get("stream", {})
    key = _identity(checkpoint)
    if number <= last.get(key, -1):
        return
    taken = Ingested()
    files = inspected(batch.collect())
    sections = tasks.run(batch.sparkSession, _captures, files, "looking at files")
    for each, captures in zip(files, sections):
        each.captures = captures
    todo = rounds(files)
    for index, some in enumerate(todo):
        is_last = index == len(todo) - 1
        note = {**last, key: number} if is_last else last
        snapshot = take(batch.sparkSession, warehouse, snapshot, some, SPLIT, taken, note=note)
    done.batches += 1
    done.messages += taken.messages
    for text in sorted(taken.said):
        say(text)


def _identity(checkpoint: str) -> str:
    """Return what no other checkpoint is called, also one that takes its place, or is on another machine."""
    # It may be where only Spark can read.
    if has_scheme(checkpoint):
        return checkpoint
    return str(json.loads(Path(checkpoint, "metadata").read_text())["id"])


def inspected(rows: Iterable[Any]) -> list[Inspected]:
    """Return the files that these rows, see ``RANGES``, are about, and which parts of them are to be read."""
    files: dict[str, Inspected] = {}
    for row in rows:
        each = files.setdefault(row.path, Inspected(Upload(row.path, row.end, 0)))
        begins = None if row.digest is None else Beginning(row.length, row.digest)
        try:
            with open_upload(row.path, begins) as file:
                status = os.fstat(file.fileno())
                # Else `ingest` takes it for one that has all been read.
                each.upload = Upload(row.path, min(status.st_size, row.end), status.st_mtime_ns)
                if row.section is None:
                    damage = Damage(row.begin, row.end - row.begin, reason_at(file, row.begin))
                    each.damage.add(damage)
                else:
                    each.ranges.append(
                        Range(row.begin, row.end, section_at(file, row.section, row.begin), begins)
                    )
        except OSError as error:
            each.error = error.strerror or str(error)
    return list(files.values())


def _captures(each: Inspected) -> list[str]:
    """Return the sections of the parts of a file that are to be read."""
    captures: dict[str, None] = {}
    for part in each.ranges:
        # What can't be opened, loading tells.
        with suppress(OSError), open_upload(each.upload.path, part.begins) as file:
            found = scan_part(file, part)
            captures.update((one.section.capture, None) for one in found if isinstance(one, Piece))
    return list(captures)
