# SPDX-License-Identifier: MIT
"""What the disk has when a name appears or goes, in which order, whatever happens to the machine."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbus.capture.files import Policy
from kbus.capture.part import compress
from kbus.capture.recover import recover

from .captures import capture, numbered
from .test_files import blocks, files

Journal = list[tuple[str, str]]


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    """What is really done, in its order: ``sync``, ``rename`` or ``remove``, and the name it is done to."""
    found: Journal = []

    def note(call: str, what: str, name_of: Callable[..., str]) -> None:
        do = getattr(os, call)

        def noting(*args: object, **keys: object) -> None:
            name = name_of(*args)
            do(*args, **keys)
            found.append((what, name))

        monkeypatch.setattr(os, call, noting)

    def opened(fd: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{fd}")).name

    note("fsync", "sync", opened)
    note("fdatasync", "sync", opened)
    note("rename", "rename", lambda source, target: Path(target).name)
    note("unlink", "remove", lambda path: Path(path).name)
    return found


def test_what_is_compressed_goes_when_the_disk_has_the_other(tmp_path: Path, journal: Journal) -> None:
    path = tmp_path / "lathe-0-x.pcapng"
    path.write_bytes(capture(numbered(5)))
    compress(path)
    assert journal == [
        ("sync", "lathe-0-x.pcapng.gz.part"),
        ("rename", "lathe-0-x.pcapng.gz"),
        ("sync", tmp_path.name),
        ("remove", "lathe-0-x.pcapng"),
    ]


def test_what_is_recovered_has_its_name_when_the_disk_has_it(tmp_path: Path, journal: Journal) -> None:
    source, target = tmp_path / "x.pcapng.part", tmp_path / "x.pcapng"
    source.write_bytes(capture(numbered(5))[:-5])
    recover(source, target)
    assert journal == [
        ("sync", "x.pcapng.recovering"),
        ("rename", "x.pcapng"),
        ("sync", tmp_path.name),
    ]


@pytest.mark.parametrize("sync", [math.inf, 0.0, None])
def test_a_file_is_sealed_when_the_disk_has_it(sync: float | None, tmp_path: Path, journal: Journal) -> None:
    """0: also each time that something is written, and that the file is there."""
    one = files(Policy(tmp_path, sync=sync))
    one.append(blocks(1, 10), [10], [0])
    one.tick()
    one.finish()
    (path,) = tmp_path.iterdir()
    name, part = path.name, f"{path.name}.part"
    sealed = [("sync", part), ("rename", name), ("sync", tmp_path.name)]
    assert (
        journal
        == {
            math.inf: sealed,
            0.0: [("sync", tmp_path.name), ("sync", part), *sealed],
            None: [("rename", name)],
        }[sync]
    )
