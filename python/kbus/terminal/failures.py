# SPDX-License-Identifier: MIT
"""What went wrong, and what to do about it."""

from __future__ import annotations

import errno
import os

__all__ = ["Failure", "bind_failure", "no_device", "open_failure", "proc_failure", "send_failure"]

FAILED = 1
USAGE = 2
REPLIER_FAILED = 3
TIMED_OUT = 124


class Failure(Exception):
    """The command can't do what it was asked to. The text says why; ``status`` is what it ends with."""

    def __init__(self, text: str, status: int = FAILED) -> None:
        super().__init__(text)
        self.status = status

    @classmethod
    def usage(cls, text: str) -> Failure:
        """The command line is wrong in a way that only a look at all of it shows."""
        return cls(text, USAGE)

    @classmethod
    def timed_out(cls, text: str) -> Failure:
        """``--timeout`` has run out."""
        return cls(text, TIMED_OUT)


# Of the OSErrors that Ksock and kbus.inspect raise, strerror has the reason and the remedy. One without a
# file is about all of the bus, as when a test bus has gone.


def open_failure(error: OSError) -> Failure:
    """Opening a device has failed."""
    if error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
        return Failure(f"there is no device {error.filename}: {error.strerror}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Failure(f"{error.filename} may not be opened: {error.strerror}")
    return _cannot("open", error)


def no_device(number: int) -> Failure:
    """There is no device of this number."""
    from .. import _refusals as refusals

    error = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    return open_failure(refusals.opening(error, f"/dev/kbus{number}", number))


def proc_failure(error: OSError) -> Failure:
    """Reading a file of /proc/kbus has failed."""
    if error.errno == errno.ENOENT:
        return Failure(f"{error.filename} is not there: {error.strerror}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Failure(f"{error.filename} may not be read: {error.strerror}")
    return _cannot("read", error)


def bind_failure(error: OSError) -> Failure:
    """Binding has failed."""
    return _cannot("bind to", error)


def send_failure(error: OSError) -> Failure:
    """Sending has failed."""
    return _cannot("send", error)


def _cannot(do: str, error: OSError) -> Failure:
    reason = error.strerror or str(error)
    return Failure(reason if error.filename is None else f"can't {do} {error.filename}: {reason}")
