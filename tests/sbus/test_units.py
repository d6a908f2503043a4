# SPDX-License-Identifier: MIT
"""The systemd units: systemd accepts them, and they give the daemon no more than it needs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kbus.sbus import address, daemon

UNITS = Path(__file__).parents[2] / "systemd"
NAMES = ("kbus-sbusd.service", "kbus-sbusd.socket")
COMMAND = "/usr/local/bin/kbus-sbusd"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as they are, but for the command, which must be there."""
    command = tmp_path / "kbus-sbusd"
    shutil.copy("/bin/true", command)
    for name in NAMES:
        text = (UNITS / name).read_text()
        assert (COMMAND in text) == name.endswith(".service")
        (tmp_path / name).write_text(text.replace(COMMAND, str(command)))
    return tmp_path


def test_systemd_accepts_them(installed: Path) -> None:
    verify = ["systemd-analyze", "verify", "--man=no", *(str(installed / name) for name in NAMES)]
    done = subprocess.run(verify, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ours = [line for line in done.stdout.splitlines() if "kbus-sbusd" in line]
    assert (ours, done.returncode) == ([], 0)


def test_systemd_rejects_what_is_wrong(installed: Path) -> None:
    """So that the test above means something."""
    unit = installed / "kbus-sbusd.service"
    unit.write_text(unit.read_text().replace("PrivateTmp=yes", "PrivateTmp=perhaps\nNoSuchSetting=1"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert "NoSuchSetting" in done.stdout


def test_they_are_hardened(installed: Path) -> None:
    """systemd's own measure of what a service could do: 0 is nothing, 10 everything."""
    security = ["systemd-analyze", "security", "--offline=true", "--threshold=15", str(installed / NAMES[0])]
    done = subprocess.run(security, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def test_they_start_what_there_is() -> None:
    service = (UNITS / NAMES[0]).read_text()
    arguments = re.findall(rf"^ExecStart={COMMAND} (.+)$", service, re.MULTILINE)[0].split()
    args = daemon.parser().parse_args(arguments)
    assert (args.foreground, args.pidfile, args.address) == (True, "/dev/null", None)
    assert f"ListenSequentialPacket={address.DEFAULT}\n" in (UNITS / NAMES[1]).read_text()
