# SPDX-License-Identifier: MIT
"""Loading and unloading the module, and its parameters. The process must be root in a machine of its own."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kernel import stand_in

MODULE = Path(__file__).parents[2] / "kernel" / "kbus.ko"
KUNIT = ".kunit_test_suites"
PARAMETERS = Path("/sys/module/kbus/parameters")

_SYSTEM_CALLS = {"x86_64": (313, 176), "aarch64": (273, 106), "armv7l": (379, 129)}
_FINIT_MODULE, _DELETE_MODULE = _SYSTEM_CALLS[os.uname().machine]
_libc = ctypes.CDLL(None, use_errno=True)


@functools.cache
def image() -> Path:
    """The module without its KUnit tests, which have run when the virtual machine loaded it."""
    if KUNIT.encode() not in MODULE.read_bytes():
        return MODULE
    stripped = Path(tempfile.mkdtemp(), MODULE.name)
    subprocess.run(["objcopy", f"--rename-section={KUNIT}=.not_run", MODULE, stripped], check=True)
    return stripped


def load(**parameters: int | str) -> None:
    """Insert the module; OSError if it refuses."""
    words = " ".join(f"{name}={value}" for name, value in parameters.items())
    fd = os.open(image(), os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_libc.syscall(_FINIT_MODULE, fd, words.encode(), 0), f"load {MODULE} {words}")
    finally:
        os.close(fd)


def unload() -> None:
    """Remove the module; OSError with EAGAIN while it is in use."""
    _checked(_libc.syscall(_DELETE_MODULE, b"kbus", os.O_NONBLOCK), "unload kbus")


def users() -> int:
    """How many have a device open: also those that are closing it, which /proc does not show any more."""
    return int(Path("/sys/module/kbus/refcnt").read_text())


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)}: {what}")


def is_loaded() -> bool:
    return PARAMETERS.exists()


@contextmanager
def reloaded(**parameters: int | str) -> Iterator[None]:
    """The module loaded anew with these parameters; afterwards anew with the defaults."""
    unload()
    try:
        load(**parameters)
        yield
    finally:
        if is_loaded():
            unload()
        load()


@contextmanager
def parameter(name: str, value: int) -> Iterator[None]:
    """One parameter set in sysfs, and set back afterwards."""
    if stand_in.IS_WANTED:
        with stand_in.parameter(name, value):
            yield
        return
    path = PARAMETERS / name
    before = path.read_text()
    path.write_text(str(value))
    try:
        yield
    finally:
        path.write_text(before)
