# SPDX-License-Identifier: MIT
"""What tshark, with the dissector, makes of a capture."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

DISSECTOR = Path(__file__).parents[2] / "python" / "wireshark" / "kbus.lua"


def tshark(file: Path, *options: str) -> str:
    """What tshark prints of the file. The settings of whoever runs this do not count."""
    home = file.parent / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        ["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", str(file), *options],
        env={**os.environ, "HOME": str(home), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Lua" not in done.stderr
    return done.stdout


def fields(file: Path, *names: str, options: tuple[str, ...] = ("-2", "-R", "kbus")) -> list[dict[str, str]]:
    """These fields of each packet that KBUS's dissector has taken apart; `|` parts several values of one."""
    wanted = ["_ws.lua.error", *names]
    asked = [word for name in wanted for word in ("-e", name)]
    printed = tshark(file, *options, "-T", "fields", "-E", "separator=/t", "-E", "aggregator=|", *asked)
    rows = [dict(zip(wanted, line.split("\t"))) for line in printed.splitlines()]
    assert not any(row.pop("_ws.lua.error") for row in rows)
    return rows
