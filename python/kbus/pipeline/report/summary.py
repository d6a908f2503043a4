# SPDX-License-Identifier: MIT
"""``report.json``: the verdicts for a program, such as one that raises alerts.

An object with ``format`` (1; another number if a key goes or means something else), ``level`` (the worst of
the verdicts that are known), ``scope`` and ``compare`` as on the command line, ``since`` and ``until`` (when
the first hour with messages begins and the last one ends, of clocks that are right; null without any),
``verdicts``, ``totals`` and ``thresholds``. Of what ``--compare`` finds it has nothing.

``verdicts`` is a list of objects with ``name``, ``level`` (``green``, ``yellow``, ``red`` or ``unknown``),
``text`` (the sentence of the page) and ``figures``. Those that have a threshold are called as it is, and are
null where they are unknown. ``totals`` has ``messages``, ``files``, ``bytes``, ``devices``, ``names`` and
``hours``. ``thresholds`` are those that were used, with null for ``inf``.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Optional

from . import words
from .findings import Findings
from .verdicts import AT_A_GLANCE, Verdict, worst


def judged(findings: Findings) -> dict[str, Verdict]:
    """Return all verdicts, by name, in the order in which they are shown."""
    return {title: judge(findings) for title, judge in AT_A_GLANCE}


def summary(findings: Findings, verdicts: dict[str, Verdict]) -> str:
    """Return the text of ``report.json``."""
    hours = findings.of_all["hours"]
    found: dict[str, Any] = {
        "format": 1,
        "level": worst([each.level for each in verdicts.values()]),
        "scope": str(findings.scope),
        "compare": [str(each) for each in findings.compare] if findings.compare else None,
        "since": _time(hours["first"]),
        "until": _time(hours["last"] and hours["last"] + timedelta(hours=1)),
        "verdicts": [{"name": title.lower(), **each._asdict()} for title, each in verdicts.items()],
        "totals": {
            "messages": findings.of_all["hours"]["messages"],
            "files": findings.files["files"],
            "bytes": findings.files["size"],
            "devices": findings.of_all["devices"]["recorded"],
            **{name: findings.totals[name] for name in ("names", "hours")},
        },
        "thresholds": findings.thresholds.as_dict(),
    }
    return json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _time(hour: Optional[datetime]) -> Optional[str]:
    return f"{words.utc(hour):%Y-%m-%dT%H:%M:%SZ}" if hour else None
