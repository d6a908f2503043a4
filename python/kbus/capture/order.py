# SPDX-License-Identifier: MIT
"""In which order captures were recorded, whatever the clock was that their names come from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from .reader import Reader
from .series import by_any_name


def by_recording(paths: Iterable[Path]) -> list[Path]:
    """Return captures of a directory in the order in which they were recorded.

    Those of one boot are in the order of the monotonic times of their first messages, those without
    messages after them. Boots are in the order of their first names, as nothing else tells. What cannot
    be read is in its place by name.
    """
    firsts = {path: _first(path) for path in sorted(paths)}
    boots: dict[str, int] = {}
    for boot, _ in firsts.values():
        boots.setdefault(boot, len(boots))
    return sorted(firsts, key=lambda path: (boots[firsts[path][0]], firsts[path][1]))


def _first(path: Path) -> tuple[str, float]:
    """The boot id, or the path where there is none, and the time of the first message, in ns."""
    try:
        with by_any_name(path, partial(Reader, strict=False)) as reader:
            record = next(reader, None)
            sections = reader.sections
    except OSError:
        return str(path), math.inf
    section = record.facts.section if record else sections[0] if sections else None
    boot = str(section.info.get("boot_id", path)) if section else str(path)
    return boot, record.facts.mono_ns if record else math.inf
