# SPDX-License-Identifier: MIT
"""The screens that the docs show, made on the stand-in: ``python3 -m tests.docs.screens`` writes them all."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

from tests.docs.examples import EXAMPLES, environment
from tests.kernel.helpers import bindings_text, stats_text, wait_until
from tests.kernel.terminal import ENDED, Terminal, running
from tests.testing.reached import served

SCREENS = EXAMPLES / "screens"
WIDTHS = (50, 80, 200)
TABLE = {
    "version": "kbus --version",
    "bindings": "kbus bindings",
    "tree": "kbus bindings --tree",
    "trace": "kbus trace '$.Door.Open'",
    "ping": "kbus ping -n 3 --interval 0.1 '$.Convert.Fahrenheit'",
    "ping-json": "kbus ping -n 2 --interval 0.1 --json '$.Convert.Fahrenheit'",
    "call": "kbus call --timeout 0.5 '$.Lamp.Set' off; echo \"exit status $?\"",
    "failed": "kbus call '$.Convert.Fahrenheit' warm; echo \"exit status $?\"",
    "serve": "kbus serve -n 1 --time-limit 0.1 '$.Tank.Level' -- sleep 60",
    "lines": r"printf '21.5\n21.6\n' | kbus send --lines '$.Garden.Pond'",
    "rate": "kbus send --repeat 1000 --rate 100000 '$.Load' x",
    "listen": "kbus listen -n 2 --peers '$.Convert.*'",
    "format": "kbus listen -n 3 --format '%n is %d' '$.Sensors.*'",
    "data": "kbus listen -n 3 --data '$.Sensors.*'",
    "device": "KBUS_DEVICE=1 kbus listen -n 1 '$.Lamp.*'",
    "watch": "kbus bindings --watch -n 2 --interval 0.1",
    "stats": "kbus stats",
    "prometheus": "kbus stats --prometheus | grep -A2 'HELP kbus.*sent'",
    "info": 'kbus info door.py; echo "exit status $?"',
    "names": "kbus top",
    "ksocks": "kbus top",
}
"""What is typed for each screen. All are made on one bus in this order, so ids are the same each time."""
_FULL = {"names": ("n", "$.Convert.Fahrenheit", WIDTHS), "ksocks": ("k", "9 KSocks", (200,))}
"""Those that fill the screen: a key, what must be there before it is pressed, and the widths that are shown.
Any other is the same in each width."""
_PROGRAMS = (
    ("", "python3 door.py"),
    ("$.Weather.%", "python3 fahrenheit.py"),
    ("$.Convert.Fahrenheit", "python3 stuck.py"),
    ("$.Sensors.*", "python3 panel.py"),
    ("unreplied=1", "kbus listen '$.Door.*'"),
    ("$.Door.*", "true"),
)
"""Who is on the bus all the time, and what the bus must show before each is started.
The last has the one before it waited for."""
_SEND = (("bindings=8", "./send.sh"),)
_TRAFFIC = (
    ("names:", "kbus send --repeat 1000000 --rate 40 '$.Meter.Power' '230.1 V, 1.31 A'"),
    ("$.Meter.Power", "kbus send --repeat 1000000 --rate 20 '$.Sensors.Kitchen' 21.5"),
    ("$.Sensors.Kitchen", "kbus ping -n 1000000 --interval 0.2 '$.Convert.Fahrenheit'"),
)
_MEANWHILE = {
    "serve": (("$.Tank.Level", "kbus call '$.Tank.Level'"),),
    "listen": (("$.Convert.*", "kbus ping -n 2 --interval 1000 '$.Convert.Fahrenheit'"),),
    "format": _SEND,
    "data": _SEND,
    "device": (("$.Lamp.*", "kbus send -d 1 '$.Lamp.Hall' on"),),
    "watch": (("= kbus0", "kbus listen -n 1 '$.Garden.*'"), ("+ kbus0", "kbus send '$.Garden.Gate' open")),
    "names": _TRAFFIC,
    "ksocks": _TRAFFIC,
}
"""What is started while a screen is shown, and what the screen or the bus must show before."""


def made(width: int) -> Iterator[tuple[str, str]]:
    """The name of each screen and what is on it, in a terminal of this width."""
    with tempfile.TemporaryDirectory() as directory, served(devices=2) as path, ExitStack() as stack:
        # As pip makes it: who looks at processes sees this name, and not that of a module.
        kbus = Path(directory, "kbus")
        kbus.write_text(f"#!{sys.executable}\nimport sys\nfrom kbus.cli import main\nsys.exit(main())\n")
        kbus.chmod(0o755)
        variables = environment()
        variables.update(KBUS_TEST_BUS=path, PATH=f"{directory}:{variables['PATH']}")
        stack.enter_context(mock.patch.dict(os.environ, variables))
        stack.enter_context(started(_PROGRAMS))
        for name, command in TABLE.items():
            key, until, widths = _FULL.get(name, ("", "", WIDTHS))
            if width not in widths:
                continue
            with (
                running("sh", "-c", f"cd '{EXAMPLES}'; {command}", columns=width, lines=60) as terminal,
                started(_MEANWHILE.get(name, ()), terminal),
            ):
                if key:
                    terminal.wait_for(until)
                    terminal.press(key)
                    yield f"{name}-{width}", "\n".join(terminal.wait_for(f"{name}:")).rstrip() + "\n"
                else:
                    assert terminal.end() == 0
                    yield name, f"$ {command}\n{terminal.text().partition(ENDED)[0]}"


@contextmanager
def started(commands: Sequence[tuple[str, str]], terminal: Terminal | None = None) -> Iterator[None]:
    """Programs that run in the block, each started when the terminal or the bus shows what is beside it."""

    def is_shown(text: str) -> bool:
        return text in stats_text() + bindings_text() + (terminal.text() if terminal else "")

    with ExitStack() as stack:
        for after, command in commands:
            wait_until(partial(is_shown, after), f"{after} is shown")
            process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                cwd=EXAMPLES,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
        yield


def write() -> None:
    """Write all screens; those that every width shows alike once."""
    for old in SCREENS.glob("*.txt"):
        old.unlink()
    for width in WIDTHS:
        for name, text in made(width):
            if name not in TABLE or width == 80:
                (SCREENS / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    write()
