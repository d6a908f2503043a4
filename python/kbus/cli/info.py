# SPDX-License-Identifier: MIT
"""``kbus info``: what is in captures."""

from __future__ import annotations

import argparse
import dataclasses
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from ..capture import Damage
from ..capture.series import by_any_name, each_once
from ..capture.summary import Summary, summarize
from ..terminal import options
from ..terminal.failures import Failure
from ..terminal.output import put_json, put_line, put_table, say

_MOST_DAMAGE = 10


def add(subparsers: options.Subparsers) -> None:
    """Add this subcommand to the parser."""
    parser = subparsers.add_parser(
        "info",
        help="show what is in captures",
        description="Show counts, times, names, losses and the health of captures. The exit status is 1 if"
        " one of them is damaged, or is not a capture.",
    )
    options.add_captures(parser)
    parser.add_argument(
        "-n", "--names", type=options.positive, metavar="N", help="show only the N names with most messages"
    )
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Do it."""
    damaged = 0
    foreign: list[str] = []
    named = set(args.paths)
    for path in captures_in(args.paths):
        try:
            summary = summarize(path) if path in named else by_any_name(path, summarize)
        except OSError as error:
            check_gone("info", path, args.paths, error)
            continue
        if is_foreign(summary):
            foreign.append(not_a_capture(path, summary.damage))
        else:
            damaged += bool(summary.damage)
        if args.json:
            put_json(_as_json(summary))
        else:
            _show(summary, args.names)
    if foreign:
        text = foreign[0] if len(foreign) == 1 else f"{len(foreign)} of the files are not captures"
        if not damaged:
            raise Failure(text)
        say("info", text)
    if damaged:
        raise Failure(f"{damaged} of the captures are damaged; `kbus recover` makes whole ones of them")


def captures_in(paths: list[Path]) -> list[Path]:
    """The files that these paths are, or have in them in the order of their names. Raises a Failure."""
    if paths.count(options.STDIN) > 1:
        raise Failure.usage("stdin can be read once")
    found: list[Path] = []
    for path in paths:
        try:
            inside = _captures_of(path) if path.is_dir() else [path]
        except OSError as error:
            raise Failure(f"can't read {path}: {error.strerror}") from error
        if not inside:
            raise Failure(f"there are no captures in {path}")
        found += inside
    return found


def _captures_of(directory: Path) -> list[Path]:
    return [directory / name for name in each_once(path.name for path in directory.iterdir())]


def is_foreign(summary: Summary) -> bool:
    """Whether nothing in the file is of a capture, so that there is nothing to recover, either."""
    return bool(summary.damage) and not summary.sections


def not_a_capture(path: Path, damage: Sequence[Damage]) -> str:
    """Return what is said of such a file, which is all damage."""
    return f"{path} is not a capture: {damage[0].reason}"


def check_gone(subcommand: str, path: Path, given: list[Path], error: OSError) -> None:
    """Say so if what is in a directory has gone meanwhile, or is no file. Raises a Failure for all else."""
    if path in given or os.path.isfile(path):
        raise Failure(f"can't read {path}: {error.strerror}") from error
    has_gone = isinstance(error, FileNotFoundError)
    say(subcommand, f"{path} is left out: {'it has gone meanwhile' if has_gone else error.strerror}")


def _as_json(summary: Summary) -> dict[str, Any]:
    return {
        **dataclasses.asdict(summary),
        "path": str(summary.path),
        "damage": [each._asdict() for each in summary.damage],
    }


def _show(summary: Summary, most: Optional[int]) -> None:
    # That of a pipe is not known.
    size = f", {summary.size} bytes" if summary.size or not summary.sections else ""
    put_line(f"{summary.path}: {_health(summary)}{size}")
    if is_foreign(summary):
        put_line(f"  {summary.damage[0].reason}")
        return
    for info in summary.sections:
        device = info.get("device", "unknown machine")
        boot, load = ("unknown" if info.get(key) is None else info[key] for key in ("boot_id", "load_id"))
        bindings = " ".join(info.get("bindings", ["unknown"]))
        put_line(f"  {device}, boot {boot}, load {load}, bound to {bindings}")
    if summary.more_sections:
        put_line(f"  and {summary.more_sections} more sections")
    buses = ", ".join(f"kbus{bus} {count}" for bus, count in sorted(summary.buses.items()))
    put_line(f"  {summary.messages} messages ({buses or 'none'}), {summary.bytes} bytes, {summary.lost} lost")
    if summary.first_ns is not None and summary.last_ns is not None:
        seconds = summary.seconds
        rate = f", {seconds:.3f} s, {summary.messages / seconds:.1f}/s" if seconds else ""
        put_line(f"  {_date(summary.first_ns)} to {_date(summary.last_ns)}{rate}")
    if summary.missing:
        put_line(f"  {summary.missing} messages are missing in the file, by what the recorder says")
    if summary.steps_back:
        put_line(f"  the clock was set back {summary.steps_back} times")
    _show_damage(summary)
    _show_names(summary, most)


def _show_damage(summary: Summary) -> None:
    for damage in summary.damage[:_MOST_DAMAGE]:
        put_line(f"  {damage.length} bytes from {damage.offset} are of no use: {damage.reason}")
    more = len(summary.damage) - _MOST_DAMAGE + summary.more_damage
    if more > 0:
        put_line(f"  and {more} more places")


def _health(summary: Summary) -> str:
    if summary.damage:
        return "not a capture" if is_foreign(summary) else "damaged"
    return "whole" if summary.is_sealed else "whole, but it was not sealed"


def _date(time_ns: int) -> str:
    seconds, ns = divmod(time_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(seconds))}.{ns:09d} UTC"


def _show_names(summary: Summary, most: Optional[int]) -> None:
    if not summary.names:
        return
    by_count = sorted(summary.names.items(), key=lambda each: (-each[1].messages, each[0]))
    rows = [
        [f"  {name}", each.messages, each.requests, each.replies, each.failed, each.bytes]
        for name, each in by_count[:most]
    ]
    put_table(["  NAME", "MESSAGES", "REQUESTS", "REPLIES", "FAILED", "BYTES"], rows)
    if most is not None and len(by_count) > most:
        put_line(f"  and {len(by_count) - most} more names")
