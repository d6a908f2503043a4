# SPDX-License-Identifier: MIT
"""`kbus record` to a disk that fails: a loop device whose file has no room for what is written to it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbus import Announcement, Ksock, inspect
from tests.kernel.command import Command
from tests.kernel.conftest import OpenKsock
from tests.kernel.helpers import wait_until
from tests.kernel.recording import captures, recording, records

pytestmark = pytest.mark.axiom("loss")

MIB = 1 << 20


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def mounted(*what: str | Path, at: Path) -> Iterator[Path]:
    """A directory on which that is mounted."""
    at.mkdir(exist_ok=True)
    _run("mount", *what, at)
    try:
        yield at
    finally:
        _run("umount", at)


def _queued(recorder: Command) -> int:
    (found,) = [
        each.queued for device in inspect.stats(0) for each in device.ksocks if each.pid == recorder.pid
    ]
    return found


def _is_told(recorder: Command) -> bool:
    return "recording stops: " in recorder.so_far()


def _feed(sender: Ksock, recorder: Command) -> None:
    """Send messages of 16 KiB, as fast as the recorder reads, until the disk has failed."""
    while not _is_told(recorder):
        sender.send_msg(Announcement("$.A", bytes(16 << 10)))
        wait_until(lambda: _queued(recorder) < 20 or _is_told(recorder), "it reads")


@pytest.mark.qemu("User Mode Linux does not come to an end with a loop device that cannot be written")
def test_what_the_disk_has_refused_is_told_and_not_sealed(ksock: OpenKsock, tmp_path: Path) -> None:
    """What has the name of a whole capture is one, when the disk is looked at anew."""
    if subprocess.run(["modprobe", "-q", "-a", "loop", "ext4"]).returncode:
        pytest.skip("this kernel has no such disk")
    sender = ksock()
    with mounted("-t", "tmpfs", "-o", "size=4m", "none", at=tmp_path / "below") as below:
        image = below / "image"
        with image.open("wb") as file:
            file.truncate(64 * MIB)
        _run("mkfs.ext2", "-q", "-N", "64", image)
        disk = tmp_path / "disk"
        with mounted("-o", "loop", image, at=disk):
            with recording(disk, "--fsync", "0.05", "--rotate-size", "1M") as recorder:
                _feed(sender, recorder)
                recorder.send_signal(signal.SIGTERM)
                status, _, err = recorder.end()
            parts = captures(disk, "lathe-*.part")
        with mounted("-o", "loop,ro", image, at=disk):
            sealed = captures(disk)
            found = records(*sealed)
    assert [each.facts.sequence for each in found] == list(range(1, len(found) + 1))
    assert len(found) >= 64
    # Some kernels say that it is an error of the disk, others that there is no space.
    assert status == 1 and "recording stops: " in err
    assert f"can't finish {parts[0].name}: " in err
    assert f", 0 lost, {len(sealed)} files, " in err
    assert err.endswith(f"{len(parts)} files could not be finished\n")
