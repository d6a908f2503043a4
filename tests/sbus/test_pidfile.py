# SPDX-License-Identifier: MIT
"""The pid file beside daemons that come and go, and beside others that lock it."""

from __future__ import annotations

import fcntl
import os
from contextlib import closing
from pathlib import Path

import pytest

from kbus.sbus.process import PidFile
from kbus.terminal.failures import Failure


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pid"


def test_rule_it_is_there_although_another_was_just_taken_away(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon before ends after this one has opened its file, and before it is locked."""
    before = [PidFile(str(path))]
    flock = fcntl.flock

    def end_before(fd: int, operation: int) -> None:
        while before:
            before.pop().close()
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", end_before)
    with closing(PidFile(str(path))):
        assert path.read_text() == f"{os.getpid()}\n"
        with pytest.raises(Failure, match="still lives"):
            PidFile(str(path))
    assert not path.exists()


def test_a_file_that_is_anothers_by_then_stays(path: Path) -> None:
    with closing(PidFile(str(path))):
        path.unlink()
        path.write_text("another's")
    assert path.read_text() == "another's"


def test_whoever_locks_it_is_not_taken_for_a_daemon(path: Path) -> None:
    path.write_text("1\n")
    with path.open() as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        with pytest.raises(Failure, match="or another process has locked it"):
            PidFile(str(path))
    PidFile(str(path)).close()


def test_rule_no_link_is_followed(path: Path) -> None:
    """In a directory where everybody may write, it may be a stranger's."""
    precious = path.with_name("precious")
    precious.write_text("precious")
    path.symlink_to(precious)
    with pytest.raises(Failure, match="symbolic links"):
        PidFile(str(path))
    assert precious.read_text() == "precious"
