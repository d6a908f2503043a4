# SPDX-License-Identifier: MIT
"""The programs of docs/examples: which run together, and what each prints.

Beside each program that prints anything is a file with that, ``NAME.out``. Ids in it are those of a module
just loaded. The C programs are built by ``make -C docs/examples``.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.kernel.helpers import PATIENCE, bindings_text, stats_text, wait_until

REPO = Path(__file__).parents[2]
EXAMPLES = REPO / "docs" / "examples"
BUILD = EXAMPLES / "bin"
DIFFERS = re.compile(r"(?<=\()\d+\.\d{9}(?=\))|(?<=pid=)\d+|(?<=^..[ \d]: .{8}) [ \d]{8}", re.MULTILINE)
"""What is not the same in each run: times, and process ids in /proc/kbus."""


class Part(NamedTuple):
    """A program of an example."""

    file: str
    until: str = ""
    """What /proc/kbus must show before the next program starts; if empty, that waits for this one's end."""
    makes: str = ""
    """The path that must be there, too."""
    says: str = ""
    """What is on stderr, among other things; without this, stderr is part of what it prints."""
    given: str = ""
    """Its argument."""
    status: int = 0
    """What it ends with; -SIGTERM for one that does not end by itself."""

    def is_ready(self) -> bool:
        """True when the next program may start."""
        return self.until in stats_text() + bindings_text() and (not self.makes or Path(self.makes).exists())


ENDLESS = -signal.SIGTERM
TOGETHER = [
    [Part("tour.py")],
    [Part("many.py")],
    [Part("tour.c")],
    [Part("ioctls.c")],
    [Part("listen.sh", until="$.Sensors.*"), Part("send.sh")],
    [
        Part(
            "fahrenheit.py",
            until="$.Convert.Fahrenheit",
            says="ValueError: could not convert string to float: b'warm'",
            status=ENDLESS,
        ),
        Part("convert.sh"),
        Part("convert_warm.sh"),
        Part("convert.py"),
    ],
    [Part("door.py", until="$.Door.Open", status=ENDLESS)],
    [Part("crash.py", until="$.Door.Open", status=-signal.SIGKILL), Part("open_door.sh")],
    [Part("sensor_service.py", until="$.Sensors.Quit"), Part("sensor_client.py")],
    [Part("house.py")],
    [Part("read_log.py", given="listen.sh.out")],
    [Part("answers.py", given="wireshark/door.pcapng")],
    [Part("call_door.sh")],
    [Part("testbus.sh")],
    [
        Part("sbus_bridge.sh", until="ksock 0 1 ", makes="/tmp/sbus"),
        Part("sbus_sub.sh", until="$.Sensors.*"),
        Part("sbus_listen.sh", until="ksock 0 2 "),
        Part("sbus_talk.sh"),
    ],
    [Part("sbus_bridge.sh", until="ksock 0 1 ", makes="/tmp/sbus"), Part("sbus_client.c")],
    [Part("sbus_bridge.sh", until="ksock 0 1 ", makes="/tmp/sbus"), Part("sbus_calls.c")],
    [
        Part("stuck.py", until="$.Sensors.*", status=ENDLESS),
        Part("panel.py", until="owed=1 unreplied=1", status=ENDLESS),
        Part("who_hangs.sh"),
    ],
]


def environment() -> dict[str, str]:
    """Variables for programs that find Python, the package and its commands as if it were installed."""
    return {
        **os.environ,
        "PATH": f"{sys.prefix}/bin:{REPO / 'tests/vm/bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPO / "python"),
        # So that nothing is lost of what a program printed before it was ended.
        "PYTHONUNBUFFERED": "1",
    }


def how_to_run(part: Part) -> list[str]:
    """The command for a program."""
    path = EXAMPLES / part.file
    if path.suffix == ".py":
        return [sys.executable, str(path), *part.given.split()]
    return [str(BUILD / path.stem if path.suffix == ".c" else path)]


@contextmanager
def started(part: Part) -> Iterator[None]:
    """Start a program, and see at the end that it printed and ended as it should."""
    with subprocess.Popen(
        how_to_run(part),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if part.says else subprocess.STDOUT,
        text=True,
        cwd=EXAMPLES,
        env=environment(),
    ) as process:
        try:
            yield
            if part.status == ENDLESS:
                process.send_signal(signal.SIGTERM)
            printed, said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    shown = EXAMPLES / f"{part.file}.out"
    assert DIFFERS.sub("#", printed) == DIFFERS.sub("#", shown.read_text() if shown.exists() else "")
    assert part.says in (said or "")
    assert process.returncode == part.status


def run_together(parts: list[Part]) -> None:
    """Run programs that belong together, each when those before it are ready or have ended."""
    with ExitStack() as stack:
        for part in parts:
            if part.until:
                stack.enter_context(started(part))
                wait_until(part.is_ready, f"{part.file} is ready")
            else:
                with started(part):
                    pass
