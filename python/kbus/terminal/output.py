# SPDX-License-Identifier: MIT
"""Writing to stdout and stderr: text always printable, and on stdout as UTF-8, whatever the locale is."""

from __future__ import annotations

import atexit
import contextlib
import json
import select
import sys
from collections.abc import Sequence
from typing import Any, Optional

from .streams import forget_stderr, forget_stdout

__all__ = [
    "StdoutClosed",
    "StdoutFailed",
    "flush",
    "put",
    "put_json",
    "put_line",
    "put_table",
    "say",
    "show",
    "stdout_failed",
    "tell",
]


#: Seconds for which text waits for the reader of stderr. If it was left out, the next does not wait.
_PATIENCE = 1.0


class StdoutFailed(Exception):
    """What should be on stdout can't be written there, as on a full disk. The text says why."""


class StdoutClosed(StdoutFailed):
    """The reader of stdout has gone."""


def put(data: bytes) -> None:
    """Write bytes as they are."""
    try:
        sys.stdout.buffer.write(data)
    except OSError as error:
        raise _cause(error) from None


def put_line(text: str, colour: str = "") -> None:
    """Write a line of text, with escapes in place of what is not printable; in this colour of SGR, if any."""
    line = printable(text)
    put((f"\x1b[{colour}m{line}\x1b[0m\n" if colour else f"{line}\n").encode())


def put_json(record: Any) -> None:
    """Write a JSON object on a line of its own."""
    put_line(json_text(record))


def put_table(
    head: Sequence[str], rows: Sequence[Sequence[object]], numbers: Optional[Sequence[bool]] = None
) -> None:
    """Write rows below their head, in columns; columns of numbers stand at the right.

    These are the columns of which ``numbers`` says so, or else those of integers.
    """
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    head = [printable(name) for name in head]
    widths = [max(map(len, column)) for column in zip(head, *cells)]
    if numbers is None:
        numbers = [bool(rows) and all(isinstance(row[at], int) for row in rows) for at in range(len(head))]
    for line in [head, *cells]:
        words = [
            word.rjust(width) if is_number else word.ljust(width)
            for word, width, is_number in zip(line, widths, numbers)
        ]
        put_line("  ".join(words).rstrip())


def flush() -> None:
    """Let the reader have what was written so far."""
    try:
        sys.stdout.buffer.flush()
    except OSError as error:
        raise _cause(error) from None


def stdout_failed(program: str, failure: StdoutFailed) -> int:
    """Give up stdout, say why unless its reader has gone, and return the exit status."""
    forget_stdout()
    if isinstance(failure, StdoutClosed):
        return 0
    tell(program, str(failure))
    return 1


def _cause(error: OSError) -> StdoutFailed:
    closed, text = isinstance(error, BrokenPipeError), f"can't write to standard output: {error.strerror}"
    return StdoutClosed(text) if closed else StdoutFailed(text)


def say(subcommand: str, text: str) -> None:
    """Write a line to stderr, after the data that came before it."""
    # If that fails, the next write does, too.
    with contextlib.suppress(StdoutFailed):
        flush()
    tell(f"kbus {subcommand}", text)


def tell(program: str, text: str) -> None:
    """Write a line of text to stderr, with escapes in place of what is not printable."""
    show(printable(f"{program}: {text}") + "\n")


def show(text: str, patience: float = _PATIENCE) -> None:
    """Write text to stderr as it is.

    What is being done does not fail if that does, as on a full disk, nor wait for more than ``patience``
    seconds if it is not read: then text is left out, and how often is said when it is read again.
    """
    global _left_out
    try:
        for begin in range(0, len(text), _PIECE):
            if not _takes_text(patience):
                _left_out += 1
                return
            if _left_out:
                told, _left_out = _left_out, 0
                print(f"(text was left out here {told} times: it was not read)", file=sys.stderr, flush=True)
            print(text[begin : begin + _PIECE], end="", file=sys.stderr, flush=True)
    except OSError:
        # It is written with what comes next, or not at all. In the end it would cost the exit status.
        atexit.unregister(forget_stderr)
        atexit.register(forget_stderr)


#: Characters that a pipe or a terminal takes when it takes any, also if each has four bytes
_PIECE = 1000
_left_out = 0


def _takes_text(patience: float) -> bool:
    """Whether text can be written to stderr without waiting for a reader."""
    try:
        fd = sys.stderr.fileno()
    except (OSError, ValueError):
        # It is something else in a test.
        return True
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0 if _left_out else 1000 * patience))


def printable(text: str) -> str:
    r"""Return the text with escapes, such as ``\n`` and ``\u202e``, in place of all that is not printable.

    That is control characters, ends of lines, what changes the direction of writing, blanks other than the
    space, what is for private use or not assigned, and bytes that were no UTF-8. So the text is a part of one
    line, and what is shown is what is there. Backslashes stay: to double them would spoil text that has
    escapes already.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def json_text(value: Any) -> str:
    """Return the value as JSON, in printable ASCII."""
    return json.dumps(value)
