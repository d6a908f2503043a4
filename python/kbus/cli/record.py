# SPDX-License-Identifier: MIT
"""``kbus record``: keep what happens on the bus in files."""

from __future__ import annotations

import argparse
import math
import os
import signal
import socket
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Optional

from .. import __version__
from ..capture.files import Files, Policy
from ..capture.identity import boot_id, bus_of, load_id
from ..capture.recorder import Recorder
from ..capture.ring import Ring
from ..capture.source import Source
from ..terminal import options
from ..terminal.failures import Failure, bind_failure, open_failure
from ..terminal.monitoring import notify
from ..terminal.output import printable, show
from ..terminal.signals import EndSignals

_DESCRIPTION = (
    "Record all messages, or those of some names, to pcapng files in a directory, until SIGINT or SIGTERM."
    " The recorder observes: no sender waits for it. SIGUSR1 writes a snapshot, or seals the file and begins"
    " a new one."
)
_DEFAULT_SIZE = 64 << 20
_LONGEST_NAME = 1000
#: Characters of a section's header, which has 65535 bytes, that NAMEs may take with quotes and commas
_ROOM_FOR_NAMES = 48_000
#: What ``--fsync`` knows besides a number of seconds, see ``Policy``
_FSYNC = {"never": None, "seal": math.inf, "always": 0.0}
#: Bytes of messages that are taken at once
_ROOM = 1 << 16


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser("record", help="record messages to files", description=_DESCRIPTION)
    parser.add_argument(
        "names",
        nargs="*",
        type=options.name_to_bind,
        metavar="NAME",
        help=f"{options.NAME_HELP}; default: $.*",
    )
    parser.add_argument(
        "-d",
        "--device",
        dest="devices",
        action="append",
        type=options.natural,
        metavar="N",
        help="/dev/kbusN (default: KBUS_DEVICE, or 0); several are recorded to the same files",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where the files go (default: here); it is made if it is missing",
    )
    parser.add_argument(
        "--name",
        type=_name,
        default=socket.gethostname(),
        metavar="NAME",
        help="of this machine (default: its host name)",
    )
    parser.add_argument(
        "--rotate-size", type=options.size, metavar="SIZE", help="begin a new file after SIZE (default: 64M)"
    )
    parser.add_argument(
        "--rotate-time", type=options.seconds, metavar="S", help="and when a file is S seconds old"
    )
    parser.add_argument(
        "--keep",
        type=options.size,
        metavar="SIZE",
        help="delete the oldest sealed files of the same NAME and devices when all are more than SIZE",
    )
    parser.add_argument("--compress", action="store_true", help="compress sealed files with gzip")
    parser.add_argument(
        "--fsync",
        type=_fsync,
        default="seal",
        metavar="WHEN",
        help="when the disk must have it: never, seal (each file when it is done), every so many seconds, or"
        " always (default: seal)",
    )
    parser.add_argument(
        "--flush",
        type=options.seconds,
        default=0.2,
        metavar="S",
        help="let messages stay in memory for S seconds at most (default: 0.2)",
    )
    parser.add_argument(
        "--queue", type=options.queue_length, metavar="N", help="length of the queue (default: the longest)"
    )
    parser.add_argument(
        "--snapshot",
        type=options.size,
        metavar="SIZE",
        help="write nothing, but keep the last SIZE in memory, and make a file of that on SIGUSR1",
    )
    parser.add_argument(
        "--on",
        type=options.name_to_bind,
        metavar="NAME",
        help="make a snapshot when a message of that name comes, too",
    )
    parser.add_argument(
        "--after",
        type=options.seconds,
        metavar="S",
        help="make each snapshot S seconds later, with what comes until then; what asks for one meanwhile"
        " asks for the same",
    )
    parser.set_defaults(run=run)


def _fsync(text: str) -> Optional[float]:
    if text in _FSYNC:
        return _FSYNC[text]
    with suppress(argparse.ArgumentTypeError):
        if seconds := options.seconds(text):
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is neither never, seal, always nor a number of seconds")


def _name(text: str) -> str:
    # The header of each file has it, and room for 65535 bytes in all.
    if not 0 < len(text) <= _LONGEST_NAME:
        raise argparse.ArgumentTypeError(f"a name has from 1 to {_LONGEST_NAME} characters")
    return text


