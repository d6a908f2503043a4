# SPDX-License-Identifier: MIT
"""What failures say to do. Those that need a KSock to be asked are tested with a device."""

from __future__ import annotations

import errno
import os

import pytest

from kbus.cli.failures import Failure, open_failure, proc_failure


def failed(number: int, filename: str = "") -> OSError:
    return OSError(number, os.strerror(number), filename)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (
            errno.EMFILE,
            "can't open /dev/kbus0: this user has too many KSocks (module parameter max_user_ksocks)",
        ),
        (errno.ENOMEM, "can't open /dev/kbus0: Cannot allocate memory"),
    ],
)
def test_open(number: int, said: str) -> None:
    assert str(open_failure(failed(number), 0)) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (
            errno.ENOENT,
            "/proc/kbus/stats is not there: the kbus module is not loaded;"
            " load it with `modprobe kbus`, or with `insmod kbus.ko` where it was built",
        ),
        (errno.EACCES, "can't read /proc/kbus/stats: Permission denied"),
    ],
)
def test_proc(number: int, said: str) -> None:
    assert str(proc_failure(failed(number, "/proc/kbus/stats"))) == said


def test_statuses() -> None:
    assert Failure("why").status == 1
    assert Failure.usage("why").status == 2
    assert Failure.timed_out("why").status == 124
