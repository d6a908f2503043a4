# SPDX-License-Identifier: MIT
"""A command that ``kbus serve`` runs for a request: its input, its output and its end."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO, NamedTuple, Optional

from .._failed import MOST_DATA
from ..terminal.output import printable, show
from ..terminal.signals import EndSignals

__all__ = ["SIGNAL", "TIME_LIMIT", "TOO_LONG", "Done", "run_command"]

#: Why a command was ended
SIGNAL, TIME_LIMIT, TOO_LONG = "signal", "time limit", "too long"

#: Seconds from SIGTERM to SIGKILL: fewer than until a second signal ends ``kbus`` itself
_MERCY = 0.4
#: Seconds for which output is still taken when the command has ended: others may keep its pipes open for ever
_REST = 0.2
#: Seconds until the next look whether it has ended, at first and at most
_SOON, _LATE = 0.001, 0.05
_PIECE = 1 << 16


class Done(NamedTuple):
    """How a command ended: its status, its output, the last line of stderr, and why it was ended, if so.

    ``is_whole``: no process can write more to the output.
    """

    status: int
    output: bytes
    last_words: str
    ended: Optional[str]
    is_whole: bool


def run_command(
    command: Sequence[str],
    environment: Mapping[str, str],
    data: bytes,
    most: int,
    signals: EndSignals,
    time_limit: Optional[float],
) -> Done:
    """Run a command with this input, and pass on what it writes to stderr, as it comes.

    It is ended if its output has more than ``most`` bytes, of which one more is returned; when one of the
    signals has come; and after ``time_limit`` seconds. In any case it has ended when this returns or raises.
    Raises OSError if it can't be run.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, bufsize=0)
    try:
        return _Run(process, data, most).until_done(signals, time_limit)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in _streams(process):
            stream.close()


def _streams(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    assert process.stdin and process.stdout and process.stderr
    return process.stdin, process.stdout, process.stderr


class _Run:
    """A command that has begun."""

    def __init__(self, process: subprocess.Popen[bytes], data: bytes, most: int) -> None:
        self._process = process
        self._stdin, self._stdout, self._stderr = _streams(process)
        self._input = memoryview(data)
        self._output = bytearray()
        self._most = most
        self._errors = _Errors()
        self._poll = select.poll()
        self._open: dict[int, IO[bytes]] = {}
        for stream, events in (
            (self._stdin, select.POLLOUT),
            (self._stdout, select.POLLIN),
            (self._stderr, select.POLLIN),
        ):
            os.set_blocking(stream.fileno(), False)
            self._open[stream.fileno()] = stream
            self._poll.register(stream.fileno(), events)

    def until_done(self, signals: EndSignals, time_limit: Optional[float]) -> Done:
        """Return when it has ended, or has been ended."""
        now = time.monotonic()
        limit = None if time_limit is None else now + time_limit
        ended: Optional[str] = None
        kill_at = 0.0
        pause = _SOON
        while self._process.poll() is None:
            pause = _SOON if self._move(pause) else min(2 * pause, _LATE)
            now = time.monotonic()
            if len(self._output) > self._most:
                ended = TOO_LONG
                self._process.kill()
                self._process.wait()
            elif ended:
                if now >= kill_at:
                    self._process.kill()
            elif signals.came or (limit is not None and now >= limit):
                ended = SIGNAL if signals.came else TIME_LIMIT
                kill_at = now + _MERCY
                self._process.terminate()
        if ended != TOO_LONG:
            self._take_rest(signals)
        is_whole = self._stdout.closed
        return Done(self._process.returncode, bytes(self._output), self._errors.end(), ended, is_whole)

    def _take_rest(self, signals: EndSignals) -> None:
        """Take what is in the pipes, and for a moment what other processes write that still have them."""
        self._close(self._stdin)
        end = time.monotonic() + _REST
        while self._open and len(self._output) <= self._most:
            left = 0.0 if signals.came else end - time.monotonic()
            moved = self._move(max(0.0, left))
            if left <= 0 and (not moved or left < -_REST):
                return

    def _move(self, seconds: float) -> bool:
        """Move what can be moved now, or within so many seconds; False if that was nothing."""
        events = self._poll.poll(seconds * 1000)
        for fd, _ in events:
            stream = self._open[fd]
            if not (self._write() if stream is self._stdin else self._read(stream)):
                self._close(stream)
        return bool(events)

    def _write(self) -> bool:
        """Give it more of its input; False when it has all, or takes no more."""
        try:
            self._input = self._input[os.write(self._stdin.fileno(), self._input[:_PIECE]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        return bool(self._input)

    def _read(self, stream: IO[bytes]) -> bool:
        """Take more of what it has written; False at the end of that."""
        most = self._most + 1 - len(self._output) if stream is self._stdout else _PIECE
        try:
            piece = os.read(stream.fileno(), max(1, min(most, _PIECE)))
        except BlockingIOError:
            return True
        if stream is self._stderr:
            self._errors.add(piece)
        else:
            self._output += piece
        return bool(piece)

    def _close(self, stream: IO[bytes]) -> None:
        if stream.closed:
            return
        self._poll.unregister(stream.fileno())
        del self._open[stream.fileno()]
        stream.close()


class _Errors:
    """Passes on what comes of stderr, line by line, and keeps the last line that is not empty.

    On a terminal it is printable; elsewhere it is as it comes.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._last = b""
        self._is_terminal = sys.stderr.isatty()

    def add(self, piece: bytes) -> None:
        """Some more. Of a line that does not end, what is too long to be kept is passed on at once."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        shown = "".join(self._shown(line) + "\n" for line in lines)
        if len(self._rest) > MOST_DATA:
            shown += self._shown(self._rest)
            self._rest = b""
        if shown:
            show(shown)

    def end(self) -> str:
        """There is no more; return the last line."""
        if self._rest:
            show(self._shown(self._rest))
        return self._last.decode(errors="replace").strip()

    def _shown(self, line: bytes) -> str:
        self._last = line if line.strip() else self._last
        text = line.decode(errors="backslashreplace")
        return printable(text.expandtabs()) if self._is_terminal else text
