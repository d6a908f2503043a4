# SPDX-License-Identifier: MIT
"""Whose the device nodes and /proc/kbus are: the parameter device_mode, and the udev rule of `make install`.

It is here because the virtual machines for other processors have no udev.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel import module

RULE = Path(__file__).parents[2] / "kernel" / "90-kbus.rules"
INSTALLED = Path("/run/udev/rules.d") / RULE.name
GROUPS = Path("/etc/group")
GROUP = 4242


def udevadm(*arguments: str) -> None:
    """Run it; in the chroot that the tests are in, it would do nothing and be content."""
    subprocess.run(["udevadm", *arguments], env=os.environ | {"SYSTEMD_IGNORE_CHROOT": "1"}, check=True)


@pytest.fixture(scope="module")
def rule(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """udev runs, the rule is in force, and there is a group kbus."""
    groups = tmp_path_factory.mktemp("rule") / "group"
    groups.write_text(f"{GROUPS.read_text()}kbus:x:{GROUP}:\n")
    subprocess.run(["mount", "--bind", groups, GROUPS], check=True)
    INSTALLED.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(RULE, INSTALLED)
    subprocess.run(["/lib/systemd/systemd-udevd", "--daemon"], check=True)
    yield
    udevadm("control", "--exit")
    INSTALLED.unlink()
    subprocess.run(["umount", GROUPS], check=True)


def node() -> tuple[str, int, int]:
    """Mode, user and group of the first device."""
    status = os.stat("/dev/kbus0")
    return oct(stat.S_IMODE(status.st_mode)), status.st_uid, status.st_gid


@pytest.mark.rule(33)
@pytest.mark.parametrize("mode", ["0660", "0640", "0666"])
def test_the_rule_gives_the_node_to_the_group(rule: None, mode: str) -> None:
    with module.reloaded(device_mode=mode):
        udevadm("settle")
        assert node() == (oct(int(mode, 8)), 0, GROUP)


@pytest.mark.rule(47)
def test_the_rule_gives_proc_to_the_group(rule: None) -> None:
    with module.reloaded():
        udevadm("settle")
        paths = [Path("/proc/kbus"), *Path("/proc/kbus").iterdir()]
        assert {path.name: path.stat().st_gid for path in paths} == {
            "kbus": GROUP,
            "bindings": GROUP,
            "stats": GROUP,
        }
