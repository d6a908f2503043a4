# SPDX-License-Identifier: MIT
"""Loading and unloading the module, and its parameters: rules 33 and 38."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from pathlib import Path

import pytest

from kbus import Ksock, __version__
from tests.kernel import module, raw
from tests.kernel.conftest import OpenKsock, StartChild
from tests.kernel.helpers import PROC, bindings, device_stats, fails, stats_lines

CLASS = Path("/sys/class/kbus")

DEFAULTS = {
    "num_kbus_devices": 1,
    "default_queue_length": 100,
    "max_queue_length": 10000,
    "default_message_size": 1 << 20,
    "max_message_size": 16 << 20,
    "max_queue_bytes": 4 << 20,
    "max_ksock_bindings": 4096,
    "max_user_bindings": 65536,
    "max_name_bindings": 16,
    "max_user_ksocks": 1024,
    "first_serial": 1,
    "first_ksock_id": 1,
    "proc_gid": 0,
}
READ_ONLY = {"num_kbus_devices", "device_mode", "proc_gid"}


def nodes() -> list[str]:
    """What there is in /dev."""
    return sorted(name for name in os.listdir("/dev") if name.startswith("kbus"))


def traces() -> list[str]:
    """Everything by which a loaded module shows."""
    majors = [line for line in Path("/proc/devices").read_text().splitlines() if "kbus" in line]
    return [*nodes(), *majors, *(str(path) for path in (CLASS, PROC, module.PARAMETERS) if path.exists())]


@pytest.mark.rule(33)
def test_parameters_and_their_defaults() -> None:
    shown = {path.name: path.read_text().strip() for path in module.PARAMETERS.iterdir()}
    assert {name: int(shown[name]) for name in DEFAULTS} == DEFAULTS
    assert set(shown) == {*DEFAULTS, "max_user_bytes", "device_mode", "writers_configure"}
    assert shown["writers_configure"] == "N"
    assert int(shown["device_mode"], 8) == 0o660


def test_the_version_is_that_of_the_package() -> None:
    said = subprocess.check_output(["modinfo", "-F", "version", module.MODULE], text=True)
    assert said.strip() == __version__
    assert Path("/sys/module/kbus/version").read_text().strip() == __version__


@pytest.mark.rule(33)
def test_a_user_may_have_an_eighth_of_the_memory() -> None:
    lines = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
    kilobytes = {words[0]: int(words[1]) for words in lines}
    # Of that which is always mapped; on 64-bit processors that is all.
    total = (kilobytes["MemTotal:"] - kilobytes.get("HighTotal:", 0)) * 1024
    assert int((module.PARAMETERS / "max_user_bytes").read_text()) == pytest.approx(total / 8, rel=0.05)


@pytest.mark.rule(33)
def test_no_bytes_of_a_user_mean_the_default() -> None:
    """At load and later."""
    file = module.PARAMETERS / "max_user_bytes"
    default = file.read_text()
    with module.reloaded(max_user_bytes=0):
        assert file.read_text() == default
        file.write_text("5000000")
        assert file.read_text() == "5000000\n"
        file.write_text("0")
        assert file.read_text() == default


@pytest.mark.rule(33)
def test_no_mode_is_no_mode() -> None:
    """What makes the nodes would take another one."""
    module.unload()
    try:
        with fails(errno.EINVAL):
            module.load(device_mode="0")
    finally:
        module.load()


@pytest.mark.rule(33)
def test_parameters_are_writable_where_that_is_safe() -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in module.PARAMETERS.iterdir()}
    assert modes == {name: 0o444 if name in READ_ONLY else 0o644 for name in modes}


def proc_owners() -> set[tuple[str, int, int, int]]:
    """Name, mode, user and group of /proc/kbus and what is in it."""
    found = ((path.name, path.stat()) for path in (PROC, *PROC.iterdir()))
    return {(name, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) for name, status in found}


@pytest.mark.rule(33, 47)
@pytest.mark.parametrize("group", [0, 4242])
def test_root_and_a_group_may_read_proc(group: int) -> None:
    with module.reloaded(proc_gid=group):
        assert proc_owners() == {
            ("kbus", 0o550, 0, group),
            ("bindings", 0o440, 0, group),
            ("stats", 0o440, 0, group),
        }


@pytest.mark.rule(33, 47)
def test_a_wrong_group_of_proc() -> None:
    module.unload()
    try:
        with fails(errno.EINVAL):
            module.load(proc_gid=0xFFFFFFFF)
        assert traces() == []
    finally:
        module.load()


def node_modes() -> set[int]:
    """The modes of all the nodes."""
    return {stat.S_IMODE(os.stat(f"/dev/{node}").st_mode) for node in nodes()}


@pytest.mark.rule(33, 38)
def test_several_devices_from_the_start() -> None:
    with module.reloaded(num_kbus_devices=3, device_mode="0640", default_queue_length=7, first_ksock_id=40):
        assert nodes() == ["kbus0", "kbus1", "kbus2"]
        assert node_modes() == {0o640}
        assert [line.key for line in stats_lines()] == [("device", number) for number in range(3)]
        with Ksock(2) as one:
            assert (one.max_messages(), raw.number(one, "KSOCKID")) == (7, 40)
            assert one.new_device() == 3
        assert nodes() == ["kbus0", "kbus1", "kbus2", "kbus3"]
        with fails(errno.ENOENT):
            Ksock(4)
    assert nodes() == ["kbus0"]
    assert node_modes() == {0o660}


@pytest.mark.rule(33)
@pytest.mark.abi("NEWDEVICE")
def test_there_are_256_devices_at_most() -> None:
    with module.reloaded(num_kbus_devices=256):
        assert len(nodes()) == 256
        with Ksock(255) as one, fails(errno.ENOSPC):
            one.new_device()
        assert len(nodes()) == 256


@pytest.mark.rule(33)
@pytest.mark.parametrize("number", [0, 257])
def test_a_wrong_number_of_devices(number: int) -> None:
    module.unload()
    try:
        with fails(errno.EINVAL):
            module.load(num_kbus_devices=number)
        assert traces() == []
    finally:
        module.load()


@pytest.mark.rule(38)
@pytest.mark.axiom("lifetime")
def test_nothing_stays_behind() -> None:
    with Ksock() as one:
        one.new_device()
        one.bind("$.A")
    assert len(nodes()) >= 2
    module.unload()
    left = traces()
    module.load()
    assert left == []
    assert nodes() == ["kbus0"]


@pytest.mark.rule(38)
def test_it_stays_while_a_device_is_open(ksock: OpenKsock) -> None:
    one = ksock(mode="r")
    one.bind("$.A")
    with fails(errno.EAGAIN):
        module.unload()
    assert device_stats()["ksocks"] == len(bindings()) == 1


@pytest.mark.rule(31, 38)
@pytest.mark.axiom("lifetime")
def test_it_can_go_when_the_last_owner_is_killed(child: StartChild) -> None:
    process = child(Ksock)
    with fails(errno.EAGAIN):
        module.unload()
    process.kill()
    module.unload()
    module.load()
    assert device_stats()["ksocks"] == 0


@pytest.mark.rule(35, 38)
def test_an_open_proc_file_does_not_hold_it() -> None:
    with open(PROC / "stats") as stats, open(PROC / "bindings"):
        stats.readline()
        module.unload()
        module.load()
    assert device_stats()["ksocks"] == 0
