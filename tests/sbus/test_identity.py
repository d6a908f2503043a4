# SPDX-License-Identifier: MIT
"""What comes of it when the kernel does not tell which process has connected."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kbus.sbus.identity import Identity

SO_PEERPIDFD = 77


class Untold(socket.socket):
    """A socket that fails to tell of the process at its other end."""

    number = 0

    def getsockopt(self, level: int, option: int, *size: int) -> Any:
        if option == SO_PEERPIDFD:
            raise OSError(self.number, os.strerror(self.number))
        return super().getsockopt(level, option, *size)


@contextmanager
def untold(number: int) -> Iterator[Untold]:
    """A connection whose other end is this process, and with which that fails with this errno."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, Untold(fileno=ours.detach()) as connected:
        connected.number = number
        yield connected


def test_a_kernel_that_cannot_tell() -> None:
    """Before 6.5: then the id must do."""
    with untold(errno.ENOPROTOOPT) as connected:
        identity = Identity(connected)
        assert identity.holds()
        identity.close()


@pytest.mark.parametrize("number", [errno.ESRCH, errno.ENODATA, errno.EINVAL])
def test_rule_a_process_that_has_ended_has_no_identity(number: int) -> None:
    """Not even that of whoever has got its id."""
    with untold(number) as connected:
        assert not Identity(connected).holds()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_rule_without_descriptors_nobody_is_let_in(number: int) -> None:
    with untold(number) as connected, pytest.raises(OSError, match="files") as caught:
        Identity(connected)
    assert caught.value.errno == number
