# SPDX-License-Identifier: MIT
"""Making Delta tables of those of format 1, which had a log of their own. Their files stay as they are.

An entry N of that log was ``_log/N.json``: the files that a step added and removed, in all tables.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from ..decode.paths import local
from . import delta, schemas
from .delta import Table
from .footers import seen
from .parts import Part, WarehouseError, part_from, sync
from .steps import STEPS, Entry, Steps
from .warehouse import OLD_LOG, Warehouse, settings_of

#: The old log when it is not needed any more
_DONE = "_log.upgraded"


def upgrade(root: str) -> Warehouse:
    """Make the tables in ``root`` Delta tables, and return them. It may be broken off, and done again.

    Raises WarehouseError.
    """
    where = local(root, "tables")
    log = where / OLD_LOG
    if not log.is_dir():
        raise WarehouseError(f"there are no tables of an earlier version in {where}")
    entries, files = _read(log)
    found = [seen(where, part) for part in files.values()]
    settings = settings_of(entries[0].note["buckets"])
    for table in schemas.TABLES:
        delta.create(where, table, settings)
        made = Table(where, table)
        if made.step < entries[-1].version:
            parts = [part for part in found if part.table == table]
            made.commit(entries[-1].version, parts, (), what="upgrade")
    delta.create(where, STEPS, settings)
    Steps(where).begin_with(entries)
    # Spark wrote there once, and left what it had when it was killed.
    shutil.rmtree(where / "_staging", ignore_errors=True)
    # As long as it has its name, that was not all.
    log.rename(where / _DONE)
    sync(where)
    return Warehouse.open(root)


def _read(log: Path) -> tuple[list[Entry], dict[str, Part]]:
    """Return the steps, and by path the files that there are after them."""
    entries: list[Entry] = []
    files: dict[str, Part] = {}
    for path in sorted(log.glob("*.json")):
        # Some entries were followed by a list of all files, N.all.json.
        if not path.stem.isdigit():
            continue
        said = json.loads(path.read_text())
        add = [part_from(each) for each in said["add"]]
        remove = [files.pop(each) for each in said["remove"]]
        files.update({each.path: each for each in add})
        entries.append(Entry(said["step"], add, remove, said["note"], version=int(path.stem)))
    if [each.version for each in entries] != list(range(len(entries))) or not entries:
        raise WarehouseError(f"the log {log} is not complete")
    return entries, files