def run(args: argparse.Namespace) -> None:
    """Do it."""
    if args.on and not args.snapshot:
        raise Failure.usage("--on needs --snapshot: everything is recorded anyway")
    if args.after is not None and not args.snapshot:
        raise Failure.usage("--after needs --snapshot SIZE, the most that is kept in memory")
    default = min(_DEFAULT_SIZE, args.keep // 4 or 1) if args.keep else _DEFAULT_SIZE
    size = args.snapshot or args.rotate_size or default
    if args.keep and args.keep < 2 * size:
        option = "--snapshot" if args.snapshot else "--rotate-size"
        raise Failure.usage(f"--keep is {args.keep}: it must be twice {option}, {2 * size}, at least")
    buses = sorted(set(args.devices or [options.default_device()]))
    names = [*(args.names or ["$.*"]), *([args.on] if args.on else [])]
    if sum(map(len, names)) + 3 * len(names) > _ROOM_FOR_NAMES:
        raise Failure.usage(
            f"a capture's header has room for {_ROOM_FOR_NAMES} characters of NAMEs: name fewer, with * or %"
        )
    policy = Policy(args.output, size, args.rotate_time, args.keep, args.compress, args.fsync)
    # What comes at once goes to the same file, or is forgotten at once by the ring.
    room = min(_ROOM, size // 64 + 1)
    with ExitStack() as stack, EndSignals(signal.SIGUSR1) as signals:
        sources = []
        for bus in buses:
            sources.append(_open(bus, names, args.queue, room))
            stack.enter_context(sources[-1].ksock)
        # As long as a device is open, the module is not loaded anew.
        info = {
            "device": args.name,
            "boot_id": boot_id(),
            "load_id": load_id(),
            "bus": bus_of(buses),
            "recorder": __version__,
            "bindings": names,
        }
        files = Files(policy, args.name, buses, info, _tell)
        ring = Ring(args.snapshot) if args.snapshot else None
        recorder = Recorder(
            sources,
            files,
            _tell,
            flush=args.flush,
            flush_size=room,
            ring=ring,
            trigger=args.on,
            after=args.after or 0.0,
        )
        try:
            args.output.mkdir(parents=True, exist_ok=True)
            recorder.begin()
        except OSError as error:
            raise Failure(f"can't write to {args.output}: {error.strerror}") from error
        what = f"keeping the last {args.snapshot} bytes in memory" if ring else f"writing {files.name}"
        _tell(f"listening to {', '.join(f'kbus{bus}' for bus in buses)}, {what}")
        _come_last()
        _record(recorder, files, signals)


def _come_last() -> None:
    """Take the processor from no sender: what has come is read when that has done, and more at once.

    If another scheduling policy was chosen when this was started, that stays.
    """
    if os.sched_getscheduler(0) == os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _open(bus: int, names: list[str], queue: Optional[int], room: int) -> Source:
    try:
        return Source(bus, names, queue, room)
    except OSError as error:
        is_name = str(error.filename).startswith("$.")
        raise (bind_failure(error) if is_name else open_failure(error)) from error


def _record(recorder: Recorder, files: Files, signals: EndSignals) -> None:
    """Record until a signal ends it, and say what came of it."""
    progress = _Progress(recorder, files)
    _tell_systemd("READY=1")
    while not signals.came:
        _take_snapshot(recorder, signals)
        recorder.step(signals.fileno(), progress.show())
    _tell_systemd("STOPPING=1")
    _take_snapshot(recorder, signals)
    recorder.close()
    progress.end()
    kept = recorder.messages - recorder.dropped
    _tell(f"{kept} messages, {sum(recorder.lost())} lost, {files.sealed} files, {files.written} bytes")
    if recorder.dropped:
        raise Failure(f"there was no room for {recorder.dropped} messages")
    if recorder.lacks_snapshot:
        raise Failure("there was no room for the last snapshot")
    if files.unfinished:
        raise Failure(f"{files.unfinished} files could not be finished")


def _take_snapshot(recorder: Recorder, signals: EndSignals) -> None:
    """Make a snapshot if that is asked for."""
    if signals.take_others():
        recorder.drain()
        recorder.snapshot()


def _tell_systemd(state: str, wait: bool = True) -> None:
    # Recording is what matters: it goes on when systemd does not listen any more.
    with suppress(OSError):
        notify(state, wait)


def _tell(text: str) -> None:
    # A progress line may be there, and is shorter than this.
    clear = _CLEAR if sys.stderr.isatty() else ""
    show(f"{clear}{printable(f'kbus record: {text}')}\n")


_CLEAR = "\r\x1b[K"


class _Progress:
    """A line on a terminal, once a second, and the status that systemd shows."""

    def __init__(self, recorder: Recorder, files: Files) -> None:
        self._recorder = recorder
        self._files = files
        self._is_terminal = sys.stderr.isatty()
        self._is_service = "NOTIFY_SOCKET" in os.environ
        self._next = self._began = time.monotonic()
        self._before = 0

    def show(self) -> float:
        """Show it, if it is time to; the seconds until it is again."""
        now = time.monotonic()
        if now >= self._next and (self._is_terminal or self._is_service):
            text = self._text()
            if self._is_terminal:
                show(f"{_CLEAR}{text}")
            if self._is_service:
                _tell_systemd(f"STATUS={text}", wait=False)
        if now >= self._next:
            self._before = self._recorder.messages
            self._next = now + 1
        return self._next - now

    def _text(self) -> str:
        recorder = self._recorder
        state = "recording" if recorder.stopped_since is None else "no room"
        return (
            f"{state}: {recorder.messages} messages, {recorder.messages - self._before}/s,"
            f" {sum(recorder.lost())} lost, {self._files.written} bytes, {self._files.sealed} files done"
        )

    def end(self) -> None:
        """Leave the terminal as it was."""
        if self._is_terminal:
            show(_CLEAR)
