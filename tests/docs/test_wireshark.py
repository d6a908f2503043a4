# SPDX-License-Identifier: MIT
"""What the how-to of Wireshark shows is what tshark shows, with the dissector where the page wants it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
EXAMPLES = REPO / "docs" / "examples" / "wireshark"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home directory of somebody who has installed the dissector for himself."""
    plugins = tmp_path / ".local" / "lib" / "wireshark" / "plugins"
    plugins.mkdir(parents=True)
    shutil.copy(REPO / "python" / "wireshark" / "kbus.lua", plugins)
    return tmp_path


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.sh")))
def test_listing(script: str, home: Path) -> None:
    environment = {**os.environ, "HOME": str(home), "LC_ALL": "C.UTF-8"}
    environment.pop("XDG_CONFIG_HOME", None)
    done = subprocess.run(
        [EXAMPLES / script], cwd=EXAMPLES, env=environment, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == (EXAMPLES / f"{script}.out").read_text(encoding="utf-8")
