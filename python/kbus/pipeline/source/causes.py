# SPDX-License-Identifier: MIT
"""Why something failed, in one line, whatever Spark puts around it."""

from __future__ import annotations

import re

_TRACEBACK = "Traceback (most recent call last):"
_CAUSED_BY = "Caused by: "
#: What Java puts before an exception's own name
_PACKAGE = re.compile(r"^(?:[a-z0-9_]+\.)+(?=[A-Z])")
#: What Python puts before the text of an exception of KBUS
_OURS = re.compile(r"^kbus(?:\.\w+)+: ")


def cause_of(failure: BaseException) -> str:
    """Return the innermost cause that the text of ``failure`` tells.

    Where a task of Python failed, that is what its last traceback ends with; where Java did, its last
    'Caused by', or the exception itself; otherwise the first line.
    """
    lines = str(failure).splitlines() or [type(failure).__name__]
    begins = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    if begins:
        # What belongs to a traceback is indented, and the exception is not.
        ends = [line for line in lines[begins[-1] + 1 :] if line and not line[0].isspace()]
        if ends:
            return _OURS.sub("", ends[0])
    caused = [line[len(_CAUSED_BY) :] for line in lines if line.startswith(_CAUSED_BY)]
    # Py4J says first what it called.
    raised = [line[2:] for line in lines[1:2] if line.startswith(": ")]
    return _PACKAGE.sub("", [lines[0], *raised, *caused][-1])
